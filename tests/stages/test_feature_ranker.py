"""The feature ranker as a stage: a network over features, unchanged by saving."""

import pytest
import torch

from shortlist.stages import FeatureRanker
from shortlist.testing.stages import check_stage
from tests.worlds import N_ITEMS, listed, query_of, ranker, run_checked

POOL = listed("a", [1, 2, 3]) + listed("b", [3, 4])


def test_score_is_the_network_over_the_features():
    stage, query = ranker(("a", "b")), query_of([5], [])
    candidates = run_checked(POOL, query).candidates
    with torch.no_grad():
        assert torch.equal(stage.score(query, candidates), stage.network(stage.features(query, candidates)))


def test_stage_keeps_its_contract():
    check_stage(ranker(("a", "b")), N_ITEMS, ("a", "b"))


def test_scores_are_the_same_when_rebuilt():
    stage, query = ranker(("a", "b"), seed=3), query_of([5, 6], [])
    assert stage.settings() == {"name": "rank", "nominators": ["a", "b"]}
    rebuilt = FeatureRanker.build(stage.settings(), stage.tensors())
    assert torch.equal(run_checked(POOL >> rebuilt, query).scores, run_checked(POOL >> stage, query).scores)


def test_missing_column_of_a_nominator_is_named():
    with pytest.raises(KeyError, match=r"b\.rank"):
        run_checked(listed("a", [1]) >> ranker(("a", "b")), query_of())
