"""How far a stage keeps the order of the last stage before it that scored, on logged requests."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shortlist.diagnose.log.stage_rows import dense, ordering_stages, scoring_stages, stage_inputs
from shortlist.diagnose.log.totals import weights
from shortlist.evaluate.funnel import StageAgreement
from shortlist.feedback.record import Array, LoggedRequests
from shortlist.metrics.funnel.consistency import Sample, sample_ranks, stage_consistency
from shortlist.metrics.significance import bootstraps

PAIRS = 20_000_000  # pairs of candidates that are compared for two stages


def log_agreements(
    record: LoggedRequests, stages: tuple[str, ...], seed: int = 0
) -> tuple[StageAgreement, ...]:
    """Agreement of each stage that scores or selects with the last one before it that scored."""
    found = []
    for second in ordering_stages(record):
        before = [one for one in scoring_stages(record) if one < second]
        values = _compared(record, max(before), second) if before else torch.zeros(0, 3)
        if len(values):
            names = stages[max(before) - 1], stages[second - 1]
            found.append(StageAgreement(*names, len(values), *bootstraps([*values.T], seed)))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class _Inputs:
    """Some requests with the candidates that a stage ranked, as rows [R, n]."""

    record: LoggedRequests
    stage: int

    @property
    def present(self) -> Tensor:
        return dense(np.ones(self.record.n_candidates), self.record, 0) > 0

    @property
    def weight(self) -> Tensor:
        return dense(weights(self.record), self.record, 0)

    @property
    def stratum(self) -> Tensor:
        """Candidates that a filter removed are sampled apart from the others with their S."""
        return dense(2 * self.record.stage.astype(np.int64) + self.record.filtered, self.record, 0).long()

    def scores(self, stage: int) -> Tensor:
        return dense(_order(self.record, stage), self.record, 0)

    def ranks(self, stage: int) -> Tensor:
        """Ranks of an order in the full input of the stage: logged ones where they are of this input, else estimates.

        The cut of the stage right before keeps its first ranks, so they are those of this input too.
        """
        logged = dense(self.record.ranks[:, stage - 1], self.record, 0)
        if stage >= self.stage - 1 and bool((logged > 0)[self.present].all()):
            return logged
        return sample_ranks(self.scores(stage), self.weight, self.present)


def _compared(record: LoggedRequests, first: int, second: int) -> Tensor:
    """Share kept, tau-b and rank-biased overlap of some requests [rows, 3], on the inputs of the second stage."""
    known = np.isfinite(_order(record, first)) & np.isfinite(_order(record, second))
    inputs = _Inputs(_some(record.only(np.flatnonzero(stage_inputs(record, second) & known))), second)
    if not inputs.record.n_candidates:
        return torch.zeros(0, 3)
    found = stage_consistency(
        inputs.scores(first),
        inputs.scores(second),
        torch.from_numpy(inputs.record.n_out[:, second - 1 : second]),
        inputs.present,
        Sample(inputs.weight, inputs.stratum),
        (inputs.ranks(first), inputs.ranks(second)),
    )
    return torch.stack([found.share_kept, found.tau_b, found.rbo], dim=1)


def _order(record: LoggedRequests, stage: int) -> Array:
    """The score of a stage; for a selector its order, with all that it did not choose behind [C]."""
    score: Array = record.scores[:, stage - 1].astype(np.float64)
    if np.isfinite(score).any():
        return score
    rank = record.ranks[:, stage - 1]
    order: Array = -np.where(rank > 0, rank, record.n_in[record.request, stage - 1] + 1).astype(np.float64)
    return order


def _some(record: LoggedRequests) -> LoggedRequests:
    """Requests with at least two candidates, as many as the number of pairs allows, spread over the log."""
    filled = np.flatnonzero(record.counts > 1)
    count = max(int(PAIRS // max(int(record.counts.max(initial=0)) ** 2, 1)), 1)
    return record.take(filled[np.linspace(0, len(filled) - 1, min(count, len(filled))).astype(np.int64)])
