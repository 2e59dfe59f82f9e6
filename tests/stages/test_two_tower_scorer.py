"""The pre-ranker: the cosine of two towers for the candidates it is given."""

import torch

from shortlist.stages import TowerScorer
from shortlist.testing.stages import check_stage
from tests.worlds import N_ITEMS, asked, found, listed, run_checked, towers


@torch.no_grad()
def test_the_score_is_the_cosine_of_user_and_item():
    model, query = towers(), asked([3, 4], [])
    field = found([0.0, None, 0.0], [0.0, 0.0, 0.0])
    scores = TowerScorer(model).score(query, field)
    full = model.users(query.history) @ model.items().T
    assert torch.allclose(scores[field.valid], full[:, :3][field.valid], atol=1e-6)
    assert scores[field.valid].abs().max() <= 1 + 1e-6


def test_users_without_history_are_scored_too():
    slate = run_checked(listed("a", [1, 2, 3]) >> TowerScorer(towers()) % 2, asked([]))
    assert bool(torch.isfinite(slate.scores).all())


def test_it_keeps_the_contract_and_scores_the_same_after_a_trip_through_its_weights():
    stage = TowerScorer(towers(), name="pre")
    check_stage(stage, N_ITEMS)
    back = TowerScorer.build(stage.settings(), stage.tensors())
    query, field = asked([1, 2]), found([0.0] * 5)
    assert torch.equal(back.score(query, field), stage.score(query, field))
