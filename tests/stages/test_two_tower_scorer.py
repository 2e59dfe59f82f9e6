"""The two-tower scorer: cosines of user and candidate vectors."""

import torch

from shortlist.stages import TowerScorer
from shortlist.testing.stages import check_stage
from tests.worlds import N_ITEMS, found, listed, query_of, run_checked, towers


@torch.no_grad()
def test_score_is_the_cosine_of_user_and_item():
    model, query = towers(), query_of([3, 4], [])
    candidates = found([0.0, None, 0.0], [0.0, 0.0, 0.0])
    scores = TowerScorer(model).score(query, candidates)
    full = model.users(query.history) @ model.items().T
    assert torch.allclose(scores[candidates.valid], full[:, :3][candidates.valid], atol=1e-6)
    assert scores[candidates.valid].abs().max() <= 1 + 1e-6


def test_empty_history_has_finite_scores():
    slate = run_checked(listed("a", [1, 2, 3]) >> TowerScorer(towers()) % 2, query_of([]))
    assert bool(torch.isfinite(slate.scores).all())


def test_stage_keeps_its_contract_and_its_scores_when_rebuilt():
    stage = TowerScorer(towers(), name="pre")
    check_stage(stage, N_ITEMS)
    rebuilt = TowerScorer.build(stage.settings(), stage.tensors())
    query, candidates = query_of([1, 2]), found([0.0] * 5)
    assert torch.equal(rebuilt.score(query, candidates), stage.score(query, candidates))
