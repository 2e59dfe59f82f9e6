"""The DIN ranker as a stage: its model's scores, unchanged by saving."""

import pytest
import torch

from shortlist.data import Candidates
from shortlist.errors import ArtifactError
from shortlist.models.ranking.din_ranker import DINRanker, DINRankerConfig
from shortlist.stages import DINScorer
from shortlist.testing.stages import check_stage
from tests.stages.test_calibrated import logistic
from tests.worlds import N_ITEMS, found, listed, query_of, run_checked


def scorer(**more) -> DINScorer:
    torch.manual_seed(0)
    config = DINRankerConfig(N_ITEMS, max_history=6, width=8, attention=(5, 3), hidden=(7, 4))
    return DINScorer(DINRanker(config).eval(), name="rank", **more)


def test_candidates_have_the_scores_of_the_model():
    stage, query, candidates = scorer(), query_of([3, 4], []), found([0.0, None, 0.0], [0.0, 0.0, 0.0])
    with torch.no_grad():
        full = stage.model.scores(query.history)
    assert torch.allclose(
        stage.score(query, candidates)[candidates.valid], full[:, :3][candidates.valid], atol=1e-6
    )


@pytest.mark.parametrize("more", [{}, {"calibration": logistic(2.0, 1.0)}])
def test_stage_keeps_its_contract_and_its_scores_when_rebuilt(more):
    stage = scorer(**more)
    check_stage(stage, N_ITEMS)
    assert stage.settings() == {"name": "rank"}
    rebuilt = DINScorer.build(stage.settings(), stage.tensors())
    query, candidates = query_of([1, 2], [], [39]), found([0.0] * 5, [0.0] * 5, [0.0] * 5)
    assert torch.equal(rebuilt.score(query, candidates), stage.score(query, candidates))
    assert rebuilt.probabilities == stage.probabilities
    assert not rebuilt.model.training


def test_scores_do_not_depend_on_the_order_of_candidates():
    stage, query = scorer(), query_of([1, 2, 3])
    items = torch.tensor([[5, 9, 2]])
    scores = stage.score(query, Candidates.of(items, torch.zeros(1, 3)))
    reversed_scores = stage.score(query, Candidates.of(items.flip(1), torch.zeros(1, 3)))
    assert torch.allclose(reversed_scores.flip(1), scores, atol=1e-6)
    assert stage.score(query, Candidates.none(1)).shape == (1, 0)


def test_empty_history_has_finite_scores():
    slate = run_checked(listed("a", [1, 2, 3]) >> scorer() % 2, query_of([]))
    assert bool(torch.isfinite(slate.scores).all())


def test_damaged_tensors_are_refused():
    stage = scorer()
    with pytest.raises(ArtifactError, match="din-ranker: tensor 'config' is missing"):
        DINScorer.build({}, {})
    with pytest.raises(ArtifactError, match="DINRanker: settings and weights do not fit"):
        DINScorer.build({}, stage.tensors() | {"model.items.weight": torch.zeros(3, 3)})
