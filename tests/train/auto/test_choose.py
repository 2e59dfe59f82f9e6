"""Nominators that add nothing are dropped, needed ones stay."""

import numpy as np
import torch

from shortlist.data import Candidates, Query
from shortlist.data.candidates import merge
from shortlist.train.auto.choose import choose
from shortlist.train.context import RequestBatch
from shortlist.train.folds import Fold, Folds
from tests.train.logs import nothing

ITEMS, WIDTH = 60, 12


def folds_of(*kinds: str, requests: int = 2000, seed: int = 0) -> Folds:
    """Requests with two targets each; `left` and `right` nominate one of them, `copy` is `left`, `noise` is random."""
    random = np.random.default_rng(seed)
    batches = [_batch(random, kinds, 40) for _ in range(requests // 40)]
    parts = tuple(Fold({}, tuple(batches[at::2])) for at in range(2))
    return Folds(parts, nothing(2, ITEMS))


def _batch(random: np.random.Generator, kinds: tuple[str, ...], count: int) -> RequestBatch:
    targets = np.stack([random.permutation(ITEMS)[:2] for _ in range(count)])
    found = [_nominated(random, kind, targets) for kind in kinds]
    query = Query.of([[0]] * count)
    return RequestBatch(query, merge(found, list(kinds)), torch.from_numpy(targets))


def _nominated(random: np.random.Generator, kind: str, targets: np.ndarray) -> Candidates:
    """One target among random items, first in nine of ten lists; for noise random items only."""
    column = {"left": 0, "copy": 0, "right": 1}.get(kind)
    rows = []
    for own in targets:
        others = [item for item in random.permutation(ITEMS) if item not in own][:WIDTH]
        first = [own[column]] if column is not None and random.random() < 0.9 else []
        rows.append((first + others)[:WIDTH])
    items = torch.tensor(np.array(rows))
    return Candidates.of(items, -torch.arange(WIDTH).float().expand(items.shape))


def test_noise_is_dropped_and_nominators_of_different_targets_stay():
    choice = choose(folds_of("left", "right", "noise"))
    assert choice.kept == ("left", "right")
    assert "recall@20" in choice.dropped["noise"]


def test_needed_nominators_all_stay():
    assert choose(folds_of("left", "right", "popular")).dropped == {}


def test_popular_items_stay_for_users_without_history():
    choice = choose(folds_of("left", "right", "noise", "popular"))
    assert "popular" in choice.kept


def test_items_of_the_history_stay_for_the_trained_ranker():
    choice = choose(folds_of("left", "right", "noise", "repeat"))
    assert "repeat" in choice.kept
    assert "noise" in choice.dropped


def test_one_of_two_equal_nominators_stays():
    choice = choose(folds_of("left", "right", "copy", requests=2000))
    assert {"right"} < set(choice.kept)
    assert len({"left", "copy"} & set(choice.kept)) >= 1


def test_few_requests_drop_nothing():
    assert choose(folds_of("left", "right", "noise", requests=800)).dropped == {}


def test_time_limit_drops_nothing_more():
    ticks = iter(range(1000))
    choice = choose(folds_of("left", "right", "noise"), seconds=1.0, clock=lambda: float(next(ticks)))
    assert choice.kept == ("left", "right", "noise")
