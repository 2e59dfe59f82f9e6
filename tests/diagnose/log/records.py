"""Logged requests of a funnel with known scores, in full and as a stratified sample."""

from dataclasses import replace

import numpy as np

from shortlist.feedback.record import ALL, STRATUM, Funnel, LoggedRequests, logged_requests

CAPS = (80, 20, 8, 3)  # after the pool and after every later stage
STAGES = ("pool", "pre-rank", "rank", "re-rank")
NOMINATORS = ("near", "popular")
START = 1_700_000_000_000


def funnel_record(
    requests: int = 60, seed: int = 0, noise: float = 0.5, caps: tuple[int, ...] = CAPS, spread: float = 1.0
) -> LoggedRequests:
    """Every candidate of every request; stages score an item's utility with their own errors, users like by utility."""
    rng = np.random.default_rng(seed)
    size, depth = caps[0], len(caps)
    items = np.stack([rng.permutation(2 * size)[:size] for _ in range(requests)])  # [R, K]
    utility = np.linspace(-1.5, 1.5, 2 * size)[items] + 0.5 * rng.normal(size=(requests, size))
    level = spread * rng.normal(size=(requests, 1))  # the scores of a request are higher or lower as a whole
    scores = utility[:, :, None] + level[:, :, None] + noise * rng.normal(size=(requests, size, depth))
    reached, ranks = cascade(scores, caps)
    liked = rng.random(items.shape) < 1 / (1 + np.exp(-utility))
    served = reached == depth
    return logged_requests(
        np.arange(requests, dtype=np.int64),
        START + 1000 * np.arange(requests, dtype=np.int64),
        rng.integers(0, 7, requests),
        np.arange(0, requests * size + 1, size, dtype=np.int64),
        items.ravel(),
        reached.ravel(),
        np.tile(np.array(caps, np.int32), (requests, 1)),
        funnels=(Funnel(STAGES[:depth], NOMINATORS),),
        channel_mask=rng.integers(1, 4, items.size).astype(np.int64),
        scores=np.where(ranks > 0, scores, np.nan).reshape(-1, depth).astype(np.float32),
        ranks=ranks.reshape(-1, depth).astype(np.int32),
        position=np.where(served, ranks[:, :, -1], 0).ravel().astype(np.int16),
        shown=np.where(served, 1, -1).ravel().astype(np.int8),
        incl_prob=np.ones(items.size, np.float32),
        y=np.where(served, liked, -1).ravel().astype(np.int8),
    )


def cascade(scores, caps):
    """S [R, K] and the rank of every candidate in the input of every stage [R, K, T], 0 where it was not one."""
    alive = np.ones(scores.shape[:2], bool)
    reached, ranks = np.zeros(alive.shape, np.int64), np.zeros(scores.shape, np.int64)
    for stage, cap in enumerate(caps):
        order = np.argsort(np.where(alive, -scores[:, :, stage], np.inf), axis=1)
        rank = np.argsort(order, axis=1) + 1
        ranks[:, :, stage] = np.where(alive, rank, 0)
        alive = alive & (rank <= cap)
        reached += alive
    return reached, ranks


def sampled_record(
    record: LoggedRequests, quota: int = 12, stratum: int = 1, seed: int = 0
) -> LoggedRequests:
    """The same requests with a sample of one stratum and its inclusion probabilities."""
    rng = np.random.default_rng(seed)
    key = np.where(record.stage == stratum, rng.random(record.n_candidates), -1.0)
    keep, prob = np.ones(record.n_candidates, bool), np.ones(record.n_candidates, np.float32)
    for request in range(len(record)):
        rows = np.flatnonzero((record.request == request) & (record.stage == stratum))
        keep[rows[np.argsort(key[rows])[quota:]]] = False
        prob[rows] = min(1.0, quota / max(len(rows), 1))
    reason = np.where(record.stage == stratum, STRATUM, ALL).astype(np.int8)
    changed = {"incl_prob": prob, "reason": reason}
    return replace(record, **changed).only(np.flatnonzero(keep))
