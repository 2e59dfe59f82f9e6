"""A slate drawn by chance, with the odds on record."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError
from shortlist.grammar import Knob, Selector, Stage

PROPENSITY = "propensity"


@dataclass(frozen=True, eq=False, repr=False)
class Explore(Selector):
    """Draw without replacement with odds exp(score / temperature); the column `propensity` holds each draw's probability.

    The probability is that of the draw given the draws before it in the same slate. All chance comes from the
    request's seed and the item, so the same request is answered alike whatever stands beside it in a batch.
    """

    temperature: float = 0.1

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ConfigError(f"explore {self.title!r}: temperature must be above 0, got {self.temperature}")

    def knobs(self) -> tuple[Knob, ...]:
        return (*super().knobs(), Knob("temperature", self.temperature, "off"))

    def switched_off(self, knob: str) -> Stage:
        return Best(name=self.title, k=self.k)

    def select(self, query: Query, found: Candidates) -> Tensor:
        # The largest of logit + Gumbel noise are a draw without replacement by softmax odds.
        noisy = self._logits(found) + gumbel(query.seed, found.items)
        noisy = noisy.masked_fill(~found.valid, -torch.inf)
        positions = noisy.sort(dim=1, descending=True, stable=True).indices[:, : self.k]
        return torch.where(found.valid.gather(1, positions), positions, -1)

    def selection_columns(self, query: Query, found: Candidates, positions: Tensor) -> Mapping[str, Tensor]:
        if positions.shape[1] == 0:
            return {PROPENSITY: positions.to(torch.float32)}
        logits = self._logits(found)
        drawn = logits.gather(1, positions.clamp(min=0)).masked_fill(positions < 0, -torch.inf)  # [B, k]
        urn = torch.cat([logits, logits[:, :1]], dim=1)  # empty places draw from a place of their own
        urn = urn.scatter(1, positions.masked_fill(positions < 0, logits.shape[1]), -torch.inf)
        left = urn[:, :-1].logsumexp(1, keepdim=True)  # [B, 1] what is never drawn
        # What is still in the urn at each draw: the never drawn, and the draws from this one on.
        later = drawn.flip(1).logcumsumexp(1).flip(1)
        odds = (drawn - torch.logaddexp(left, later)).exp()
        return {PROPENSITY: torch.where(positions >= 0, odds, 0.0).to(torch.float32)}

    def _logits(self, found: Candidates) -> Tensor:
        # Doubles, and a floor that noise still tells apart: draws among broken scores are as likely as they claim.
        logits = (found.sort_keys().to(torch.float64) / self.temperature).clamp(min=-1e9)
        return logits.masked_fill(~found.valid, -torch.inf)


@dataclass(frozen=True, eq=False, repr=False)
class Best(Selector):
    """The k candidates with the highest scores."""

    def select(self, query: Query, found: Candidates) -> Tensor:
        order = found.standing().sort(dim=1, descending=True, stable=True).indices[:, : self.k]
        return torch.where(found.valid.gather(1, order), order, -1)


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
