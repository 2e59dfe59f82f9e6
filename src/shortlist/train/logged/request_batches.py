"""Requests of a full-stage log as training requests of rankers, with the columns of today's nominators."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Candidates, Interactions, Query
from shortlist.data.candidates import RRF
from shortlist.data.windows import gather
from shortlist.errors import ConfigError
from shortlist.feedback.record import Array
from shortlist.grammar import Nominator, Pool, Stage, bare
from shortlist.train.context import RequestBatch
from shortlist.train.logged.training_log import TrainingLog
from shortlist.train.objectives.from_log import take_requests
from shortlist.train.rankers.training_data.listed import candidates_of
from shortlist.train.rankers.training_data.out_of_fold import user_blocks
from shortlist.train.stage_outcomes import StageOutcomes

LOGGED = "logged candidates"  # no nominator of a recipe can have this name


def logged_batches(log: TrainingLog, events: Interactions, seed: int) -> Iterator[RequestBatch]:
    """The requests in batches with their logged candidates; histories are the events before each request.

    All requests of a user are in one batch, users are in random order.
    """
    ends, order = log.history_ends(events), _by_user(log.log.user_id, seed)
    for rows in user_blocks(log.log.user_id[order], events.n_items):
        yield _batch(log, events, ends, order[rows])


def with_nominations(one: RequestBatch, pool: Stage) -> RequestBatch:
    """Logged requests whose candidates have the columns that the nominators of a pool give them.

    A candidate that the nominators no longer nominate has no ranks, and the score 0.
    """
    assert one.logged is not None
    inner, items = bare(pool), one.found.items
    if not isinstance(inner, Pool):
        raise ConfigError(f"training from a log: expected nominators first, got {inner.title!r}")
    every = Pool((*inner.parts, LoggedItems(items, limit=max(items.shape[1], 1), name=LOGGED)))
    with torch.no_grad():
        pooled = every(one.query, Candidates.none(len(items)))
    found = candidates_of(_without_log(pooled, inner), torch.arange(len(items)), items)
    logged = replace(one.logged, passed=1)
    return replace(one, found=found.keep(logged.stage >= 1), logged=logged)


@dataclass(frozen=True, eq=False, repr=False)
class LoggedItems(Nominator):
    """The logged candidates of a batch of requests."""

    items: Tensor  # [B, K]

    def nominate(self, query: Query) -> Candidates:
        return Candidates.of(self.items, torch.zeros(self.items.shape))


def _without_log(pooled: Candidates, pool: Pool) -> Candidates:
    """The pool with scores and columns as if its nominators had nominated alone."""
    ranks = [pooled.columns[f"{part.title}.rank"] for part in pool.parts]
    fused = torch.stack([torch.nan_to_num(1.0 / (RRF + one), nan=0.0) for one in ranks]).sum(0)
    own = {name: column for name, column in pooled.columns.items() if not name.startswith(f"{LOGGED}.")}
    return replace(pooled.score(fused), columns=own)


def _by_user(users: Array, seed: int) -> Array:
    """Positions of requests, those of a user one after the other in the order of time, users in random order."""
    _, user = np.unique(users, return_inverse=True)
    random = np.random.default_rng((seed, 79)).permutation(int(user.max(initial=-1)) + 1)
    return np.argsort(random[user], kind="stable")


def _batch(log: TrainingLog, events: Interactions, ends: Array, rows: Array) -> RequestBatch:
    part = take_requests(log.log, rows)
    counts, positive = np.diff(part.offsets), part.stratum == part.n_stages + 1
    items = _padded(part.item_id, counts, -1)
    outcomes = StageOutcomes(
        _padded(part.stage, counts, 0),
        _padded(part.y, counts, -1),
        part.n_stages,
        None if part.incl_prob is None else _padded(part.incl_prob, counts, 1.0).float(),
        passed=0,
        scores={stage: _padded(part.scores_of(stage), counts, np.nan) for stage in log.log.scored},
    )
    targets = _padded(part.item_id[positive], np.bincount(part.request[positive], minlength=len(rows)), -1)
    found = Candidates.of(items, torch.zeros(items.shape))
    query = _query(part.user_id, log.time[rows], events, ends[rows])
    return RequestBatch(query, found, targets, logged=outcomes)


def _query(users: Array, times: Array, events: Interactions, ends: Array) -> Query:
    starts = events.starts[users].astype(np.int64)
    history = gather(events, starts, ends, max(int((ends - starts).max(initial=1)), 1))
    user = torch.from_numpy(users.astype(np.int64))
    return Query(user, torch.from_numpy(history.astype(np.int64)), torch.from_numpy(times), user.clone())


def _padded(values: Array, counts: Array, fill: float) -> Tensor:
    """Values of requests one after the other as rows [B, K]."""
    kind = np.float32 if np.issubdtype(values.dtype, np.floating) else np.int64
    wide = np.full((len(counts), counts.max(initial=0)), fill, kind)
    wide[np.arange(wide.shape[1]) < counts[:, None]] = values
    return torch.from_numpy(wide)
