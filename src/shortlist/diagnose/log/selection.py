"""Selection models: can the choice of a stage be predicted from user and item alone, or does it depend on the set?

Shared by logs that are read from disk and by simulations: rows are arrays, features are a function of the stage.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from shortlist.diagnose.log.stage_rows import scoring_stages, stage_inputs
from shortlist.errors import DataError
from shortlist.feedback.record import Array, LoggedRequests
from shortlist.metrics.funnel.pair_counts import Floats, Ints, sums
from shortlist.metrics.funnel.set_dependence import (
    TEST_SHARE,
    SetDependence,
    assumption1_report,
    later_requests,
)

PRIOR = 5.0  # rows with the mean of all that are added to the mean of an item or user
SCORES, MEANS = "scores", "means"

Features = Callable[[int], Floats]  # number of a stage -> features of all rows [n, F]


@dataclass(frozen=True, eq=False)
class SelectionTable:
    """Candidates of requests [n]; `reached` is S, `score` [n, T] may be anything where a stage did not score."""

    request: Ints
    time: Ints
    reached: Ints
    incl_prob: Floats
    score: Floats


@dataclass(frozen=True)
class SelectionModel:
    """Models that predict whether a stage keeps a candidate, fitted on earlier requests and measured on later ones."""

    stage: str
    features: str
    report: SetDependence


def selection_models(
    table: SelectionTable, features: Mapping[str, Features], stages: Mapping[int, str]
) -> tuple[SelectionModel, ...]:
    """A model for every set of features and every stage, by number and name."""
    return tuple(
        SelectionModel(stages[number], name, report)
        for name, own in features.items()
        for number in stages
        for report in assumption1_report(
            own(number), table.score, table.reached, table.request, table.time, table.incl_prob, (number,)
        ).values()
    )


def log_selection(
    record: LoggedRequests, stages: tuple[str, ...]
) -> tuple[tuple[SelectionModel, ...], tuple[str, ...]]:
    """Models of all stages of logged requests that drop candidates by an order, and why others have none.

    "scores" are those of the stage and of the stages before it, "means" the mean scores of the item and of the user in
    earlier requests.
    """
    found, notes = list[SelectionModel](), list[str]()
    for number, name in enumerate(stages, start=1):
        scored = [one for one in scoring_stages(record) if one <= number]
        if scored:
            try:
                found += _log_models(record, number, name, scored)
            except DataError as error:
                notes.append(f"{name}: no selection model: {error}")
    return tuple(found), tuple(notes)


def _log_models(
    record: LoggedRequests, number: int, name: str, scored: list[int]
) -> tuple[SelectionModel, ...]:
    scores = record.scores[:, [one - 1 for one in scored]].astype(np.float64)  # [C, F]
    part = record.only(rows := np.flatnonzero(stage_inputs(record, number) & np.isfinite(scores).all(1)))
    own = np.zeros((len(rows), number))
    own[:, number - 1] = scores[rows, -1]  # set statistics are those of the last score at or before the stage
    request, reached = part.request, part.stage.astype(np.int64)
    if not (reached >= number).any() or (reached >= number).all():
        return ()  # a stage that drops nothing, or of which no drops are logged
    table = SelectionTable(request, part.ts_ms[request], reached, part.incl_prob.astype(np.float64), own)
    known: dict[str, Features] = {
        SCORES: lambda _: scores[rows],
        MEANS: lambda _: _means(part, table, number),
    }
    return selection_models(table, known, {number: name})


def _means(part: LoggedRequests, table: SelectionTable, number: int) -> Floats:
    """Mean score of the item and of the user over the training requests, without the row itself [n, 2]."""
    used = np.unique(table.request, return_inverse=True)[1]
    earlier = ~later_requests(used, table.time, TEST_SHARE)
    score = table.score[:, number - 1]
    owners = (part.item_id, part.user_id[part.request])
    return np.stack([mean_without_own(_numbers(one), score, earlier) for one in owners], axis=1)


def mean_without_own(owner: Ints, score: Floats, counted: Array) -> Floats:
    """Mean score of the counted rows with the same owner 0..N-1, less the row itself, shrunk to the mean of all [n]."""
    overall = float(score[counted].mean()) if counted.any() else 0.0
    total = sums(owner, np.where(counted, score - overall, 0.0))[owner] - np.where(
        counted, score - overall, 0.0
    )
    count = sums(owner, counted.astype(np.float64))[owner] - counted
    return np.asarray(overall + total / (count + PRIOR), np.float64)


def _numbers(ids: Array) -> Ints:
    return np.asarray(
        np.unique(ids.astype(str) if ids.dtype == object else ids, return_inverse=True)[1], np.int64
    )
