import math
from itertools import permutations

import pytest
import torch

from shortlist.diagnose.tree.collapse import collapse, personal_share


def test_collapse_measures_match_counting():
    lists = torch.tensor([[0, 1, 2], [0, 3, -1], [4, 0, 1]])
    found = collapse(lists, 10, personal=0.5)
    sets = [set(row) - {-1} for row in lists.tolist()]
    shared = sum(len(a & b) for a, b in permutations(sets, 2))
    assert found.distinct == 5
    assert found.possible == 8
    assert found.overlap == pytest.approx(shared / (8 * 2))
    assert found.first_share == pytest.approx(2 / 3)
    shares = [3 / 8, 2 / 8, 1 / 8, 1 / 8, 1 / 8]
    assert found.entropy == pytest.approx(-sum(p * math.log(p) for p in shares) / math.log(10))
    assert not found.alarm  # three users are too few for a share


def test_the_personal_share_is_a_ratio_of_sums_of_squares():
    scores = torch.randn(6, 9, generator=torch.Generator().manual_seed(0)).double()
    off = scores - scores.mean(1, keepdim=True)
    residual = off - off.mean(0)
    expected = float(residual.square().sum() / off.square().sum())
    assert personal_share(float(off.square().sum()), off.sum(0), 6) == pytest.approx(expected)


def test_one_list_for_all_users_is_an_alarm():
    found = collapse(torch.arange(5).expand(30, 5), 1000, personal=0.5)
    assert found.alarm
    assert "share 100% of their lists" in found.reason
    assert found.overlap == 1


def test_one_first_item_in_many_lists_is_an_alarm():
    lists = torch.arange(200).view(40, 5).clone()
    lists[:10, 0] = 777
    found = collapse(lists, 1000, personal=0.5)
    assert found.alarm
    assert "first for 25% of users" in found.reason


def test_scores_independent_of_the_user_are_an_alarm():
    assert "hardly depend on the user" in collapse(torch.arange(6).view(2, 3), 10, personal=0.0).reason


def test_lists_of_the_whole_catalogue_are_no_alarm():
    lists = torch.stack([torch.randperm(5, generator=torch.Generator().manual_seed(s)) for s in range(10)])
    found = collapse(lists, 5, personal=0.5)
    assert found.overlap == 1
    assert not found.alarm


@pytest.mark.parametrize("users", [0, 1])
def test_fewer_than_two_users_are_no_alarm(users):
    found = collapse(torch.arange(3).expand(users, 3), 10, personal=0.0)
    assert not found.alarm
    assert found.overlap is None
