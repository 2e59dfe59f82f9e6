"""Learned limits replace fixed ones only where they retrieve clearly more targets of other users."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.grammar import Nominator
from shortlist.train.context import RequestBatch
from shortlist.train.folds import Fold, Folds
from shortlist.train.split.choose import GLOBAL, SEGMENTS, choose_split, without_candidates
from tests.train.logs import nothing

ITEMS, SIZE = 400, 50


@dataclass(frozen=True, eq=False, repr=False)
class Listed(Nominator):
    """Nominates the list of each user."""

    lists: Tensor

    def nominate(self, query):
        items = self.lists[query.user][:, : self.limit]
        return Candidates.of(items, -torch.arange(items.shape[1]).float().expand(items.shape))


def folds_of(depths, requests=2000, seed=0):
    """Requests with one target each. Nominator n has it at a rank below depths[segment][n], if that is above 0.

    Requests of the first half of the users have a history of one item, others of nine.
    """
    random = np.random.default_rng(seed)
    long = np.arange(requests) >= requests // 2
    lists = np.stack(
        [random.permuted(np.tile(np.arange(1, ITEMS), (requests, 1)), axis=1) for _ in depths[0]]
    )
    lists[lists == 7] = 8
    for number in range(len(depths[0])):
        depth = np.where(long, depths[1][number], depths[0][number])
        rank = (random.random(requests) * np.maximum(depth, 1)).astype(int)
        lists[number, depth > 0, rank[depth > 0]] = 7
    stages = {f"n{at}": Listed(torch.from_numpy(one[:, :100]), name=f"n{at}") for at, one in enumerate(lists)}
    batches = []
    for start in range(0, requests, SIZE):
        users = list(range(start, start + SIZE))
        query = Query.of([[1] * (9 if long[user] else 1) for user in users], users=users)
        targets = torch.full((SIZE, 1), 7)
        batches.append(RequestBatch(query, Candidates.none(SIZE), targets))
    return Folds(
        (Fold(stages, tuple(batches[::2])), Fold(stages, tuple(batches[1::2]))), nothing(requests, ITEMS)
    )


FIXED = {"n0": 40, "n1": 40}


def test_limits_follow_the_ranks_of_targets():
    choice = choose_split(folds_of([(70, 0), (70, 0)]), FIXED)
    assert choice.learned
    assert choice.limits["n0"] > 60
    assert choice.limits["n1"] < 20
    assert choice.split == {}
    assert "other users is" in choice.reason


def test_fixed_limits_stay_where_no_split_is_better():
    choice = choose_split(folds_of([(40, 0), (0, 40)]), FIXED)
    assert not choice.learned
    assert choice.limits == FIXED
    assert "limits learned from the log: recall" in choice.reason


def test_segments_need_to_beat_the_split_of_all():
    both = (GLOBAL, SEGMENTS)
    choice = choose_split(folds_of([(70, 0), (0, 70)]), FIXED, kinds=both)
    assert choice.learned
    assert choice.split["nominators"] == ("n0", "n1")
    short, *_, long = choice.split["limits"]
    assert short[0] > 2 * short[1]
    assert long[1] > 2 * long[0]
    assert 70 <= choice.budget <= 80
    assert "limits by length of history" in choice.reason
    same = choose_split(folds_of([(70, 0), (70, 0)]), FIXED, kinds=both)
    assert same.split == {}


def test_few_requests_with_targets_keep_fixed_limits():
    choice = choose_split(folds_of([(70, 0), (70, 0)], requests=400), FIXED)
    assert not choice.learned
    assert choice.reason.startswith("fixed limits: ")


def test_no_found_target_keeps_fixed_limits():
    choice = choose_split(folds_of([(0, 0), (0, 0)]), FIXED)
    assert choice.limits == FIXED
    assert "fixed limits: 0 requests" in choice.reason


def test_nominators_that_users_without_history_need_keep_their_limits():
    folds = folds_of([(70, 0), (70, 0)])
    parts = tuple(
        Fold({"n0": one.stages["n0"], "popular": one.stages["n1"].renewed(name="popular")}, one.batches)
        for one in folds.parts
    )
    choice = choose_split(Folds(parts, folds.events), {"n0": 40, "popular": 20})
    assert choice.limits["popular"] == 20
    assert choice.limits["n0"] >= 40


def test_folds_without_candidates_keep_their_requests():
    folds = folds_of([(70, 0), (70, 0)], requests=200)
    bare = without_candidates(folds)
    assert len(bare) == len(folds)
    assert bare.done == 0
    assert all(one.found.shape[1] == 0 for part in bare.parts for one in part.batches)
