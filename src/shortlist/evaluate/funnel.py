"""Which stage lost what: the way of every held-out item through a pipeline, counted."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from shortlist.data.membership import is_in
from shortlist.errors import ConservationError
from shortlist.pipeline import Trace


@dataclass(frozen=True)
class StageLoss:
    """What became of held-out items at one stage: entered = survived + lost."""

    name: str
    kind: str
    entered: int
    survived: int
    lost: int
    removed: int  # of the lost, those a filter said no to
    candidates: float  # per request, after the stage
    ms: float  # per batch


@dataclass(frozen=True)
class Funnel:
    """Held-out items from the first stage to the slate; what no nominator named is lost at the first stage."""

    wanted: int
    stages: tuple[StageLoss, ...]
    nominators: dict[str, dict[str, int]]  # held-out items each named, and those nobody else did

    @property
    def returned(self) -> int:
        return self.stages[-1].survived if self.stages else 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "wanted": self.wanted,
            "returned": self.returned,
            "stages": [asdict(stage) for stage in self.stages],
            "nominators": self.nominators,
        }


@dataclass(frozen=True, eq=False)
class Passage:
    """One batch: for every stage, which requests' wanted items were still there."""

    wanted: int
    survived: tuple[int, ...]
    removed: tuple[int, ...]
    kept: tuple[int, ...]
    ms: tuple[float, ...]
    requests: int
    named: dict[str, int]
    alone: dict[str, int]


def passage(trace: Trace, truth: Tensor) -> Passage:
    """Count the held-out items [B, R] of a traced batch, stage by stage."""
    named = trace.named
    wanted = is_in(named.items, truth) & named.valid  # [B, K0]
    left = [(wanted & (trace.fate == number)).sum() for number in range(len(trace.steps))]
    removed = [
        (wanted & (trace.fate == number) & trace.removed_by_filter).sum() for number in range(len(left))
    ]
    survived = wanted.sum() - torch.stack(left).cumsum(0)
    ranks = {
        part.name: ~torch.isnan(named.columns[f"{part.name}.rank"]) & wanted for part in trace.steps[0].parts
    }
    said = torch.stack([*ranks.values()]).sum(0) if ranks else wanted.long()
    return Passage(
        int((truth >= 0).sum()),
        tuple(survived.tolist()),
        tuple(int(count) for count in removed),
        tuple(int(step.kept.sum()) for step in trace.steps),
        tuple(step.ms for step in trace.steps),
        len(truth),
        {name: int(by.sum()) for name, by in ranks.items()},
        {name: int((by & (said == 1)).sum()) for name, by in ranks.items()},
    )


def funnel(trace: Trace, passages: Sequence[Passage]) -> Funnel:
    """The batches of one pipeline added up; the stages are those of `trace`."""
    wanted = sum(one.wanted for one in passages)
    requests = max(sum(one.requests for one in passages), 1)
    stages, entered = [], wanted
    for number, step in enumerate(trace.steps):
        survived = sum(one.survived[number] for one in passages)
        stages.append(
            StageLoss(
                step.name,
                step.kind,
                entered,
                survived,
                entered - survived,
                sum(one.removed[number] for one in passages),
                sum(one.kept[number] for one in passages) / requests,
                sum(one.ms[number] for one in passages) / max(len(passages), 1),
            )
        )
        entered = survived
    return _balanced(Funnel(wanted, tuple(stages), _nominators(passages)))


def _nominators(passages: Sequence[Passage]) -> dict[str, dict[str, int]]:
    names = passages[0].named if passages else {}
    return {
        name: {
            "named": sum(one.named[name] for one in passages),
            "alone": sum(one.alone[name] for one in passages),
        }
        for name in names
    }


def _balanced(told: Funnel) -> Funnel:
    if told.wanted != told.returned + sum(stage.lost for stage in told.stages):
        raise ConservationError("funnel: wanted items are not returned + lost")
    return told
