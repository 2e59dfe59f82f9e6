"""The blend ranker as a stage: a weighted sum of network, trees and nominators, unchanged by saving."""

from dataclasses import replace

import pytest
import torch

from shortlist.data import Candidates
from shortlist.errors import ArtifactError
from shortlist.models.ranking.mlp import FeatureMLP
from shortlist.stages import BlendScorer
from shortlist.stages.boosted_ranker import tree_features
from shortlist.testing.stages import check_stage
from tests.stages.small_features import small_features
from tests.stages.test_boosted_ranker import POOL, scorer
from tests.worlds import N_ITEMS, query_of, run_checked

WEIGHTS, DEVIATIONS = (torch.tensor(one, dtype=torch.float64) for one in ([0.5, 1.0], [1.0, 0.5]))


def blend(network: bool = True, trees: bool = True) -> BlendScorer:
    torch.manual_seed(0)
    features = small_features()
    parts = FeatureMLP([len(features.names), 8]).eval(), scorer().trees
    kept = (parts[0] if network else None, parts[1] if trees else None)
    return BlendScorer(features, *kept, WEIGHTS, DEVIATIONS, name="rank")


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


@pytest.mark.parametrize("name", ["weights", "deviations"])
@pytest.mark.parametrize(
    "damaged",
    [None, torch.ones(2), torch.full((2,), torch.nan, dtype=torch.float64), -torch.ones(2).double()],
)
def test_damaged_weights_are_refused(name, damaged):
    stage = blend()
    tensors = {key: one for key, one in stage.tensors().items() if key != f"blend.{name}"}
    with pytest.raises(ArtifactError, match=f"blend-ranker.*{name}"):
        BlendScorer.build(
            stage.settings(), tensors if damaged is None else tensors | {f"blend.{name}": damaged}
        )


def test_nominator_with_a_scored_pool_is_a_component():
    features = replace(small_features(), extras=("a.z",))
    stage = BlendScorer(
        features, None, None, torch.tensor([0, 0, 2.0]).double(), torch.tensor([1, 1, 0.5]).double()
    )
    assert stage.components == ("network", "trees", "a")
    items = torch.tensor([[3, 4, 5]])
    found = Candidates.of(items, torch.zeros(1, 3), {"a.z": torch.tensor([[1.0, torch.nan, -1.0]])})
    assert stage.raw(query_of([1]), found).tolist() == [[4.0, -12.0, -4.0]]
