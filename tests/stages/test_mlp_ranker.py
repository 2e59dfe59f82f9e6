"""The MLP ranker as a stage: unchanged by saving, and each candidate is scored independently."""

import pytest
import torch

from shortlist.errors import ArtifactError
from shortlist.models.ranking.mlp_ranker import MLPRanker, MLPRankerConfig
from shortlist.stages import MLPScorer
from shortlist.testing.stages import check_stage
from tests.stages.small_features import small_features
from tests.stages.test_calibrated import logistic
from tests.worlds import N_ITEMS, listed, query_of, run_checked

POOL = listed("a", [1, 2, 3]) + listed("b", [3, 4])


def scorer(**more) -> MLPScorer:
    torch.manual_seed(0)
    features = small_features()
    sizes = (features.columns.sizes, features.columns.n_tags)
    config = MLPRankerConfig(N_ITEMS, len(features.names), *sizes, width=8, hidden=(16,))
    return MLPScorer(features, MLPRanker(config).eval(), name="rank", **more)


@pytest.mark.parametrize("more", [{}, {"calibration": logistic(2.0, 1.0)}])
def test_stage_keeps_its_contract_and_its_scores_when_rebuilt(more):
    stage = scorer(**more)
    check_stage(stage, N_ITEMS, ("a", "b"))
    assert stage.settings() == {
        "name": "rank",
        "nominators": ["a", "b"],
        "columns": ["price", "kind", "genres"],
    }
    rebuilt = MLPScorer.build(stage.settings(), stage.tensors())
    query = query_of([5, 6], [])
    assert torch.equal(run_checked(POOL >> rebuilt, query).scores, run_checked(POOL >> stage, query).scores)
    assert rebuilt.probabilities == stage.probabilities


def test_scores_do_not_depend_on_other_candidates():
    stage, query = scorer(), query_of([5, 6], [7])
    candidates = run_checked(POOL, query).candidates
    scores = stage.score(query, candidates)
    reverse = torch.arange(candidates.shape[1] - 1, -1, -1).expand(candidates.shape)
    assert torch.allclose(stage.score(query, candidates.take(reverse)).flip(1), scores, atol=1e-6)
    one = stage.score(query, candidates.take(reverse[:, :1]))
    assert torch.allclose(one, scores[:, -1:], atol=1e-6)


def test_scores_depend_on_nominations_and_columns():
    stage, query = scorer(), query_of([5, 6])
    candidates = run_checked(POOL, query).candidates
    scores = stage.score(query, candidates)
    missing = torch.full(candidates.shape, torch.nan)
    without = candidates.add({"a.rank": missing, "a.score": missing})
    assert not torch.equal(stage.score(query, without), scores)
    stage.columns.numbers[:] = stage.columns.numbers + 1
    assert not torch.equal(stage.score(query, candidates), scores)


def test_damaged_tensors_are_refused():
    stage = scorer()
    with pytest.raises(ArtifactError, match="mlp-ranker: tensor 'config' is missing"):
        MLPScorer.build({}, {})
    with pytest.raises(ArtifactError, match="settings and weights do not fit"):
        MLPScorer.build(stage.settings(), stage.tensors() | {"network.items.weight": torch.zeros(3, 3)})


def test_features_of_other_sizes_than_the_network_are_refused():
    stage = scorer()
    with pytest.raises(ArtifactError, match=r"the network expects .* the features have"):
        MLPScorer.build(stage.settings(), stage.tensors() | {"columns.codes": stage.columns.codes + 1000})
    with pytest.raises(ArtifactError, match=r"the network expects .* the features have"):
        MLPScorer.build(stage.settings() | {"nominators": ["a"]}, stage.tensors())
