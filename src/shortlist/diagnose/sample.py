"""A fixed sample of held-out users: every change to a pipeline is measured on the same requests."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import Candidates, HeldOut, Query
from shortlist.data.membership import is_in
from shortlist.errors import DataError
from shortlist.evaluate.losses import Ints
from shortlist.grammar import Stage, as_pipeline
from shortlist.metrics.estimate import Estimate, Floats, share
from shortlist.pipeline.batch.held_out import BATCH, longest_history

SLATE = 10  # items, for a pipeline without a size of its own


@dataclass(frozen=True, eq=False)
class Batch:
    """Some requests and the relevant items of their users."""

    query: Query
    relevant: Tensor  # [B, R] item rows, -1 = padding; rows past the catalogue are relevant and unknown


@dataclass(frozen=True, eq=False)
class UserSample:
    """Held-out requests in batches; histories hold only items of the catalogue."""

    held_out: HeldOut
    batches: tuple[Batch, ...]
    n_items: int  # of the catalogue the pipeline knows
    seed: int = 0

    def __len__(self) -> int:
        return len(self.held_out)

    @cached_property
    def users(self) -> Ints:
        """The user of each request [C]."""
        return self.held_out.users

    @cached_property
    def n_users(self) -> int:
        return len(np.unique(self.users))

    @cached_property
    def n_relevant(self) -> Ints:
        """Number of relevant items per request [C]."""
        return np.concatenate([(batch.relevant >= 0).sum(1).numpy() for batch in self.batches])

    @cached_property
    def _groups(self) -> Ints:
        return np.unique(self.users, return_inverse=True)[1]

    def by_user(self, per_request: NDArray[Any]) -> Floats:
        """Values per request [C] summed by user [U]."""
        sums = np.bincount(self._groups, weights=per_request, minlength=self.n_users)
        return np.asarray(sums, np.float64)

    def recall(self, hits: Ints) -> Estimate:
        """Mean recall over users; with differences of `hits` [C], the mean difference.

        A request without relevant items has no recall and is left out, as in `evaluate`.
        """
        per_request = hits / np.maximum(self.n_relevant, 1)
        return share(self.by_user(per_request), self.by_user(self.n_relevant > 0), self.seed)

    def recalls(self, hits: Ints) -> Floats:
        """The recall of every user [U], NaN without relevant items."""
        known = self.by_user(self.n_relevant > 0)
        sums = self.by_user(hits / np.maximum(self.n_relevant, 1))
        return np.where(known > 0, sums / np.maximum(known, 1), np.nan)

    def mean(self, per_request: NDArray[Any]) -> Estimate:
        """Mean over requests of a value per request [C]."""
        return share(self.by_user(per_request), self.by_user(np.ones(len(per_request))), self.seed)


def sample_users(
    held_out: HeldOut, n_items: int, users: int | None = None, seed: int = 0, batch: int = BATCH
) -> UserSample:
    """All held-out requests, or those of a random sample of users."""
    if not len(held_out):
        raise DataError(
            "diagnose: expected held-out requests, got none; train with another --protocol, such as leave-last-out"
        )
    some = held_out if users is None else held_out.take(_rows(held_out, users, seed))
    parts = [some.take(slice(start, start + batch)) for start in range(0, len(some), batch)]
    return UserSample(some, tuple(_batch(part, n_items) for part in parts), n_items, seed)


def run_batches(pipeline: Stage, sample: UserSample) -> Iterator[tuple[Batch, Candidates]]:
    """The candidates a pipeline returns, batch by batch."""
    whole = as_pipeline(pipeline)
    for batch in sample.batches:
        none = Candidates.none(len(batch.query), batch.query.history.device)
        with torch.no_grad():
            yield batch, whole(batch.query, none)


def hits_per_request(pipeline: Stage, sample: UserSample) -> Ints:
    """Number of relevant items a pipeline returns to each request [C]."""
    return np.concatenate(
        [count_hits(found, batch.relevant) for batch, found in run_batches(pipeline, sample)]
    )


def count_hits(found: Candidates, relevant: Tensor) -> Ints:
    """Number of relevant items [B, R] among candidates [B]."""
    return is_in(relevant, found.items.masked_fill(~found.valid, -1)).sum(1).numpy()


def _rows(held_out: HeldOut, users: int, seed: int) -> Ints:
    """The requests of a random sample of users, in their order."""
    if users < 1:
        raise DataError(f"--users: expected 1 user or more, got {users}")
    everyone = np.unique(held_out.users)
    if users >= len(everyone):
        return np.arange(len(held_out))
    chosen = np.random.default_rng([seed, 3]).choice(everyone, users, replace=False)
    return np.flatnonzero(np.isin(held_out.users, chosen))


def _batch(held_out: HeldOut, n_items: int) -> Batch:
    query = held_out.query(width=longest_history(held_out))
    if bool((query.history >= n_items).any()):
        query = replace(query, history=_known(query.history, n_items))
    return Batch(query, held_out.relevant())


def _known(history: Tensor, n_items: int) -> Tensor:
    """Histories without items outside the catalogue, padded on the left."""
    known = history.masked_fill(history >= n_items, -1)
    order = (known >= 0).to(torch.int64).sort(dim=1, stable=True).indices
    return known.gather(1, order)
