import math
from itertools import permutations

import pytest
import torch

from shortlist.diagnose.tree.collapse import collapse, personal_share


def test_the_facts_are_those_of_counting():
    lists = torch.tensor([[0, 1, 2], [0, 3, -1], [4, 0, 1]])
    told = collapse(lists, 10, personal=0.5)
    sets = [set(row) - {-1} for row in lists.tolist()]
    shared = sum(len(a & b) for a, b in permutations(sets, 2))
    assert told.distinct == 5
    assert told.possible == 8
    assert told.overlap == pytest.approx(shared / (8 * 2))
    assert told.first_share == pytest.approx(2 / 3)
    shares = [3 / 8, 2 / 8, 1 / 8, 1 / 8, 1 / 8]
    assert told.entropy == pytest.approx(-sum(p * math.log(p) for p in shares) / math.log(10))
    assert not told.alarm  # three users are too few to speak of


def test_the_personal_share_is_that_of_two_sums_of_squares():
    scores = torch.randn(6, 9, generator=torch.Generator().manual_seed(0)).double()
    off = scores - scores.mean(1, keepdim=True)
    residual = off - off.mean(0)
    expected = float(residual.square().sum() / off.square().sum())
    assert personal_share(float(off.square().sum()), off.sum(0), 6) == pytest.approx(expected)


def test_one_list_for_all_raises_the_alarm():
    told = collapse(torch.arange(5).expand(30, 5), 1000, personal=0.5)
    assert told.alarm
    assert "share 100% of their lists" in told.reason
    assert told.overlap == 1


def test_one_item_on_top_of_many_lists_raises_the_alarm():
    lists = torch.arange(200).view(40, 5).clone()
    lists[:10, 0] = 777
    told = collapse(lists, 1000, personal=0.5)
    assert told.alarm
    assert "first for 25% of users" in told.reason


def test_scores_that_do_not_depend_on_the_user_raise_the_alarm():
    assert "hardly depend on the user" in collapse(torch.arange(6).view(2, 3), 10, personal=0.0).reason


def test_lists_of_everything_are_no_alarm():
    lists = torch.stack([torch.randperm(5, generator=torch.Generator().manual_seed(s)) for s in range(10)])
    told = collapse(lists, 5, personal=0.5)
    assert told.overlap == 1
    assert not told.alarm


@pytest.mark.parametrize("users", [0, 1])
def test_nobody_and_one_user_are_no_alarm(users):
    told = collapse(torch.arange(3).expand(users, 3), 10, personal=0.0)
    assert not told.alarm
    assert told.overlap is None
