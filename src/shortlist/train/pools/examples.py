"""Examples of a mixture from a log: what followed a history, and random items that did not."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from shortlist.data import HeldOut, Interactions, Query, sliding
from shortlist.nominate.pooled import mean_factors
from shortlist.train.pools.fitting.triples import Triples

CHUNK = 4096  # requests at a time
OVERSAMPLING, ITERATIONS, SMALLEST = 10, 6, 1e-9  # of the singular value decomposition
TRIES = 4  # draws of a negative before it is left out
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Requests:
    """Requests with one target each."""

    means: Tensor  # [M, F] mean factors of the history
    known: Tensor  # [M] whether there is a history
    users: Tensor  # [M]
    targets: Tensor  # [M]
    weights: Tensor | None = None  # [M] strengths of the targets

    def __len__(self) -> int:
        return len(self.targets)


def item_factors(events: Interactions, width: int, seed: int) -> Tensor:
    """Item factors by truncated singular value decomposition of the users by items matrix [A, F]."""
    matrix = events.weighted_matrix().astype(np.float64)
    values, right = _truncated_svd(matrix, width, np.random.default_rng(seed))
    factors = np.zeros((events.n_items, width), np.float32)
    factors[:, : len(values)] = (right * np.sqrt(values)[:, None]).T
    return torch.from_numpy(factors)


def _truncated_svd(
    matrix: sparse.csr_matrix, width: int, random: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Largest singular values [R] and right vectors [R, A], by subspace iteration (Halko et al., 2011).

    Unlike ARPACK it gives the same result every time; singular values of 0 are left out.
    """
    columns = min(width + OVERSAMPLING, *matrix.shape)
    basis = random.normal(size=(matrix.shape[1], columns))
    for _ in range(ITERATIONS):
        basis, _ = np.linalg.qr(matrix.T @ (matrix @ basis))
    squares, turn = np.linalg.eigh(basis.T @ (matrix.T @ (matrix @ basis)))
    kept = np.argsort(-squares, kind="stable")[:width]
    kept = kept[squares[kept] > SMALLEST * max(squares.max(initial=0.0), SMALLEST)]
    return np.sqrt(squares[kept]), (basis @ turn[:, kept]).T


def training_requests(
    events: Interactions, factors: Tensor, last: int, most: int, random: np.random.Generator
) -> Requests:
    """Random events, each with the history before it."""
    windows = sliding(events, last + 1, min_history=1)
    rows = np.arange(len(windows))
    rows = np.sort(random.choice(rows, most, replace=False)) if len(rows) > most else rows
    parts = [windows.batch(rows[start : start + CHUNK]) for start in range(0, len(rows), CHUNK)]
    strengths = events.strengths
    weights = None if strengths is None else torch.from_numpy(strengths[windows.ends[rows]])
    return _joined(parts, factors, weights)


def held_out_requests(
    valid: HeldOut, factors: Tensor, last: int, most: int, random: np.random.Generator
) -> Requests:
    """Held-out requests with each of their relevant items as a target."""
    chosen = valid.take(random.permutation(len(valid))[:most])
    return _joined(list(_of_held_out(chosen, last)), factors, None)


def with_negatives(
    requests: Requests, contexts: Tensor, seen: Interactions, negatives: int, random: np.random.Generator
) -> Triples:
    """Every target with reward 1 and `negatives` random items with reward 0, none of them an item of the user.

    The share of targets among the examples is then 1 / (1 + negatives) and not 1 / A. Where P is the probability that
    an item of A is the next one, the share of reward 1 among its examples is P / (P + negatives / A): it grows with P.
    """
    count = len(requests)
    users = requests.users.numpy().repeat(negatives)
    items, free = _drawn(users, seen, random)
    own = torch.from_numpy(np.flatnonzero(free))
    rows = torch.arange(count)
    weights = requests.weights
    if weights is not None:
        weights = torch.cat([weights, weights.repeat_interleave(negatives)[own]])
    return Triples(
        contexts,
        torch.cat([rows, rows.repeat_interleave(negatives)[own]]),
        torch.cat([requests.targets, torch.from_numpy(items)[own]]),
        torch.cat([torch.ones(count), torch.zeros(len(own))]),
        weights,
    )


def _drawn(users: Rows, seen: Interactions, random: np.random.Generator) -> tuple[Rows, NDArray[np.bool_]]:
    """A random item for each user that the user has no event with, and whether one was found."""
    taken = np.unique(seen.users.astype(np.int64) * seen.n_items + seen.items)
    items = random.integers(0, seen.n_items, len(users))
    for _ in range(TRIES):
        again = _contains(taken, users * seen.n_items + items)
        items[again] = random.integers(0, seen.n_items, int(again.sum()))
    return items, ~_contains(taken, users * seen.n_items + items)


def _contains(ordered: Rows, keys: Rows) -> NDArray[np.bool_]:
    if not len(ordered):
        return np.zeros(len(keys), np.bool_)
    at = np.searchsorted(ordered, keys).clip(max=len(ordered) - 1)
    found: NDArray[np.bool_] = ordered[at] == keys
    return found


def _of_held_out(chosen: HeldOut, last: int) -> Iterator[tuple[Query, Tensor]]:
    for start in range(0, len(chosen), CHUNK):
        part = chosen.take(slice(start, start + CHUNK))
        relevant = part.relevant()
        rows, at = (relevant >= 0).nonzero(as_tuple=True)
        yield part.query(width=last).take(rows), relevant[rows, at]


def _joined(parts: list[tuple[Query, Tensor]], factors: Tensor, weights: Tensor | None) -> Requests:
    if not parts:
        none = torch.zeros(0, dtype=torch.int64)
        return Requests(factors.new_zeros(0, factors.shape[1]), none.bool(), none, none)
    means, known = zip(*(mean_factors(factors, query.history) for query, _ in parts), strict=True)
    users = torch.cat([query.user for query, _ in parts])
    return Requests(torch.cat(means), torch.cat(known), users, torch.cat([one for _, one in parts]), weights)
