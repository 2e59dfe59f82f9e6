"""The table of ablations."""

import pytest

from shortlist.lab.experiments.two_time_scale.cells.fill import Plan
from shortlist.lab.experiments.two_time_scale.cells.places import TINY, UNIT, place_of
from shortlist.lab.experiments.two_time_scale.cells.systems import (
    ANCHORED,
    CCF,
    ONE_GRU,
    PAPER,
    SHRINK,
    SINGLE_STAGE,
    TWO_GRU,
)
from shortlist.lab.experiments.two_time_scale.table3 import systems_at, two_time_scale_table3

MEANS = {
    CCF: 0.15,
    ONE_GRU: 0.21,
    ANCHORED: 0.25,
    TWO_GRU: 0.2,
    SINGLE_STAGE: 0.26,
    SHRINK: 0.24,
    PAPER: 0.22,
}


@pytest.fixture
def result(made_up):
    plan = Plan({place_of(TINY): systems_at(place_of(TINY))}, (0, 1))
    return two_time_scale_table3(None, "quick", (0, 1), cache_file=made_up(plan, MEANS))


def test_claims_of_the_plan_are_judged_by_paired_differences(result):
    claims = {one.id: one for one in result.claims}
    assert not claims[f"{ANCHORED} > {SINGLE_STAGE}, all, mrr, raw, on world-tiny"].holds
    assert claims[f"{ANCHORED} > {PAPER}, active, mrr, raw, on world-tiny"].holds
    assert claims[f"{ANCHORED} > {TWO_GRU}, active, mrr, raw, on world-tiny"].holds
    assert not claims[f"{SHRINK} >= {ANCHORED}, all, mrr, raw, on world-tiny"].holds


def test_every_ablation_of_the_specification_is_there():
    names = set(systems_at(place_of(UNIT)))
    assert {CCF, ONE_GRU, TWO_GRU, SINGLE_STAGE, SHRINK, "2ts swap", "2ts anchored, full"} < names
    assert {f"2ts anchored, K={last}" for last in (5, 10, 50)} < names
    assert {f"2ts anchored, t*={at}" for at in (0, 10, 20, 50, 100, 200, 400)} < names


def test_quick_variants_are_trained(tmp_path):
    only = [f"*/{name}/*" for name in (CCF, ONE_GRU, SINGLE_STAGE)]
    found = two_time_scale_table3(None, "quick", (0,), cache_file=tmp_path / "c.st", only=only)
    assert {one.method for one in found.rows if one.metric == "seconds"} == {
        f"{name} on world-tiny" for name in (CCF, ONE_GRU, SINGLE_STAGE)
    }
