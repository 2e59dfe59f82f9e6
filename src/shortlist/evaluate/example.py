"""One request worked out in full: what the user had met, what was answered, what was missed and why."""

from typing import Any

import torch

from shortlist.data import Dataset, HeldOut
from shortlist.evaluate.evaluation import longest
from shortlist.pipeline import Recommender, explain, run

SHOWN = 10


def worked_example(
    recommender: Recommender, dataset: Dataset, cases: HeldOut, row: int, seed: int
) -> dict[str, Any]:
    """The case at `row`, told in titles."""
    case = cases.take(slice(row, row + 1))
    query = case.query(width=longest(case))
    slate = run(recommender.pipeline, query)
    wanted = set(case.relevant()[0].tolist())
    items = recommender.recommendations(slate)
    for one in items:
        one["wanted"] = recommender.item_row(one["item_id"]) in wanted
    met = [item for item in query.history[0].flip(0).tolist() if item >= 0]
    return {
        "user": dataset.users.id(int(case.users[0])),
        "history": [recommender.item(item) for item in met[:SHOWN]],
        "items": items,
        "stages": slate.trace.counts(),
        "lost": _lost(recommender, slate.trace, case.relevant()[0]),
    }


def _lost(recommender: Recommender, trace: Any, truth: torch.Tensor) -> list[dict[str, Any]]:
    """Some held-out items that were not returned, one for each stage that dropped any."""
    found: dict[str, dict[str, Any]] = {}
    for item in truth[truth >= 0].tolist():
        told = explain(trace, item)
        if told.verdict != "returned" and told.dropped_at not in found:
            title = recommender.catalog.title(item)
            found[told.dropped_at] = {
                **recommender.item(item),
                "sentence": told.sentence(title),
                **told.as_dict(),
            }
    return list(found.values())
