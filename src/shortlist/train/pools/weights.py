"""Weights of training examples by who nominated the item: train on all, train on own, importance weights."""

from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.errors import ConfigError, did_you_mean

KINDS = ("all", "own_pool", "own_pick", "mix", "ips", "gate")
DEFAULT_CLIP = 10.0


@dataclass(frozen=True, eq=False)
class Nominations:
    """What is known about the shown item of each example, for each nominator [..., N]."""

    in_pool: Tensor  # bool: the item is in the nominator's pool
    picked: Tensor  # bool: the nominator nominated it
    own_policy: Tensor | None = None  # probability that the nominator's policy nominates it
    shown: Tensor | None = None  # [...] probability that the system showed it
    responsibility: Tensor | None = None  # of the nominators for it by a gate


@dataclass(frozen=True)
class WeightRule:
    """How much an example counts when a nominator is trained.

    `all`: every example counts. `own_pool`: those whose item is in the nominator's pool. `own_pick`: those whose item
    it nominated. `mix`: 1 inside its pool, `beta` outside. `ips`: the probability that its own policy nominates the
    item over the probability that the system showed it, at most `clip`. `gate`: the responsibility of a gate.
    """

    kind: str = "all"
    beta: float = 0.0
    clip: float = DEFAULT_CLIP

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(
                f"weight rule: expected {', '.join(KINDS)}, got {self.kind!r}{did_you_mean(self.kind, KINDS)}"
            )
        if not 0 <= self.beta <= 1:
            raise ConfigError(f"weight rule: expected beta from 0 to 1, got {self.beta}")
        if not self.clip > 0:
            raise ConfigError(f"weight rule: expected clip above 0, got {self.clip}")

    @classmethod
    def parse(cls, text: str) -> "WeightRule":
        """A rule from its name, with `mix:BETA` and `ips:CLIP`."""
        kind, _, value = text.partition(":")
        if kind == "mix" and not value:
            raise ConfigError(
                "weight rule: expected a number from 0 to 1 after mix:, such as mix:0.3, got mix"
            )
        if not value:
            return cls(kind)
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if kind == "mix":
            return cls(kind, beta=number)
        if kind == "ips":
            return cls(kind, clip=number)
        raise ConfigError(f"weight rule: expected a number only after mix: or ips:, got {text!r}")

    @property
    def needs_propensities(self) -> bool:
        return self.kind == "ips"

    def weights(self, known: Nominations) -> Tensor:
        """The weight of each example for each nominator [..., N]."""
        if self.kind == "all":
            return torch.ones_like(known.in_pool, dtype=torch.get_default_dtype())
        if self.kind == "own_pool":
            return known.in_pool.to(torch.get_default_dtype())
        if self.kind == "own_pick":
            return known.picked.to(torch.get_default_dtype())
        if self.kind == "mix":
            return known.in_pool.to(torch.get_default_dtype()).clamp(min=self.beta)
        return self._importance(known) if self.kind == "ips" else self._gated(known)

    def _importance(self, known: Nominations) -> Tensor:
        if known.own_policy is None or known.shown is None:
            raise ConfigError(
                "weight rule ips: expected the probabilities with which items were nominated and shown, got none; "
                "let nominators explore (epsilon above 0) and log their propensities, or use own_pool"
            )
        if bool((known.shown <= 0).any()):
            raise ConfigError(
                "weight rule ips: expected a probability above 0 for every shown item, got 0; "
                "log the propensities of the policy that showed the items"
            )
        return (known.own_policy / known.shown[..., None]).clamp(max=self.clip)

    def _gated(self, known: Nominations) -> Tensor:
        if known.responsibility is None:
            raise ConfigError("weight rule gate: expected the responsibilities of a gate, got none")
        return known.responsibility
