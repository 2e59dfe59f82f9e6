"""One request in full: the history, the slate, the counts of every stage, and why relevant items were missed."""

from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.data import Dataset, HeldOut
from shortlist.pipeline import Explanation, Recommendation, Recommender, Trace, explain, run
from shortlist.pipeline.recommender import Item
from shortlist.pipeline.trace import StageCounts

SHOWN = 10  # items of the history


@dataclass(frozen=True)
class ExampleItem(Recommendation):
    """One item of the slate, and whether it is relevant."""

    relevant: bool = False


@dataclass(frozen=True)
class LostItem(Item):
    """A relevant item that was not returned."""

    sentence: str
    explanation: Explanation


@dataclass(frozen=True)
class WorkedExample:
    """One held-out request and its answer; `lost` has one relevant item for each stage that lost any."""

    user: int | str
    history: tuple[Item, ...]  # latest first
    items: tuple[ExampleItem, ...]  # the slate
    stages: tuple[StageCounts, ...]
    lost: tuple[LostItem, ...]


def typical_request(recall: Tensor) -> int:
    """The request with the median recall among those with recall above 0."""
    found = torch.nonzero(recall > 0).flatten()
    if not len(found):
        return 0
    return int(found[recall[found].argsort(stable=True)[len(found) // 2]])


def worked_example(bundle: Recommender, data: Dataset, held_out: HeldOut, row: int) -> WorkedExample:
    """The held-out request at `row`, answered by the bundle."""
    request = held_out.take(slice(row, row + 1))
    query = request.query(width=max(int(request.history_lengths()[0]), 1))
    slate, relevant = run(bundle.pipeline, query), request.relevant()[0].tolist()
    history = [item for item in query.history[0].flip(0).tolist() if item >= 0]
    return WorkedExample(
        data.users.id(int(request.users[0])),
        tuple(bundle.item(item) for item in history[:SHOWN]),
        tuple(
            ExampleItem(**vars(one), relevant=bundle.item_row(one.item_id) in relevant)
            for one in bundle.recommendations(slate)
        ),
        slate.trace.counts(),
        _lost(bundle, slate.trace, relevant),
    )


def _lost(bundle: Recommender, trace: Trace, relevant: list[int]) -> tuple[LostItem, ...]:
    """One relevant item that was not returned for each stage that lost any."""
    lost: dict[str, LostItem] = {}
    for row in relevant:
        explanation, item = explain(trace, row), bundle.item(row)
        if explanation.verdict != "returned" and explanation.dropped_at not in lost:
            lost[explanation.dropped_at] = LostItem(
                **vars(item), sentence=explanation.sentence(item.title), explanation=explanation
            )
    return tuple(lost.values())
