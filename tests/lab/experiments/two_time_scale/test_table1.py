"""The table of systems."""

import pytest

from shortlist.lab.experiments.two_time_scale.cells.fill import Plan
from shortlist.lab.experiments.two_time_scale.cells.places import FULL, MOVIELENS, TINY, place_of
from shortlist.lab.experiments.two_time_scale.cells.systems import (
    ANCHORED,
    CCF,
    DYNAMIC,
    FEATURES,
    GRU,
    LAST_CLICK,
    ONE_GRU,
    PLAIN,
    POPULAR,
)
from shortlist.lab.experiments.two_time_scale.table1 import systems_at, two_time_scale_table1
from shortlist.lab.result import result_json

MEANS = {
    DYNAMIC: 0.4,
    POPULAR: 0.1,
    LAST_CLICK: 0.12,
    CCF: 0.15,
    GRU: 0.2,
    ONE_GRU: 0.21,
    ANCHORED: 0.25,
    PLAIN: 0.2,
}


@pytest.fixture
def result(made_up):
    plan = Plan({place_of(TINY): systems_at(place_of(TINY))}, (0, 1))
    return two_time_scale_table1(None, "quick", (0, 1), cache_file=made_up(plan, MEANS))


def test_the_best_variant_is_compared_with_every_rival_by_segment(result):
    claims = {one.id: one for one in result.claims}
    for segment in ("active", "new"):
        for rival in (CCF, ONE_GRU, GRU):
            assert claims[f"{ANCHORED} > {rival}, {segment}, mrr, raw, on world-tiny"].holds
    assert claims[f"{PLAIN} >= {CCF}, active, mrr, raw, on world-tiny"].holds
    assert not claims[f"{PLAIN} >= {ONE_GRU}, active, mrr, raw, on world-tiny"].holds
    others = {one.other for one in result.differences if one.one == ANCHORED}
    assert others == set(MEANS) - {ANCHORED}


def test_sampled_metrics_are_points_against_full_ones(result):
    points = {one.method: one for one in result.rows if one.metric == "sampled mrr against full mrr"}
    assert points[f"{CCF} on world-tiny"].x == pytest.approx(0.15, abs=0.01)
    correlation = next(one for one in result.claims if one.source.endswith("E10"))
    assert correlation.estimate == pytest.approx(1)


def test_a_result_says_how_it_was_measured(result):
    assert "0.844" in result.note
    assert "Every test event is predicted" in result.note
    assert result_json(result)["bounds"]["intervals"]
    assert not result.skipped


def test_nothing_is_run_beside_the_chosen_cells(tmp_path):
    """One cell of counts; the rest is listed as missing."""
    found = two_time_scale_table1(None, "quick", (0,), cache_file=tmp_path / "c.st", only=["*/popularity/*"])
    assert len(found.skipped) == len(systems_at(place_of(TINY))) - 1
    assert {one.method for one in found.rows} == {"popularity on world-tiny"}


def test_oracles_are_of_worlds_and_features_of_movielens():
    assert DYNAMIC in systems_at(place_of(FULL))
    assert DYNAMIC not in systems_at(place_of(MOVIELENS))
    assert FEATURES in systems_at(place_of(MOVIELENS))
