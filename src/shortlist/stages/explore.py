"""Softmax-sampled slates with logged propensities."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.grammar import Knob, Selector, Stage
from shortlist.settings import setting

PROPENSITY = "propensity"


@dataclass(frozen=True, eq=False, repr=False)
class Explore(Selector):
    """Sample without replacement by softmax(score / temperature); the column `propensity` holds the probabilities.

    A propensity is the probability of an item given the items sampled before it in the same slate. Randomness comes
    from the request's seed and the item alone, so a request gets the same slate in every batch.
    """

    temperature: float = setting(0.1, "Softmax temperature: higher samples more evenly.", least=1e-9)

    def select(self, query: Query, found: Candidates) -> Tensor:
        # The largest of logit + Gumbel noise are a sample without replacement from the softmax.
        noisy = self._logits(found) + gumbel(query.seed, found.items)
        noisy = noisy.masked_fill(~found.valid, -torch.inf)
        positions = noisy.sort(dim=1, descending=True, stable=True).indices[:, : self.k]
        return torch.where(found.valid.gather(1, positions), positions, -1)

    def selection_columns(self, query: Query, found: Candidates, positions: Tensor) -> Mapping[str, Tensor]:
        if positions.shape[1] == 0:
            return {PROPENSITY: positions.to(torch.float32)}
        logits = self._logits(found)
        sampled = logits.gather(1, positions.clamp(min=0)).masked_fill(positions < 0, -torch.inf)  # [B, k]
        rest = torch.cat([logits, logits[:, :1]], dim=1)  # empty places are scattered to an extra column
        rest = rest.scatter(1, positions.masked_fill(positions < 0, logits.shape[1]), -torch.inf)
        never = rest[:, :-1].logsumexp(1, keepdim=True)  # [B, 1] items that are not sampled
        # Available at each draw: the items that are never sampled, and those sampled from this draw on.
        later = sampled.flip(1).logcumsumexp(1).flip(1)
        propensity = (sampled - torch.logaddexp(never, later)).exp()
        return {PROPENSITY: torch.where(positions >= 0, propensity, 0.0).to(torch.float32)}

    def knobs(self) -> tuple[Knob, ...]:
        return (*super().knobs(), Knob("temperature", self.temperature, "off"))

    def switched_off(self, knob: str) -> Stage:
        return Best(k=self.k, name=self.title) if knob == "temperature" else super().switched_off(knob)

    def _logits(self, found: Candidates) -> Tensor:
        # float64, and a floor that the noise still separates: items without a finite score are equally likely.
        logits = (found.sort_keys().to(torch.float64) / self.temperature).clamp(min=-1e9)
        return logits.masked_fill(~found.valid, -torch.inf)


@dataclass(frozen=True, eq=False, repr=False)
class Best(Selector):
    """The k best candidates by score."""

    def select(self, query: Query, found: Candidates) -> Tensor:
        return found.sort_keys().sort(dim=1, descending=True, stable=True).indices[:, : self.k]


def gumbel(seed: Tensor, items: Tensor) -> Tensor:
    """Gumbel noise [B, K] that depends on the seed [B] and the item alone."""
    mixed = _mix(_mix(seed[:, None] + 0x632BE59BD9B4E019) ^ _mix(items + 0x2545F4914F6CDD1D))
    uniform = ((mixed >> 11) & ((1 << 52) - 1)).to(torch.float64) * 2.0**-52 + 2.0**-53
    return -torch.log(-torch.log(uniform)).to(torch.float32)


def _mix(value: Tensor) -> Tensor:
    """Scatter the bits of 64-bit integers (the finaliser of splitmix64, with signed shifts made unsigned)."""
    value = (value ^ _shift(value, 30)) * -0x40A7B892E31B1A47
    value = (value ^ _shift(value, 27)) * -0x6B2FB644ECCEEE15
    return value ^ _shift(value, 31)


def _shift(value: Tensor, bits: int) -> Tensor:
    return (value >> bits) & ((1 << (64 - bits)) - 1)
