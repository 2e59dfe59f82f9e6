"""Why a pipeline that was composed for a log looks as it does, and how it compares with single models."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shortlist.metrics.significance import Interval


@dataclass(frozen=True)
class ComparedModel:
    """A single model on the validation requests of the pipeline."""

    name: str
    recall: float  # recall@20
    difference: Interval  # recall@20 of the pipeline minus that of the model, on the same requests


@dataclass(frozen=True)
class PlanReport:
    """The reasons of `shortlist plan`, and what training found: dropped nominators, compared models, the verdict."""

    minutes: float = 0.0  # time budget
    reasons: Mapping[str, str] = field(default_factory=dict)  # by key of the recipe, like "stages.ease"
    left_out: Mapping[str, str] = field(default_factory=dict)  # by stage that is not in the plan
    dropped: Mapping[str, str] = field(default_factory=dict)  # by nominator of the plan that added nothing
    requests: int = 0  # validation requests of the comparison
    recall: float | None = None  # recall@20 of the pipeline on those; None: not compared
    compared: tuple[ComparedModel, ...] = ()
    verdict: str = ""


def plan_report_from(stored: Mapping[str, Any]) -> PlanReport:
    """A report from its JSON form."""
    compared = tuple(
        ComparedModel(one["name"], one["recall"], Interval(**one["difference"])) for one in stored["compared"]
    )
    return PlanReport(**{**stored, "compared": compared})
