"""The candidates scorers receive for held-out requests: one row per candidate, with its relevance."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data.membership import is_in
from shortlist.diagnose.sample import UserSample
from shortlist.grammar import Pipeline, Stage, kind_of, leaves
from shortlist.pipeline import Step, run
from shortlist.pipeline.offline import offline
from shortlist.progress import Progress, silent, tracked

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CandidateRows:
    """The candidates of some requests, one row each, ordered by request [S]; scores are finite."""

    items: Rows
    scores: NDArray[np.float64]  # of the scorer
    pool: NDArray[np.float64]  # the score the candidate came in with
    relevant: NDArray[np.bool_]
    request: Rows
    retrieved: int  # relevant items among the candidates
    total: int  # relevant items of all requests

    def __len__(self) -> int:
        return len(self.items)

    def where(self, mask: NDArray[np.bool_]) -> "CandidateRows":
        """Some of the rows; `retrieved` and `total` stay."""
        return replace(
            self,
            items=self.items[mask],
            scores=self.scores[mask],
            pool=self.pool[mask],
            relevant=self.relevant[mask],
            request=self.request[mask],
        )

    @property
    def requests(self) -> int:
        """Number of requests with candidates."""
        return len(np.unique(self.request))

    @property
    def share_retrieved(self) -> float | None:
        """The share of relevant items among the candidates, None without relevant items."""
        return self.retrieved / self.total if self.total else None


@dataclass(frozen=True, eq=False)
class ScorerInputs:
    """What one scorer receives for held-out requests."""

    name: str
    rows: CandidateRows
    user: Rows  # of every request [C]; `rows.request` points here
    relevant: Rows  # every relevant item, request after request
    probabilities: bool  # the scorer declares that its scores are probabilities of relevance


@torch.no_grad()
def scorer_inputs(
    pipeline: Stage, sample: UserSample, progress: Progress = silent
) -> dict[str, ScorerInputs]:
    """Run all requests and keep what every scorer of the pipeline receives, by the scorer's name."""
    pipeline = offline(pipeline)
    parts: dict[str, list[CandidateRows]] = {stage.title: [] for stage in scorers(pipeline)}
    start = 0
    for batch in tracked(sample.batches, "candidates of the scorers", progress):
        for step in run(pipeline, batch.query).trace.steps:
            if step.name in parts:
                parts[step.name].append(_rows(step, batch.relevant, start))
        start += len(batch.query)
    relevant = np.concatenate([batch.relevant[batch.relevant >= 0].numpy() for batch in sample.batches])
    return {
        stage.title: ScorerInputs(
            stage.title, _joined(parts[stage.title]), sample.users, relevant, _probabilities(stage)
        )
        for stage in scorers(pipeline)
    }


def scorers(pipeline: Pipeline) -> Iterator[Stage]:
    """The scorers of a pipeline, in order."""
    return (stage for stage in pipeline.stages if kind_of(stage) == "scorer")


def _probabilities(stage: Stage) -> bool:
    return all(bool(getattr(leaf, "probabilities", False)) for leaf in leaves(stage))


def _rows(step: Step, relevant: Tensor, start: int) -> CandidateRows:
    """One row per candidate with a finite score before and after the step."""
    found, before = step.before_cut, step.before
    finite = found.valid & torch.isfinite(found.scores) & torch.isfinite(before.scores)
    is_relevant = is_in(found.items, relevant) & found.valid
    request = torch.arange(start, start + len(relevant))[:, None].expand(finite.shape)
    return CandidateRows(
        found.items[finite].numpy(),
        found.scores[finite].double().numpy(),
        before.scores[finite].double().numpy(),
        is_relevant[finite].numpy(),
        request[finite].numpy(),
        int(is_relevant.sum()),
        int((relevant >= 0).sum()),
    )


def _joined(parts: list[CandidateRows]) -> CandidateRows:
    return CandidateRows(
        np.concatenate([part.items for part in parts]),
        np.concatenate([part.scores for part in parts]),
        np.concatenate([part.pool for part in parts]),
        np.concatenate([part.relevant for part in parts]),
        np.concatenate([part.request for part in parts]),
        sum(part.retrieved for part in parts),
        sum(part.total for part in parts),
    )
