"""The settings of a trainer that can learn from requests of a full-stage log, written once."""

from dataclasses import dataclass, fields

from shortlist.errors import ConfigError
from shortlist.settings import setting
from shortlist.train.objectives.listwise import ssm
from shortlist.train.objectives.registry import (
    NEXT_OBJECTIVES,
    OBJECTIVES,
    Entry,
    Objective,
    ObjectiveSettings,
)
from shortlist.train.objectives.relabel import LADDERS, Ladder, lowest_stage, reindex

SOFTMAX = "softmax"
NO_PARAMETERS = Entry(ssm, binary=True)  # what softmax reads
MAX_WEIGHT = 100.0  # of a candidate, 1 / incl_prob is clipped to it


@dataclass(frozen=True)
class LoggedListSettings:
    """Which candidates of a full-stage log a trainer uses, with which labels and weights."""

    ladder: str = setting(
        "consecutive",
        "Labels of logged candidates by the last stage they passed and their feedback.",
        choices=tuple(LADDERS),
    )
    lowest_stage: int = setting(
        -1,
        "Logged candidates that passed at least this many stages are trained on; -1: all that reach the stage.",
        least=-1,
        most=127,
    )
    stage_negatives: tuple[int, ...] = setting(
        (),
        "Negatives per positive of a logged request: shown ones, then those of each stage from the last to the first.",
        least=0,
        most=100_000,
    )
    ht_weight: bool = setting(
        False, "Weight logged candidates by 1 / inclusion probability, at most 100, in the loss."
    )

    def first_stage(self, stage: int, n_stages: int) -> int:
        """j: stage `stage` is trained on candidates with S >= j."""
        j = None if self.lowest_stage < 0 else self.lowest_stage
        found = lowest_stage(stage, n_stages, j)
        if found < stage - 1:
            raise ConfigError(
                f"lowest_stage = {found}: candidates that passed {found} stages never reach stage {stage}; expected "
                f"{stage - 1} to {n_stages}"
            )
        return found

    def counts(self, stage: int, n_stages: int) -> dict[int, int]:
        """Negatives per positive of every stratum S, highest first; empty: all logged candidates."""
        strata = range(n_stages, self.first_stage(stage, n_stages) - 1, -1)
        if len(self.stage_negatives) > len(strata):
            raise ConfigError(
                f"stage_negatives has {len(self.stage_negatives)} numbers, but stage {stage} of {n_stages} gets "
                f"candidates of {len(strata)} strata: shown ones, and those of each stage before"
            )
        return dict(zip(strata, self.stage_negatives, strict=False))

    def labels(self, stage: int, n_stages: int) -> Ladder:
        """The ladder in use at a stage: consecutive again where strata are not trained on."""
        used = set(range(self.first_stage(stage, n_stages), n_stages + 1))
        counts = self.counts(stage, n_stages)
        used = {one for one in used if not counts or counts.get(one, 0)}
        return reindex(LADDERS[self.ladder](n_stages), set(range(n_stages + 1)) - used)


@dataclass(frozen=True)
class FullStageSettings(LoggedListSettings, ObjectiveSettings):
    """The objective of a trainer, and what a full-stage log says about labels; a trainer inherits these fields."""

    objective: str = setting(
        SOFTMAX,
        "What is minimised on each list; softmax: positives against all others, each positive counts the same. "
        "lcron, icc and rankflow read the logged scores of the next stage; requests that are not logged: softmax.",
        choices=(SOFTMAX, *OBJECTIVES, *NEXT_OBJECTIVES),
    )

    def list_loss(self, relevant_from: float = 1.0) -> Objective | None:
        """The objective; None for softmax, which trainers compute themselves."""
        if self.objective != SOFTMAX:
            return self.list_objective(relevant_from)
        self._refuse_unread(NO_PARAMETERS)
        return None

    @property
    def with_next(self) -> bool:
        """Whether the objective reads the logged scores of the next stage."""
        return self.objective in NEXT_OBJECTIVES

    @property
    def reads_cuts(self) -> bool:
        """Whether the objective reads what a log says about the cuts of stages."""
        return self.with_next or (self.objective in OBJECTIVES and OBJECTIVES[self.objective].cuts)

    def check_next(self, stage: int, n_stages: int) -> None:
        """Refuse an objective with the next stage where the log has no scores of one."""
        if self.with_next:
            raise ConfigError(
                f"objective = {self.objective!r} needs logged scores of a stage after stage {stage} of {n_stages}, got "
                "none; choose another objective for the last stage that scores"
            )


def settings_names() -> tuple[str, ...]:
    """The names of all settings of `FullStageSettings`."""
    return tuple(one.name for one in fields(FullStageSettings))
