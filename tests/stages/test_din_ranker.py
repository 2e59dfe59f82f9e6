"""The DIN ranker as a stage: its model's scores, the same after a trip through its tensors."""

import pytest
import torch

from shortlist.data import Candidates
from shortlist.errors import ArtifactError
from shortlist.models.ranking.din_ranker import DINRanker, DINRankerConfig
from shortlist.stages import DINScorer
from shortlist.testing.stages import check_stage
from tests.stages.test_calibrated import logistic
from tests.worlds import N_ITEMS, asked, found, listed, run_checked


def scorer(**more) -> DINScorer:
    torch.manual_seed(0)
    config = DINRankerConfig(N_ITEMS, max_history=6, width=8, attention=(5, 3), hidden=(7, 4))
    return DINScorer(DINRanker(config).eval(), name="rank", **more)


def test_candidates_get_the_scores_the_model_gives_them():
    stage, query, field = scorer(), asked([3, 4], []), found([0.0, None, 0.0], [0.0, 0.0, 0.0])
    with torch.no_grad():
        full = stage.model.scores(query.history)
    assert torch.allclose(stage.score(query, field)[field.valid], full[:, :3][field.valid], atol=1e-6)


@pytest.mark.parametrize("more", [{}, {"calibration": logistic(2.0, 1.0)}])
def test_it_keeps_the_contract_and_scores_the_same_after_a_trip_through_its_tensors(more):
    stage = scorer(**more)
    check_stage(stage, N_ITEMS)
    assert stage.settings() == {"name": "rank"}
    back = DINScorer.build(stage.settings(), stage.tensors())
    query, field = asked([1, 2], [], [39]), found([0.0] * 5, [0.0] * 5, [0.0] * 5)
    assert torch.equal(back.score(query, field), stage.score(query, field))
    assert back.probabilities == stage.probabilities
    assert not back.model.training


def test_rivals_say_nothing_and_no_candidates_have_no_scores():
    stage, query = scorer(), asked([1, 2, 3])
    items = torch.tensor([[5, 9, 2]])
    told = stage.score(query, Candidates.of(items, torch.zeros(1, 3)))
    turned = stage.score(query, Candidates.of(items.flip(1), torch.zeros(1, 3)))
    assert torch.allclose(turned.flip(1), told, atol=1e-6)
    assert stage.score(query, Candidates.none(1)).shape == (1, 0)


def test_users_without_history_are_ranked_too():
    slate = run_checked(listed("a", [1, 2, 3]) >> scorer() % 2, asked([]))
    assert bool(torch.isfinite(slate.scores).all())


def test_damaged_tensors_are_refused():
    stage = scorer()
    with pytest.raises(ArtifactError, match="din-ranker: its tensors lack 'about'"):
        DINScorer.build({}, {})
    with pytest.raises(ArtifactError, match="DINRanker: settings and weights do not fit"):
        DINScorer.build({}, stage.tensors() | {"model.items.weight": torch.zeros(3, 3)})
