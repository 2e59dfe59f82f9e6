"""The ranker: a network over features, the same after a trip through its weights."""

import pytest
import torch

from shortlist.stages import FeatureRanker
from shortlist.testing.stages import check_stage
from tests.worlds import N_ITEMS, asked, listed, ranker, run_checked

POOL = listed("a", [1, 2, 3]) + listed("b", [3, 4])


def test_the_score_is_the_network_over_the_features():
    stage, query = ranker(("a", "b")), asked([5], [])
    field = run_checked(POOL, query).candidates
    with torch.no_grad():
        assert torch.equal(stage.score(query, field), stage.network(stage.features(query, field)))


def test_it_keeps_the_contract():
    check_stage(ranker(("a", "b")), N_ITEMS, ("a", "b"))


def test_it_scores_the_same_after_a_trip_through_its_settings_and_weights():
    stage, query = ranker(("a", "b"), seed=3), asked([5, 6], [])
    assert stage.settings() == {"name": "rank", "nominators": ["a", "b"]}
    back = FeatureRanker.build(stage.settings(), stage.tensors())
    assert torch.equal(run_checked(POOL >> back, query).scores, run_checked(POOL >> stage, query).scores)


def test_a_ranker_that_misses_the_word_of_a_nominator_says_which():
    with pytest.raises(KeyError, match=r"b\.score"):
        run_checked(listed("a", [1]) >> ranker(("a", "b")), asked())
