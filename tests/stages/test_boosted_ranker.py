"""The boosted ranker as a stage: unchanged by saving, and each candidate is scored independently."""

import pytest
import torch

from shortlist.errors import ArtifactError
from shortlist.models.ranking.boosted_trees import Trees
from shortlist.stages import BoostedScorer
from shortlist.stages.boosted_ranker import n_tree_features, tree_features
from shortlist.testing.stages import check_stage
from tests.stages.small_features import small_features
from tests.stages.test_calibrated import logistic
from tests.worlds import N_ITEMS, listed, query_of, run_checked

POOL = listed("a", [1, 2, 3]) + listed("b", [3, 4])


def stumps(count: int) -> Trees:
    """A tree for every feature that splits at 0."""
    root = torch.arange(count) * 3
    at = torch.arange(3 * count)
    top = at % 3 == 0
    left, right = torch.where(top, at + 1, at), torch.where(top, at + 2, at)
    value = torch.where(top, 0.0, torch.randn(3 * count, generator=torch.Generator().manual_seed(0)).double())
    split = torch.where(top, at // 3, 0), torch.zeros(3 * count).double()
    return Trees(*split, left, right, value, root, at % 2 == 0)


def scorer(**more) -> BoostedScorer:
    features = small_features()
    return BoostedScorer(features, stumps(n_tree_features(features)), name="rank", **more)


@pytest.mark.parametrize("more", [{}, {"calibration": logistic(2.0, 1.0)}])
def test_stage_keeps_its_contract_and_its_scores_when_rebuilt(more):
    stage = scorer(**more)
    check_stage(stage, N_ITEMS, ("a", "b"))
    rebuilt = BoostedScorer.build(stage.settings(), stage.tensors())
    query = query_of([5, 6], [])
    assert rebuilt.settings() == stage.settings()
    assert torch.equal(run_checked(POOL >> rebuilt, query).scores, run_checked(POOL >> stage, query).scores)
    assert rebuilt.probabilities == stage.probabilities


def test_trees_read_ranking_features_codes_of_text_columns_and_one_column_per_tag():
    stage, query = scorer(), query_of([5, 6], [])
    candidates = run_checked(POOL, query).candidates
    inputs = tree_features(stage.features, query, candidates)
    columns, rows = stage.features.columns, candidates.items.clamp(min=0)
    assert columns.n_tags == 5
    assert torch.equal(inputs[..., :-6], stage.features(query, candidates))
    assert torch.equal(inputs[..., -6].long(), columns.codes[rows, 0])
    for tag in range(5):
        assert torch.equal(inputs[..., tag - 5].bool(), (columns.tags[rows] == tag).any(-1))
    assert torch.equal(stage.score(query, candidates), stage.trees(inputs))


def test_scores_do_not_depend_on_the_order_of_candidates():
    """Exact: trees sum their leaves in a fixed order, without a matrix product."""
    stage, query = scorer(), query_of([5, 6], [7])
    candidates = run_checked(POOL, query).candidates
    reverse = torch.arange(candidates.shape[1] - 1, -1, -1).expand(candidates.shape)
    assert torch.equal(stage.score(query, candidates.take(reverse)).flip(1), stage.score(query, candidates))


def test_damaged_trees_are_refused():
    stage = scorer()
    broken = stage.tensors() | {"trees.left": torch.zeros_like(stage.trees.left)}
    with pytest.raises(ArtifactError, match="a node has an invalid child"):
        BoostedScorer.build(stage.settings(), broken)
    for value in (torch.tensor(1.0), stage.trees.value.half(), torch.full_like(stage.trees.value, torch.nan)):
        with pytest.raises(ArtifactError, match="a node has an invalid child"):
            BoostedScorer.build(stage.settings(), stage.tensors() | {"trees.value": value})
    with pytest.raises(ArtifactError, match=r"boosted trees: tensor .* is missing"):
        BoostedScorer.build(stage.settings(), stage.features.tensors())
