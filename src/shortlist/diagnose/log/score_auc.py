"""How well the scores of a stage predict what the later stages and the users do with its inputs."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shortlist.diagnose.log.stage_rows import scoring_stages, stage_inputs
from shortlist.feedback.record import Array, LoggedRequests
from shortlist.metrics.funnel.selection_auc import SelectionAuc, SelectionRows, selection_auc

SERVED, POSITIVE, LIKED = "served", "shown positive", "positive among shown"
TARGETS = (SERVED, POSITIVE, LIKED)


@dataclass(frozen=True)
class ScoreAuc:
    """AUC of the score of a stage for a target, over the logged inputs of the stage.

    "served": the candidate is in the slate. "shown positive": it was shown and got positive feedback; all others of
    the input are negatives, shown or not. "positive among shown": negatives were shown too.
    """

    stage: str
    target: str
    rows: int
    auc: SelectionAuc


def score_aucs(record: LoggedRequests, stages: tuple[str, ...]) -> tuple[ScoreAuc, ...]:
    """Every target for every stage with scores; a target without rows of both kinds is left out."""
    return tuple(_score_aucs(record, stages))


def _score_aucs(record: LoggedRequests, stages: tuple[str, ...]) -> Iterator[ScoreAuc]:
    for target in TARGETS:
        known, positive = _target(record, target, len(stages))
        for stage in scoring_stages(record):
            score = record.scores[:, stage - 1].astype(np.float64)
            rows = known & stage_inputs(record, stage) & np.isfinite(score)
            if positive[rows].any() and not positive[rows].all():
                own = _rows(record, rows, positive)
                yield ScoreAuc(stages[stage - 1], target, int(rows.sum()), selection_auc(score[rows], own))


def _target(record: LoggedRequests, target: str, last: int) -> tuple[Array, Array]:
    """Which candidates count for a target, and which of them are positive [C]."""
    if target == LIKED:
        return record.y >= 0, record.y == 1
    open_label = (record.stage == last) & (record.y < 0)
    known = ~record.filtered & ~(open_label & (target == POSITIVE))
    return known, record.y == 1 if target == POSITIVE else record.stage == last


def _rows(record: LoggedRequests, rows: Array, positive: Array) -> SelectionRows:
    number = np.unique(record.request[rows], return_inverse=True)[1]
    probability = record.incl_prob[rows].astype(np.float64)
    return SelectionRows(positive[rows], number, record.stage[rows].astype(np.int64), probability)
