"""Systems of a bandit: one stage, or nominators with a ranker."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from shortlist.errors import ConfigError
from shortlist.nominate.pools import Pools
from shortlist.train.pools import WeightRule

UCB, GREEDY, ORACLE = "U", "G", "O"
RANKERS, NOMINATORS = (UCB, GREEDY, ORACLE), (UCB, GREEDY)
TIES = ("first", "random")

MakePools = Callable[[int, int, int], Pools]  # of arms, nominators and seed


@dataclass(frozen=True)
class System:
    """Nominators with `subset` features each and a ranker with all of them; without a ranker a single stage.

    U is a UCB policy, G a greedy one, O an oracle that picks the best candidate.
    """

    nominator: str
    n_nominators: int
    subset: int
    ranker: str | None = None
    alpha_nominator: float | None = None  # exploration of UCB, in place of that of the settings
    alpha_ranker: float | None = None

    def __post_init__(self) -> None:
        if self.nominator not in NOMINATORS or self.ranker not in (None, *RANKERS):
            raise ConfigError(
                f"bandit: expected nominators {' or '.join(NOMINATORS)} and a ranker {', '.join(RANKERS)} or none, "
                f"got {self.nominator!r} and {self.ranker!r}"
            )
        if self.n_nominators < 1 or (self.ranker is None and self.n_nominators != 1):
            raise ConfigError(
                f"bandit: expected at least one nominator, exactly one without a ranker, got {self.n_nominators}"
            )
        for alpha in (self.alpha_nominator, self.alpha_ranker):
            if alpha is not None and not 0 <= alpha < float("inf"):
                raise ConfigError(f"bandit: expected an exploration of at least 0, got {alpha}")

    @property
    def name(self) -> str:
        """`RANKER+NOMINATOR`, or the policy of a single stage."""
        return self.nominator if self.ranker is None else f"{self.ranker}+{self.nominator}"


@dataclass(frozen=True)
class BanditSettings:
    """How all systems of a simulation learn and play."""

    penalty: float = 1.0
    alpha_ranker: float = 0.5
    alpha_nominator: float = 0.5
    rule: WeightRule = field(default_factory=WeightRule)
    epsilon: float = 0.0  # probability that a nominator nominates any item of its pool
    tie: str = "first"
    same_masks: bool = False  # all nominators have the features of the first
    dtype: torch.dtype = torch.float64
    device: str = "cpu"
    record_every: int = 50

    def __post_init__(self) -> None:
        if self.tie not in TIES:
            raise ConfigError(f"bandit: expected ties {' or '.join(TIES)}, got {self.tie!r}")
        if self.dtype not in (torch.float32, torch.float64):
            raise ConfigError(f"bandit: expected float32 or float64, got {self.dtype}")
        if not 0 < self.penalty < float("inf"):
            raise ConfigError(f"bandit: expected a finite penalty above 0, got {self.penalty}")
        for alpha in (self.alpha_ranker, self.alpha_nominator):
            if not 0 <= alpha < float("inf"):
                raise ConfigError(f"bandit: expected a finite exploration of at least 0, got {alpha}")
        if not 0 <= self.epsilon <= 1:
            raise ConfigError(f"bandit: expected epsilon from 0 to 1, got {self.epsilon}")
        if self.rule.kind == "gate":
            raise ConfigError(
                "bandit: expected a weight rule without a gate, got gate; the simulation has none"
            )
        if self.rule.needs_propensities and not self.epsilon > 0:
            raise ConfigError(
                "bandit: expected epsilon above 0 for the weight rule ips, got 0: policies without exploration "
                "have no propensities for the items they never nominate"
            )
        if self.record_every < 1:
            raise ConfigError(f"bandit: expected record_every of at least 1, got {self.record_every}")

    def alphas_of(self, system: System) -> tuple[float, float]:
        """Exploration of the nominators and of the ranker of a system; 0 is greedy."""
        return (
            _alpha(system.nominator, system.alpha_nominator, self.alpha_nominator),
            _alpha(system.ranker, system.alpha_ranker, self.alpha_ranker),
        )

    def as_json(self) -> dict[str, Any]:
        """The settings in plain types."""
        plain = {
            name: getattr(self, name)
            for name in (
                "penalty",
                "alpha_ranker",
                "alpha_nominator",
                "epsilon",
                "tie",
                "same_masks",
                "device",
            )
        }
        rule = {"rule": self.rule.kind, "beta": self.rule.beta, "clip": self.rule.clip}
        return {**plain, **rule, "dtype": str(self.dtype).removeprefix("torch.")}


def _alpha(policy: str | None, own: float | None, usual: float) -> float:
    if policy != UCB:
        return 0.0
    return usual if own is None else own


def check_systems(systems: Sequence[System], width: int) -> None:
    """Refuses subsets that no nominator can have."""
    for one in systems:
        if not 1 <= one.subset <= width:
            raise ConfigError(f"bandit: expected 1 to {width} features for a nominator, got {one.subset}")
    if not systems:
        raise ConfigError("bandit: expected at least one system, got none")
