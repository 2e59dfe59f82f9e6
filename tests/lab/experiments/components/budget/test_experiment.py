"""The quick profile of the budget experiment."""

import pytest

from shortlist.errors import ConfigError
from shortlist.lab.experiments import EXPERIMENTS
from shortlist.lab.experiments.components.budget.clusters import CLUSTERS
from shortlist.lab.experiments.components.budget.experiment import PAIRS, components_budget
from shortlist.lab.experiments.components.budget.systems import ALONE, SYSTEMS


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return components_budget(None, seeds=(0,), cache_file=tmp_path_factory.mktemp("budget") / "cache")


def values_of(found, metric):
    return {one.method: one.mean for one in found.rows if one.metric == metric}


def test_every_split_of_the_budget_is_measured(found):
    recalls = values_of(found, "recall of the pool")
    assert set(recalls) == set(SYSTEMS)
    assert all(0 < one <= 1 for one in recalls.values())
    assert {one.metric for one in found.rows} == {
        "recall of the pool",
        "ndcg@10",
        "candidates",
        "nominations",
    }
    assert len(found.differences) == 2 * len(PAIRS)


def test_nominations_are_more_than_candidates_where_lists_overlap(found):
    nominations, candidates = values_of(found, "nominations"), values_of(found, "candidates")
    assert all(nominations[system] >= candidates[system] for system in SYSTEMS)
    assert nominations["even"] > candidates["even"]
    assert all(candidates[system] <= 24 for system in ALONE)


def test_limits_of_every_seed_are_recorded(found):
    limits = found.settings["demo/0"]
    assert set(limits) == set(SYSTEMS)
    assert limits["even"]["limits"] == [[6, 6, 6, 6]]
    assert len(limits["k-means segments"]["limits"]) == CLUSTERS
    assert limits["gate"]["limits"] == limits["global"]["limits"]
    assert abs(sum(limits["gate"]["gate"]) - 1) < 1e-4
    assert len(limits["segments"]["limits"]) == len(limits["segments"]["history"]) + 1


def test_claims_have_paired_intervals(found):
    assert len(found.claims) == 14
    assert all(one.interval is not None for one in found.claims)


def test_real_data_needs_a_folder_and_a_known_profile():
    with pytest.raises(ConfigError, match="needs --data"):
        EXPERIMENTS["components-budget-mind"](None, "full")
    with pytest.raises(ConfigError, match="expected the profile quick or full, got 'small'"):
        components_budget(None, "small")
