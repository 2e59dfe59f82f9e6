import json
from dataclasses import replace

import pytest

from shortlist.artifact.as_json import as_json
from shortlist.errors import ConfigError
from shortlist.lab.theory.bounds_compare import bound_terms, compare_bounds, compare_branches
from shortlist.lab.theory.bounds_measured import Measured
from shortlist.metrics.estimate import Estimate
from tests.lab.theory.test_bounds_inputs import inputs

BRANCHES = {f"{branch} branches": inputs(branch=branch, n_users=4832) for branch in (2, 8, 32)}


def test_every_term_has_a_ratio_to_the_reference():
    result = compare_bounds(BRANCHES, "2 branches")
    ratios = {name: {one.name: one.ratio_to_ref for one in terms} for name, terms in result.terms.items()}
    assert set(ratios["2 branches"].values()) == {1.0}
    assert ratios["32 branches"]["rigorous"] == pytest.approx(3826 / 7414)
    assert ratios["32 branches"]["paper"] == pytest.approx(1 - 0.134, abs=5e-4)
    assert ratios["32 branches"]["trivial"] == 1
    assert all(0 < one <= 1 for each in ratios.values() for one in each.values())


def test_the_headline_states_that_all_bounds_are_vacuous():
    result = compare_bounds(BRANCHES, "8 branches")
    assert result.vacuous
    assert result.headline.startswith("All 12 bounds are vacuous")
    assert as_json(result)["vacuous"]
    json.dumps(as_json(result), allow_nan=False)


def test_with_enough_instances_no_bound_is_vacuous():
    big = {name: replace(one, n_train=10**9, n_users=0) for name, one in BRANCHES.items()}
    result = compare_bounds(big, "8 branches")
    assert not result.vacuous
    assert result.headline.startswith("None of the bounds")
    mixed = compare_bounds({**big, "few": inputs(branch=8)}, "few")
    assert mixed.headline.startswith("3 of 12 bounds are vacuous")


def test_scorers_share_term_names_and_attention_has_more():
    attention = inputs(scorer="attention", layers=3)
    result = compare_bounds({"linear": inputs(), "attention": attention}, "linear")
    more = {one.name: one for one in result.terms["attention"]}
    assert more["paper"].ratio_to_ref > 1
    assert more["theorem 4"].ratio_to_ref is None
    assert {one.name for one in bound_terms(inputs())} <= set(more)


def test_a_scorer_outside_of_the_theorems_is_marked_or_refused():
    normed = {"a": inputs(departures=("it normalises its layers",))}
    with pytest.raises(ConfigError, match="force=True"):
        compare_bounds(normed, "a")
    result = {one.name: one.applicable for one in compare_bounds(normed, "a", force=True).terms["a"]}
    assert result == {"paper": False, "pair_exact": False, "rigorous": False, "tail": True, "trivial": True}


def test_measurements_belong_to_known_configurations():
    measured = {"2 branches": Measured(gap=Estimate(0.1, 0.05, 0.15), loss="nats")}
    table = as_json(compare_bounds(BRANCHES, "2 branches", measured))
    assert table["measured"]["2 branches"]["gap"]["low"] == 0.05
    with pytest.raises(ConfigError, match="not a configuration"):
        compare_bounds(BRANCHES, "2 branches", {"7 branches": Measured()})
    with pytest.raises(ConfigError, match="the reference must be one of"):
        compare_bounds(BRANCHES, "7 branches")


def test_a_tree_is_compared_with_other_shapes_at_its_own_norms():
    result = compare_branches(inputs(branch=8, b0=3.0))
    assert list(result.terms) == ["this tree", "2 branches", "32 branches"]
    ratios = {name: {one.name: one.ratio_to_ref for one in terms} for name, terms in result.terms.items()}
    assert ratios["2 branches"]["rigorous"] == pytest.approx(7414 / 4236)
    assert ratios["32 branches"]["trivial"] == 1
