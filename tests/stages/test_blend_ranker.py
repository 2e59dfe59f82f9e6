"""The blend ranker as a stage: a weighted sum of a network and trees, unchanged by saving."""

import pytest
import torch

from shortlist.errors import ArtifactError
from shortlist.models.ranking.mlp import FeatureMLP
from shortlist.stages import BlendScorer
from shortlist.stages.boosted_ranker import tree_features
from shortlist.testing.stages import check_stage
from tests.stages.small_features import small_features
from tests.stages.test_boosted_ranker import POOL, scorer
from tests.worlds import N_ITEMS, query_of, run_checked

FACTORS = torch.tensor([0.5, 2.0], dtype=torch.float64)


def blend(network: bool = True, trees: bool = True) -> BlendScorer:
    torch.manual_seed(0)
    features = small_features()
    parts = FeatureMLP([len(features.names), 8]).eval(), scorer().trees
    return BlendScorer(
        features, parts[0] if network else None, parts[1] if trees else None, FACTORS, name="rank"
    )


@pytest.mark.parametrize("kept", [(True, True), (True, False), (False, True)])
def test_score_is_the_weighted_sum_of_network_and_trees(kept):
    stage, query = blend(*kept), query_of([5, 6], [])
    found = run_checked(POOL, query).candidates
    inputs = tree_features(stage.features, query, found)
    expected = torch.zeros(found.shape)
    with torch.no_grad():
        if stage.network is not None:
            expected += 0.5 * stage.network(stage.features(query, found))
        if stage.trees is not None:
            expected += 2.0 * stage.trees(inputs)
    torch.testing.assert_close(stage.score(query, found), expected)


@pytest.mark.parametrize("kept", [(True, True), (True, False), (False, True)])
def test_stage_keeps_its_contract_and_its_scores_when_rebuilt(kept):
    stage, query = blend(*kept), query_of([5, 6], [])
    check_stage(stage, N_ITEMS, ("a", "b"))
    rebuilt = BlendScorer.build(stage.settings(), stage.tensors())
    assert (rebuilt.network is None, rebuilt.trees is None) == (stage.network is None, stage.trees is None)
    assert torch.equal(run_checked(POOL >> rebuilt, query).scores, run_checked(POOL >> stage, query).scores)


@pytest.mark.parametrize("factors", [None, torch.ones(2), torch.full((2,), torch.nan, dtype=torch.float64)])
def test_damaged_factors_are_refused(factors):
    stage = blend()
    tensors = {name: one for name, one in stage.tensors().items() if name != "factors"}
    with pytest.raises(ArtifactError, match="blend-ranker"):
        BlendScorer.build(stage.settings(), tensors if factors is None else tensors | {"factors": factors})
