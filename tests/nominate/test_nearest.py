"""Nearest: the items a user vector points at, and silence for strangers."""

import torch

from shortlist.nominate import Nearest
from shortlist.testing.stages import check_stage
from tests.worlds import N_ITEMS, asked, run_checked, towers


def test_the_nearest_are_those_of_the_whole_product():
    model = towers()
    query = asked([1, 2, 3], [7])
    named = (Nearest(model) % 5).nominate(query)
    with torch.no_grad():
        full = model.users(query.history) @ model.items().T
    order = full.sort(dim=1, descending=True, stable=True)
    assert torch.equal(named.items, order.indices[:, :5])
    assert torch.allclose(named.scores, order.values[:, :5], atol=1e-6)
    assert not named.scores.requires_grad


def test_users_without_history_get_no_names():
    named = Nearest(towers()).nominate(asked([], [3]))
    assert named.valid.any(1).tolist() == [False, True]


def test_it_keeps_the_contract_and_scores_the_same_after_a_trip_through_its_weights():
    stage = Nearest(towers(), name="near") % 7
    check_stage(stage, N_ITEMS)
    back = Nearest.build(stage.settings(), stage.tensors())
    assert repr(back) == repr(stage)
    query = asked([1, 2], [9])
    assert torch.equal(
        run_checked(back, query).candidates.scores, run_checked(stage, query).candidates.scores
    )
