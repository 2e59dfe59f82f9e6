"""The evaluation protocol: the rules that must be equal for two numbers to be comparable."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shortlist.data.split import REQUESTS
from shortlist.grammar import Pipeline, Stage, leaves
from shortlist.stages import Seen

SPLITS = {
    "half-history": "users are held out; the first half of their events is the history, the items of the rest are "
    "relevant",
    "global-time": "events before a point in time are for training; the items of later events are relevant",
    "leave-last-out": "the last event of every user is for test, the one before it for validation",
}


@dataclass(frozen=True)
class Protocol:
    """How held-out requests were made and how slates were scored."""

    split: str
    settings: Mapping[str, Any]  # of the split
    on: str  # "test" or "valid"
    users: int
    seen_items: str  # what happens to items of the user's history
    ties: str = (
        "baselines and single models order equal scores by item row; in a pipeline equal scores keep the order of "
        "the nominators"
    )
    duplicates: str = "an item with several held-out events counts once"
    catalog: str = "all items are ranked, without sampled negatives"
    baselines: str = "counted over the training events only, items of the history left out"

    def rows(self) -> dict[str, str]:
        """Every rule as a label and a sentence, for tables."""
        settings = ", ".join(f"{key} {value}" for key, value in self.settings.items())
        return {
            "protocol": f"{self.split}: {SPLITS.get(self.split, 'a custom protocol')}",
            "settings": settings or "none",
            "users": f"{self.users:,} users of the {self.on} part{self._sample}",
            "ties": self.ties,
            "duplicates": self.duplicates,
            "catalogue": self.catalog,
            "baselines": self.baselines,
            "seen items": self.seen_items,
        }

    @property
    def _sample(self) -> str:
        """Where only some of the requests are measured, that they are."""
        return ", a random sample of its requests" if self.settings.get(REQUESTS) == self.users else ""


def protocol_of(
    settings: Mapping[str, Any],
    on: str,
    users: int,
    pipelines: Mapping[str, Pipeline],
    baselines: str = Protocol.baselines,
) -> Protocol:
    """The protocol of an evaluation of some pipelines; `settings` are those of the split."""
    split = str(settings.get("protocol", "half-history"))
    rest = {key: value for key, value in settings.items() if key != "protocol"}
    return Protocol(split, rest, on, users, _seen_rules(pipelines), baselines=baselines)


def _seen_rules(pipelines: Mapping[str, Pipeline]) -> str:
    """One rule where all pipelines have the same, else the rule of each."""
    rules = {name: seen_rule(pipeline) for name, pipeline in pipelines.items()}
    if len(set(rules.values())) == 1:
        return next(iter(rules.values()))
    return "; ".join(f"{name}: {rule}" for name, rule in rules.items())


def seen_rule(pipeline: Pipeline) -> str:
    """What a pipeline does with items of the user's history; nominators that can return some are listed."""
    excluded = _excluded(pipeline)
    if len({count for _, count in excluded}) == 1:
        return _rule(excluded[0][1])
    partial = sorted({count for _, count in excluded if count < math.inf})
    parts = ((count, ", ".join(name for name, own in excluded if own == count)) for count in partial)
    return " and ".join(f"{_returnable(count)} from {names}" for count, names in parts)


def _excluded(stage: Stage) -> list[tuple[str, float]]:
    """Every nominator, and how many of the latest items are excluded from its nominations, by itself or later."""
    if not stage.children():
        return [(stage.title, _excludes(stage))]
    if isinstance(stage, Pipeline):
        first, *later = stage.stages
        after = max((_excludes(leaf) for step in later for leaf in leaves(step)), default=0)
        return [(name, max(count, after)) for name, count in _excluded(first)]
    return [pair for child in stage.children() for pair in _excluded(child)]


def _excludes(stage: Stage) -> float:
    """How many of the latest items a stage without children excludes."""
    if isinstance(stage, Seen):
        return stage.last or math.inf
    return math.inf if getattr(stage, "exclude_seen", False) else 0


def _rule(count: float) -> str:
    if count in (0, math.inf):
        return "left out" if count else "can be returned"
    return f"the last {count:.0f} are left out, older ones can be returned"


def _returnable(count: float) -> str:
    return f"those older than the last {count:.0f} can be returned" if count else "can be returned"
