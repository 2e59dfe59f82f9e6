"""Where the targets of training requests are in the lists of the nominators."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import Candidates
from shortlist.grammar import Stage
from shortlist.metrics.nomination.coverage import ABSENT, Bools, Floats, Ints
from shortlist.train.context import RequestBatch


@dataclass(frozen=True, eq=False)
class TargetRanks:
    """The rank of each target in the list of each nominator, from 0; `ABSENT` where the list does not hold it."""

    names: tuple[str, ...]
    rank: Ints  # [P, N]
    request: Ints  # [P]
    lengths: Ints  # of the history of each request [R]
    users: Ints  # [R]

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def targets(self) -> Ints:
        """Targets of each request [R]."""
        return np.bincount(self.request, minlength=len(self))

    @property
    def weights(self) -> Floats:
        """What each target counts [P], so that every request counts 1 and coverage is a mean recall."""
        return np.asarray(1.0 / self.targets[self.request], np.float64)

    @property
    def listed(self) -> Bools:
        """Whether at least one nominator returns a target [P]."""
        return np.asarray((self.rank < ABSENT).any(axis=1), np.bool_)

    @property
    def found(self) -> int:
        """Targets that at least one nominator returns."""
        return int(self.listed.sum())

    def where(self, requests: Bools) -> "TargetRanks":
        """Some of the requests [R]."""
        kept, number = requests[self.request], np.cumsum(requests) - 1
        return TargetRanks(
            self.names,
            self.rank[kept],
            number[self.request[kept]],
            self.lengths[requests],
            self.users[requests],
        )

    def recall(self, limits: Ints, segments: Ints) -> Floats:
        """Share of each request's targets that are covered by the limits [G, N] of its segment [R]; NaN without any."""
        covered = (self.rank < limits[segments[self.request]]).any(axis=1)
        hits, targets = np.bincount(self.request, covered, len(self)), self.targets
        return np.asarray(
            np.divide(hits, targets, out=np.full(len(self), np.nan), where=targets > 0), np.float64
        )


def ranks_in_pool(batches: Sequence[RequestBatch], names: Sequence[str]) -> TargetRanks:
    """Ranks by the columns `NAME.rank` of pooled candidates."""
    return _joined(batches, names, [_columns(one.found, names, one.targets) for one in batches])


def all_ranks(batches: Sequence[RequestBatch], names: Sequence[str]) -> tuple[Ints, Ints]:
    """Ranks of all pooled candidates [C, N], and the request of each of them [C]."""
    ranks, requests, start = list[Ints](), list[Ints](), 0
    for batch in batches:
        valid = batch.found.valid
        columns = [batch.found.columns[f"{name}.rank"][valid].numpy() for name in names]
        ranks.append(np.stack([_whole(one) for one in columns], axis=1))
        requests.append(valid.nonzero()[:, 0].numpy() + start)
        start += len(batch.targets)
    none = np.zeros((0, len(names)), np.int64)
    return np.concatenate([none, *ranks]), np.concatenate([none[:, 0], *requests])


def ranks_in_lists(
    batches: Sequence[RequestBatch], nominators: Mapping[str, Stage], width: int
) -> TargetRanks:
    """Ranks in lists of `width` items, which these nominators make for the same requests."""
    wide = [one.at_most(width) for one in nominators.values()]
    rows = []
    with torch.no_grad():
        for batch in batches:
            empty = Candidates.none(len(batch.query), batch.query.history.device)
            lists = [one(batch.query, empty) for one in wide]
            rows.append(np.stack([_places(one, batch.targets) for one in lists], axis=1))
    return _joined(batches, tuple(nominators), rows)


def _joined(batches: Sequence[RequestBatch], names: Sequence[str], ranks: Sequence[Ints]) -> TargetRanks:
    """The targets of all batches; requests are numbered through."""
    sizes = [len(one.targets) for one in batches]
    starts = np.cumsum([0, *sizes])[:-1]
    request = [
        (one.targets >= 0).nonzero()[:, 0].numpy() + start for one, start in zip(batches, starts, strict=True)
    ]
    lengths = [(one.query.history >= 0).sum(1).numpy() for one in batches]
    users = [one.query.user.numpy() for one in batches]
    none = np.zeros((0, len(names)), np.int64)
    return TargetRanks(
        tuple(names),
        np.concatenate([none, *ranks]),
        *(np.concatenate([none[:, 0], *parts]).astype(np.int64) for parts in (request, lengths, users)),
    )


def _columns(found: Candidates, names: Sequence[str], targets: Tensor) -> Ints:
    """Ranks of the targets of a batch by the columns of its candidates [P, N]."""
    places = _places(found, targets)
    request = (targets >= 0).nonzero()[:, 0].numpy()
    known = places < ABSENT
    ranks = np.full((len(places), len(names)), ABSENT, np.int64)
    for number, name in enumerate(names):
        own = found.columns[f"{name}.rank"].numpy()[request[known], places[known]]
        ranks[known, number] = _whole(own)
    return ranks


def _whole(ranks: NDArray[np.float32]) -> Ints:
    """Ranks as integers; NaN is absent."""
    return np.where(np.isnan(ranks), ABSENT, np.nan_to_num(ranks).astype(np.int64))


def _places(found: Candidates, targets: Tensor) -> Ints:
    """The position of each target among the candidates of its request [P]; targets in order of their requests."""
    row, column = found.valid.numpy().nonzero()
    items, rows = found.items.numpy()[row, column], targets.numpy()
    request, at = (rows >= 0).nonzero()
    most = max(int(items.max(initial=0)), int(rows.max(initial=0))) + 1
    keys, asked = row * most + items, request * most + rows[request, at]
    order = np.argsort(keys, kind="stable")
    place = np.searchsorted(keys[order], asked).clip(max=max(len(keys) - 1, 0))
    return _where_equal(keys, order, place, asked, column)


def _where_equal(keys: Ints, order: Ints, place: Ints, asked: Ints, column: NDArray[np.intp]) -> Ints:
    if not len(keys):
        return np.full(len(asked), ABSENT, np.int64)
    at = order[place]
    return np.where(keys[at] == asked, column[at], ABSENT).astype(np.int64)
