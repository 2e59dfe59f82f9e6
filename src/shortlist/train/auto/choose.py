"""Which nominators add nothing: a cheap ranker without each of them, on out-of-fold requests.

The cheap ranker is a logistic regression on the scores and ranks of the nominators. It is trained on one half of the
requests and measured on the other, with recall@20.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.metrics.logistic import logistic_regression
from shortlist.metrics.ranking import recall
from shortlist.metrics.significance import PairedTest, paired
from shortlist.train.context import RequestBatch
from shortlist.train.folds import Folds, nominators_of
from shortlist.train.measure import CUT

MOST = 4000  # requests of both halves
FEWEST = 2000  # with fewer, no interval is short enough
NEGATIVES = 30  # candidates of a request that the cheap ranker is trained on, beside its targets
# Users without a history need popular items. Items of the history have other scores than new ones: with one weight per
# score for both, the cheap ranker is worse with `repeat` where the trained one is better.
KEPT = ("popular", "repeat")
TINY = 0.01  # loss of recall, as a share of it, that the interval must exclude
RIDGE, STEPS, TOLERANCE = 1.0, 20, 1e-3  # of the logistic regression


@dataclass(frozen=True)
class Choice:
    """The nominators that stay, and why each of the others was dropped."""

    kept: tuple[str, ...]
    dropped: dict[str, str]


def choose(
    folds: Folds, seed: int = 0, seconds: float = float("inf"), clock: Callable[[], float] = time.perf_counter
) -> Choice:
    """Drop nominators one at a time, the one with the smallest loss first, while a loss of 1 % can be excluded.

    It stops after `seconds`; nominators that were not tried stay.
    """
    names = tuple(nominators_of(folds.parts[0])) if folds.parts else ()
    requests = _Requests.of(folds, names, seed)
    dropped: dict[str, str] = {}
    until = clock() + seconds
    if requests is None:
        return Choice(names, dropped)
    while len(names) > 2 and clock() < until:
        found = _least_needed(requests, names, seed, until, clock)
        if found is None:
            break
        name, test, whole = found
        names = tuple(one for one in names if one != name)
        dropped[name] = (
            f"without it recall@{CUT} on {requests.measured:,} out-of-fold requests is {whole - test.difference:.4f} "
            f"against {whole:.4f} (loss {test.difference:+.4f} [{test.low:+.4f}, {test.high:+.4f}])"
        )
    return Choice(names, dropped)


def _least_needed(
    requests: "_Requests", names: Sequence[str], seed: int, until: float, clock: Callable[[], float]
) -> tuple[str, PairedTest, float] | None:
    """The nominator whose loss is smallest, if that is none."""
    whole, best = requests.recalls(names), None
    for name in names:
        if name in KEPT or clock() >= until:
            continue
        test = paired(whole, requests.recalls([one for one in names if one != name]), seed)
        if best is None or test.difference < best[1].difference:
            best = name, test, float(whole.nanmean())
    none = best is not None and best[1].difference <= 0 and best[1].high <= TINY * best[2]
    return best if none else None


@dataclass(frozen=True, eq=False)
class _Requests:
    """Features of all candidates of two halves of the requests, by nominator."""

    train: list[RequestBatch]
    test: list[RequestBatch]
    seed: int

    @classmethod
    def of(cls, folds: Folds, names: Sequence[str], seed: int) -> "_Requests | None":
        batches, count = list[RequestBatch](), 0
        for one in folds.batches(seed):
            batches, count = [*batches, one], count + len(one.targets)
            if count >= MOST:
                break
        return None if count < FEWEST or len(names) < 3 else cls(batches[::2], batches[1::2], seed)

    @property
    def measured(self) -> int:
        return sum(len(one.targets) for one in self.test)

    def recalls(self, names: Sequence[str]) -> Tensor:
        """recall@20 of each measured request with these nominators alone [C]."""
        rows, labels = zip(*(_training_rows(one, names, self.seed) for one in self.train), strict=True)
        features = np.concatenate(rows).astype(np.float64)
        features = np.concatenate([features, np.ones((len(features), 1))], axis=1)
        targets = np.concatenate(labels).astype(np.float64)
        found = logistic_regression(features, targets, ridge=RIDGE, steps=STEPS, tolerance=TOLERANCE)
        weights = torch.from_numpy(found[:-1].astype(np.float32))  # the last one is the intercept
        return torch.cat([_recall(one, names, weights) for one in self.test])


def _recall(batch: RequestBatch, names: Sequence[str], weights: Tensor) -> Tensor:
    scores = (_features(batch, names) @ weights).masked_fill(~_nominated(batch, names), -torch.inf)
    best = scores.topk(min(CUT, scores.shape[1]), dim=1)
    items = batch.found.items.gather(1, best.indices).masked_fill(best.values == -torch.inf, -1)
    return recall(items, batch.targets, CUT)


def _training_rows(
    batch: RequestBatch, names: Sequence[str], seed: int
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Features and labels of the targets of a batch and of some other candidates."""
    nominated, targets = _nominated(batch, names), batch.is_target
    share = NEGATIVES / max(int(nominated.sum()) / max(len(nominated), 1), 1)
    chance = torch.from_numpy(np.random.default_rng(seed).random(tuple(targets.shape), np.float32))
    used = nominated & (targets | (chance < share))
    return _features(batch, names)[used].numpy(), targets[used].numpy()


def _nominated(batch: RequestBatch, names: Sequence[str]) -> Tensor:
    """Which candidates at least one of these nominated [B, K]."""
    ranks = torch.stack([batch.found.columns[f"{name}.rank"] for name in names])
    return batch.found.valid & ~ranks.isnan().all(0)


def _features(batch: RequestBatch, names: Sequence[str]) -> Tensor:
    """Of each nominator: score relative to the request's candidates, reciprocal rank, and whether it is known."""
    columns = []
    for name in names:
        score, rank = (batch.found.columns[f"{name}.{what}"] for what in ("score", "rank"))
        known = ~score.isnan() & batch.found.valid
        columns += [_standardised(score, known), (1 / (1 + rank)).nan_to_num(0.0), known.float()]
    return torch.stack(columns, dim=2)


def _standardised(scores: Tensor, known: Tensor) -> Tensor:
    """Mean 0 and deviation 1 over the known candidates of a request; 0 for the others."""
    scores, count = scores.masked_fill(~known, 0.0), known.sum(1, keepdim=True).clamp(min=1)
    centred = (scores - scores.sum(1, keepdim=True) / count).masked_fill(~known, 0.0)
    return (centred / ((centred**2).sum(1, keepdim=True) / count).sqrt().clamp(min=1e-6)).clamp(-10, 10)
