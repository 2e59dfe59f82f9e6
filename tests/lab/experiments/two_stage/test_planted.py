import numpy as np
import pytest
import torch

from shortlist.data import Query
from shortlist.diagnose.follow_items import capacity_of
from shortlist.diagnose.sample import hits_per_request, sample_users
from shortlist.errors import ConfigError
from shortlist.grammar import leaves
from shortlist.lab.experiments.two_stage.planted import (
    NO_KNOB,
    PLANTS,
    STAGES,
    WANTED,
    WANTS,
    Judge,
    Near,
    Tried,
    cases_of,
    liking,
    pipeline_of,
    planted,
    planted_stage,
)
from shortlist.simulate import make_world, simulate_log
from shortlist.testing.stages import check_stage
from tests.lab.experiments.shapes import check_shape


@pytest.fixture(scope="module")
def small():
    world = make_world(60, 240, 6, 0)
    return world, simulate_log(world, 1800, 0)


@pytest.fixture(scope="module")
def quick():
    return planted_stage(None, "quick", [0])


def test_every_planted_stage_is_named_and_its_oracle_foretells_the_gain_where_it_can(quick):
    check_shape(quick, "planted-stage")
    holds = {one["id"]: one["holds"] for one in quick["claims"]}
    for plant in PLANTS:
        assert holds[f"{plant}, liked: named first"]
        assert holds[f"{plant}, liked: gain as foretold"]


def test_an_oracle_is_an_upper_bound_where_rivals_come_in_with_the_mended_stage(quick):
    values = {(one["method"], one["metric"]): one["mean"] for one in quick["rows"]}
    for plant in PLANTS:
        method = f"{plant}, met"
        assert 0 < values[method, "gain, measured"] < values[method, "gain, foretold, high"]


def test_a_mended_last_stage_gains_what_was_foretold_but_for_what_is_left(quick):
    # Both last stages are given the same candidates, so the two oracles return the same.
    values = {(one["method"], one["metric"]): one["mean"] for one in quick["rows"]}
    for wants in WANTS:
        foretold, left, measured = (
            values[f"ranker, {wants}", f"gain, {what}"]
            for what in ("foretold", "left after mending", "measured")
        )
        assert foretold - left == pytest.approx(measured)


def test_each_plant_weakens_its_own_stage_and_no_other(small):
    world, dataset = small
    healthy = pipeline_of(world, dataset)
    one = sample_users(cases_of(world, dataset, "liked"), world.n_items)
    whole = hits_per_request(healthy, one).sum()
    for plant in PLANTS:
        weak = planted(healthy, plant, world.n_items, 0)
        assert hits_per_request(weak, one).sum() < whole
        changed = [a.title for a, b in zip(leaves(weak), leaves(healthy), strict=True) if a is not b]
        rooms = [(capacity_of(a), capacity_of(b)) for a, b in zip(weak.stages, healthy.stages, strict=True)]
        expected = {"nominator": ["near"], "filter": ["available"], "cut": []}.get(plant, [STAGES[plant]])
        assert changed == expected
        assert [a for a, b in rooms if a != b] == ([12] if plant == "cut" else [])


def test_what_is_liked_is_the_best_that_was_not_met(small):
    world, dataset = small
    cases = cases_of(world, dataset, "liked")
    for row in range(0, len(cases), 7):
        met = set(cases.query(slice(row, row + 1), 999).history[0].tolist())
        query = cases.query(slice(row, row + 1))
        odds = liking(world, query, torch.arange(world.n_items)[None, :])[0]
        order = [item for item in odds.sort(descending=True, stable=True).indices.tolist() if item not in met]
        assert set(cases.relevant(slice(row, row + 1))[0].tolist()) == set(order[:WANTED])


def test_what_was_met_next_was_not_met_before(small):
    world, dataset = small
    cases = cases_of(world, dataset, "met")
    query, truth = cases.query(width=999), cases.relevant()
    for row in range(len(cases)):
        assert not set(query.history[row].tolist()) & (set(truth[row].tolist()) - {-1})
    assert len(WANTS) == 2


def test_the_stages_keep_their_contract(small):
    world, _ = small
    everything = torch.ones(world.n_items, dtype=torch.bool)
    asked = Query.of([[1, 2], []], users=[0, 1], times=[world.end, world.end])
    named = Near(world, everything, 0.0, limit=5, name="near")(asked, None)
    truth = world.best(np.array([0, 1]), world.end, 5)
    assert named.items.tolist() == truth.tolist()
    half = Near(world, torch.arange(world.n_items) % 2 == 0, limit=200, name="half")(asked, None)
    assert bool((half.items[half.valid] % 2 == 0).all())
    assert int(half.valid.sum(1)[0]) == world.n_items // 2
    noise = Judge(world, knows=False, name="noise").score(asked, named)
    assert not torch.equal(noise, Judge(world, 0.0, name="truth").score(asked, named))
    with pytest.raises(Exception, match="user rows"):
        check_stage(Judge(world, name="judge"), world.n_items)  # it knows nobody outside its world


def test_a_gain_is_inside_only_where_there_is_an_interval():
    told = {"mean": 0.2, "low": 0.1, "high": 0.3}
    one = Tried("cut", "liked", "prerank", "prerank", NO_KNOB, 0.5, 0.7, told, 0.0)
    assert one.inside
    assert one.gain == pytest.approx(0.2)
    assert not Tried("cut", "liked", "prerank", "prerank", NO_KNOB, 0.5, 0.9, told, 0.0).inside
    none = {"mean": 0.2, "low": None, "high": None}
    assert not Tried("cut", "liked", "prerank", "prerank", NO_KNOB, 0.5, 0.7, none, 0.0).inside


def test_an_unknown_profile_is_refused():
    with pytest.raises(ConfigError, match="quick or full"):
        planted_stage(None, "medium")


def test_letting_a_stage_wide_open_gains_nearly_what_mending_it_does_though_rivals_come_in(quick):
    values = {(one["method"], one["metric"]): one["mean"] for one in quick["rows"]}
    for plant in ("nominator", "filter", "pre-ranker", "cut"):
        measured = values[f"{plant}, met", "gain, measured"]
        assert abs(values[f"{plant}, met", "gain, best knob"] - measured) < 0.35 * measured
