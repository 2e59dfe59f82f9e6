"""The same users asked again and again: every change to a pipeline is measured on the same requests."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Candidates, HeldOut, Query
from shortlist.data.membership import is_in
from shortlist.errors import DataError
from shortlist.evaluate.evaluation import BATCH, longest
from shortlist.evaluate.losses import Ints
from shortlist.grammar import Stage, as_pipeline
from shortlist.metrics.estimate import Estimate, share

SLATE = 10  # items, for a pipeline that does not say how many it returns


@dataclass(frozen=True, eq=False)
class Batch:
    """Some requests and what their users met next."""

    query: Query
    truth: Tensor  # [B, R] item rows, -1 = padding; rows past the catalogue are wanted and unknown


@dataclass(frozen=True, eq=False)
class UserSample:
    """Held-out cases made ready to be asked; histories hold only items of the catalogue."""

    cases: HeldOut
    batches: tuple[Batch, ...]
    n_items: int  # of the catalogue the pipeline knows
    seed: int = 0

    def __len__(self) -> int:
        return len(self.cases)

    @cached_property
    def users(self) -> Ints:
        """The user of each case [C]."""
        return self.cases.users

    @cached_property
    def n_users(self) -> int:
        return len(np.unique(self.users))

    @cached_property
    def wanted(self) -> Ints:
        """How many items each case wants [C]."""
        return np.concatenate([(one.truth >= 0).sum(1).numpy() for one in self.batches])

    @cached_property
    def _groups(self) -> Ints:
        return np.unique(self.users, return_inverse=True)[1]

    def by_user(self, per_case: Ints) -> Ints:
        """Values of cases added up by user [U]."""
        return np.bincount(self._groups, weights=per_case, minlength=self.n_users).astype(np.int64)

    def share(self, per_case: Ints) -> Estimate:
        """What is counted per case [C], of all wanted items."""
        return share(self.by_user(per_case), self.by_user(self.wanted), self.seed)

    def mean(self, per_case: Ints) -> Estimate:
        """What is counted per case [C], of all cases."""
        return share(self.by_user(per_case), self.by_user(np.ones_like(per_case)), self.seed)

    def each(self, ask: Callable[[Batch], Ints]) -> Ints:
        """What a function says of every case, batch by batch [C]."""
        with torch.no_grad():
            return np.concatenate([ask(one) for one in self.batches])


def panel(
    cases: HeldOut, n_items: int, users: int | None = None, seed: int = 0, batch: int = BATCH
) -> UserSample:
    """All cases, or those of so many users drawn by lot."""
    if not len(cases):
        raise DataError("diagnose: expected held-out cases, got none; choose another split")
    some = cases if users is None else cases.take(_drawn(cases, users, seed))
    parts = [some.take(slice(start, start + batch)) for start in range(0, len(some), batch)]
    return UserSample(some, tuple(_batch(one, n_items) for one in parts), n_items, seed)


def answers(pipeline: Stage, one: UserSample) -> Iterator[tuple[Batch, Candidates]]:
    """What a pipeline passes on at its end, batch by batch."""
    whole = as_pipeline(pipeline)
    for batch in one.batches:
        none = Candidates.none(len(batch.query), batch.query.history.device)
        with torch.no_grad():
            yield batch, whole(batch.query, none)


def returned(pipeline: Stage, one: UserSample) -> Ints:
    """How many wanted items a pipeline returns to each case [C]."""
    return np.concatenate([hits(found, batch.truth) for batch, found in answers(pipeline, one)])


def hits(found: Candidates, truth: Tensor) -> Ints:
    """How many of the wanted items [B, R] are among candidates [B]."""
    there = found.items.masked_fill(~found.valid, -1)
    return is_in(truth, there).sum(1).numpy()


def _drawn(cases: HeldOut, users: int, seed: int) -> Ints:
    """The cases of so many users, in their order."""
    if users < 1:
        raise DataError(f"diagnose: expected 1 user or more, got {users}")
    everyone = np.unique(cases.users)
    if users >= len(everyone):
        return np.arange(len(cases))
    chosen = np.random.default_rng([seed, 3]).choice(everyone, users, replace=False)
    return np.flatnonzero(np.isin(cases.users, chosen))


def _batch(cases: HeldOut, n_items: int) -> Batch:
    query = cases.query(width=longest(cases))
    if bool((query.history >= n_items).any()):
        query = replace(query, history=_known(query.history, n_items))
    return Batch(query, cases.relevant())


def _known(history: Tensor, n_items: int) -> Tensor:
    """Histories without the items a pipeline never heard of, padded on the left."""
    known = history.masked_fill(history >= n_items, -1)
    order = (known >= 0).to(torch.int64).sort(dim=1, stable=True).indices
    return known.gather(1, order)
