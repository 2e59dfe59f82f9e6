"""The stages that were chosen so far, with the reason of each choice."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shortlist.pipeline import Recipe
from shortlist.pipeline.recipe import StageConfig
from shortlist.train.auto.budget import Budget

SLATE = 20  # items of a slate


@dataclass(frozen=True)
class Composed:
    """The nominators and the ranker so far, and the reason of each choice."""

    stages: Mapping[str, StageConfig] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)  # by nominator
    training: Mapping[str, Any] = field(default_factory=dict)  # the table [train]
    reasons: Mapping[str, str] = field(default_factory=dict)  # by key
    left_out: Mapping[str, str] = field(default_factory=dict)  # by stage
    seconds: Mapping[str, float] = field(default_factory=dict)  # by stage, in the whole training
    measured: int | None = None  # held-out requests of each part at most; None: all
    budget: Budget = field(default_factory=lambda: Budget(0.0))

    def with_stage(
        self, name: str, config: StageConfig, reason: str, limit: int = 0, seconds: float = 0.0, **more: str
    ) -> "Composed":
        """One more stage; `more` are reasons of its training settings."""
        because = {f"stages.{name}.type": reason} | {
            f"stages.{name}.train.{k}": one for k, one in more.items()
        }
        return replace(
            self,
            stages={**self.stages, name: config},
            limits={**self.limits, **({name: limit} if limit else {})},
            reasons={**self.reasons, **because},
            seconds={**self.seconds, name: seconds},
            budget=self.budget.less(seconds),
        )

    def without(self, name: str, reason: str) -> "Composed":
        """One more stage that is left out."""
        return replace(self, left_out={**self.left_out, name: reason})

    def spending(self, name: str, seconds: float) -> "Composed":
        """Time that belongs to no stage."""
        return replace(self, seconds={**self.seconds, name: seconds}, budget=self.budget.less(seconds))

    def because(self, key: str, reason: str) -> "Composed":
        """One more reason."""
        return replace(self, reasons={**self.reasons, key: reason})

    @property
    def expression(self) -> str:
        """The pipeline in one line: the pool, then the ranker if there is one."""
        pool = " + ".join(f"{name} % {limit}" for name, limit in self.limits.items())
        return f"{pool} >> rank % {SLATE}" if "rank" in self.stages else fused(pool)

    def recipe(self) -> Recipe:
        """The recipe that is trained."""
        return Recipe("auto", self.expression, dict(self.stages), dict(self.training), "auto")


def fused(pool: str) -> str:
    """A slate of a pool without a ranker: ranks are fused."""
    return f"({pool}) % {SLATE}" if " + " in pool else pool
