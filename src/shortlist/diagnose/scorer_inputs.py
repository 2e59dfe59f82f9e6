"""What scorers are given when held-out cases are asked: one row per candidate, and whether it was wanted."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data.membership import is_in
from shortlist.diagnose.offline import offline
from shortlist.diagnose.sample import UserSample
from shortlist.grammar import Pipeline, Stage, kind_of
from shortlist.pipeline import Step, run
from shortlist.pipeline.recipe import leaves
from shortlist.progress import Progress, silent, tracked

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Sample:
    """The candidates of some requests, one row each, ordered by request [S]; scores are finite."""

    items: Rows
    scores: NDArray[np.float64]  # what the scorer gave
    pool: NDArray[np.float64]  # the score the candidate came in with
    wanted: NDArray[np.bool_]
    request: Rows
    found: int  # wanted items among the candidates
    sought: int  # wanted items at all

    def __len__(self) -> int:
        return len(self.items)

    def where(self, mask: NDArray[np.bool_]) -> "Sample":
        """Some of the rows; what was found and sought stays."""
        return replace(
            self,
            items=self.items[mask],
            scores=self.scores[mask],
            pool=self.pool[mask],
            wanted=self.wanted[mask],
            request=self.request[mask],
        )

    @property
    def requests(self) -> int:
        """How many requests have candidates."""
        return len(np.unique(self.request))

    @property
    def recall(self) -> float | None:
        """The share of wanted items among the candidates, None where nothing was wanted."""
        return self.found / self.sought if self.sought else None


@dataclass(frozen=True, eq=False)
class Served:
    """One scorer at work on held-out cases."""

    name: str
    sample: Sample
    user: Rows  # of every case [C]; `sample.request` points here
    truth: Rows  # every wanted item, case after case
    probabilities: bool  # the scorer says that its scores are chances of being wanted


@torch.no_grad()
def served(pipeline: Stage, asked: UserSample, progress: Progress = silent) -> dict[str, Served]:
    """Ask all cases and keep what every scorer of the pipeline was given, by the scorer's name."""
    pipeline = offline(pipeline)
    parts: dict[str, list[Sample]] = {stage.title: [] for stage in scorers(pipeline)}
    start = 0
    for batch in tracked(asked.batches, "candidates of the scorers", progress):
        for step in run(pipeline, batch.query).trace.steps:
            if step.name in parts:
                parts[step.name].append(_rows(step, batch.truth, start))
        start += len(batch.query)
    wanted = np.concatenate([batch.truth[batch.truth >= 0].numpy() for batch in asked.batches])
    return {
        stage.title: Served(
            stage.title, _joined(parts[stage.title]), asked.users, wanted, _probabilities(stage)
        )
        for stage in scorers(pipeline)
    }


def scorers(pipeline: Pipeline) -> Iterator[Stage]:
    """The stages of a pipeline that give scores, in order."""
    return (stage for stage in pipeline.stages if kind_of(stage) == "scorer")


def _probabilities(stage: Stage) -> bool:
    return all(bool(getattr(one, "probabilities", False)) for one in leaves(stage))


def _rows(step: Step, truth: Tensor, start: int) -> Sample:
    """One row per candidate that has a finite score before and after the step."""
    found, before = step.judged, step.before
    there = found.valid & torch.isfinite(found.scores) & torch.isfinite(before.scores)
    wanted = is_in(found.items, truth) & found.valid
    request = torch.arange(start, start + len(truth))[:, None].expand(there.shape)
    return Sample(
        found.items[there].numpy(),
        found.scores[there].double().numpy(),
        before.scores[there].double().numpy(),
        wanted[there].numpy(),
        request[there].numpy(),
        int(wanted.sum()),
        int((truth >= 0).sum()),
    )


def _joined(parts: list[Sample]) -> Sample:
    return Sample(
        np.concatenate([part.items for part in parts]),
        np.concatenate([part.scores for part in parts]),
        np.concatenate([part.pool for part in parts]),
        np.concatenate([part.wanted for part in parts]),
        np.concatenate([part.request for part in parts]),
        sum(part.found for part in parts),
        sum(part.sought for part in parts),
    )
