"""Out-of-fold candidates: training requests with candidates of nominators that never saw their targets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Candidates, Interactions
from shortlist.data.candidates import RRF
from shortlist.grammar import Stage
from shortlist.train.context import RequestBatch

COLUMN = "."  # between the name of a nominator and of its column


@dataclass(frozen=True, eq=False)
class Fold:
    """Nominators and filters, and requests whose targets are not among the events these were fitted on."""

    stages: dict[str, Stage]
    batches: tuple[RequestBatch, ...]

    def through(self, stage: Stage) -> "Fold":
        """The same requests after one more stage."""
        with torch.no_grad():
            return replace(self, batches=tuple(one.through(stage) for one in self.batches))

    def first(self, requests: int) -> "Fold":
        """The first requests, in whole batches, of at most this number."""
        ends = np.cumsum([len(one.targets) for one in self.batches])
        return replace(self, batches=self.batches[: int(np.searchsorted(ends, requests, side="right"))])

    def __len__(self) -> int:
        return sum(len(one.targets) for one in self.batches)


@dataclass(frozen=True, eq=False)
class Folds:
    """All training requests of the stages after the nominators, in folds.

    `done` is the number of pipeline steps the candidates went through.
    """

    parts: tuple[Fold, ...]
    events: Interactions  # training events without the targets of the requests
    done: int = 0

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def restricted(self, names: Sequence[str]) -> "Folds":
        """The same requests as if the pool had only these nominators; filters stay.

        Candidates that only others nominated are removed, the pooled scores are those of the nominators left.
        """
        dropped = {name for one in self.parts[:1] for name in nominators_of(one)} - set(names)
        parts = (
            Fold(
                {name: stage for name, stage in one.stages.items() if name not in dropped},
                tuple(replace(batch, found=restricted(batch.found, names)) for batch in one.batches),
            )
            for one in self.parts
        )
        return replace(self, parts=tuple(parts))

    def batches(self, seed: int, without: int | None = None) -> tuple[RequestBatch, ...]:
        """The batches of all folds, or of all but one, shuffled so that every part of them has some of each fold."""
        chosen = [one for at, fold in enumerate(self.parts) if at != without for one in fold.batches]
        order = np.random.default_rng((seed, 73)).permutation(len(chosen))
        return tuple(chosen[at] for at in order)


def nominators_of(fold: Fold) -> Iterator[str]:
    """The nominators whose columns the candidates of a fold have."""
    for one in fold.batches[:1]:
        yield from (name.removesuffix(".rank") for name in one.found.columns if name.endswith(".rank"))


def restricted(found: Candidates, names: Sequence[str]) -> Candidates:
    """Candidates of a pool without the nominations of all nominators but these."""
    ranks = [found.columns[f"{name}.rank"] for name in names]
    fused = torch.stack([torch.nan_to_num(1.0 / (RRF + one), nan=0.0) for one in ranks]).sum(0)
    kept = found.keep(torch.stack([~one.isnan() for one in ranks]).any(0)).score(fused)
    own = {key: column for key, column in found.columns.items() if key.rpartition(COLUMN)[0] in names}
    return compact(replace(kept, columns=own))


def compact(found: Candidates) -> Candidates:
    """The same candidates in the same order, without the places that are empty in every request."""
    widest = int(found.valid.sum(1).max()) if found.valid.numel() else 0
    order: Tensor = (~found.valid).to(torch.uint8).sort(dim=1, stable=True).indices[:, :widest]
    taken = found.take(order)
    return replace(taken, columns={name: taken.columns[name] for name in taken.columns})
