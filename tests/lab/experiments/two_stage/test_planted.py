import numpy as np
import pytest
import torch

from shortlist.data import Query
from shortlist.diagnose.sample import hits_per_request, sample_users
from shortlist.errors import ConfigError
from shortlist.grammar import leaves
from shortlist.lab.experiments.two_stage.planted import (
    LIKED,
    N_LIKED,
    NEXT,
    NO_KNOB,
    PLANTS,
    RELEVANT,
    STAGES,
    AffinityNominator,
    AffinityScorer,
    PlantTrial,
    held_out_of,
    log_odds,
    pipeline_of,
    planted,
    planted_stage,
)
from shortlist.metrics.estimate import Estimate
from shortlist.simulate import make_world, simulate_log
from shortlist.testing.stages import check_stage
from tests.lab.experiments.results import check_result


@pytest.fixture(scope="module")
def small():
    world = make_world(60, 240, 6, 0)
    return world, simulate_log(world, 1800, 0)


@pytest.fixture(scope="module")
def quick():
    return planted_stage(None, "quick", [0])


@pytest.fixture(scope="module")
def means(quick):
    return {(one.method, one.metric): one.mean for one in quick.rows}


def test_every_planted_stage_is_ranked_first_and_its_gain_predicted_for_liked_items(quick):
    check_result(quick, "planted-stage")
    holds = {one.id: one.holds for one in quick.claims}
    for plant in PLANTS:
        assert holds[f"{plant}, liked items: ranked first"]
        assert holds[f"{plant}, liked items: gain as predicted"]


def test_an_oracle_is_an_upper_bound_for_the_next_item(means):
    for plant in PLANTS:
        method = f"{plant}, next item"
        assert 0 < means[method, "gain, measured"] < means[method, "gain, predicted, high"]


def test_a_fixed_last_stage_gains_the_predicted_minus_the_remaining_gain(means):
    # Both last stages get the same candidates, so the two oracles return the same items.
    for relevant in RELEVANT:
        predicted, left, measured = (
            means[f"ranker, {relevant}", f"gain, {part}"]
            for part in ("predicted", "left after the fix", "measured")
        )
        assert predicted - left == pytest.approx(measured)


def test_each_plant_weakens_its_own_stage_and_no_other(small):
    world, dataset = small
    healthy = pipeline_of(world, dataset)
    sample = sample_users(held_out_of(world, dataset, LIKED), world.n_items)
    hits = hits_per_request(healthy, sample).sum()
    for plant in PLANTS:
        weak = planted(healthy, plant, world.n_items, 0)
        assert hits_per_request(weak, sample).sum() < hits
        changed = [a.title for a, b in zip(leaves(weak), leaves(healthy), strict=True) if a is not b]
        capacities = [(a.capacity, b.capacity) for a, b in zip(weak.stages, healthy.stages, strict=True)]
        expected = {"nominator": ["near"], "filter": ["available"], "cut": []}.get(plant, [STAGES[plant]])
        assert changed == expected
        assert [a for a, b in capacities if a != b] == ([12] if plant == "cut" else [])


def test_liked_items_are_the_best_outside_the_history(small):
    world, dataset = small
    held_out = held_out_of(world, dataset, LIKED)
    for row in range(0, len(held_out), 7):
        history = set(held_out.query(slice(row, row + 1), 999).history[0].tolist())
        query = held_out.query(slice(row, row + 1))
        odds = log_odds(world, query, torch.arange(world.n_items)[None, :])[0]
        order = odds.sort(descending=True, stable=True).indices.tolist()
        best = [item for item in order if item not in history][:N_LIKED]
        assert set(held_out.relevant(slice(row, row + 1))[0].tolist()) == set(best)


def test_next_items_are_not_in_the_history(small):
    world, dataset = small
    held_out = held_out_of(world, dataset, NEXT)
    query, relevant = held_out.query(width=999), held_out.relevant()
    for row in range(len(held_out)):
        assert not set(query.history[row].tolist()) & (set(relevant[row].tolist()) - {-1})


def test_the_stages_of_the_experiment_pass_their_contract(small):
    world, _ = small
    everything = torch.ones(world.n_items, dtype=torch.bool)
    query = Query.of([[1, 2], []], users=[0, 1], times=[world.end, world.end])
    nominated = AffinityNominator(world, everything, 0.0, limit=5, name="near")(query, None)
    best = world.best(np.array([0, 1]), world.end, 5)
    assert nominated.items.tolist() == best.tolist()
    even = torch.arange(world.n_items) % 2 == 0
    half = AffinityNominator(world, even, limit=200, name="half")(query, None)
    assert bool((half.items[half.valid] % 2 == 0).all())
    assert int(half.valid.sum(1)[0]) == world.n_items // 2
    noise = AffinityScorer(world, noise_only=True, name="noise").score(query, nominated)
    assert not torch.equal(noise, AffinityScorer(world, 0.0, name="truth").score(query, nominated))
    with pytest.raises(Exception, match="user rows"):
        check_stage(AffinityScorer(world, name="scorer"), world.n_items)  # it has no affinity of other users


def test_a_gain_is_predicted_only_within_an_interval():
    def trial(fixed: float, oracle: Estimate) -> PlantTrial:
        return PlantTrial("cut", LIKED, "prerank", "prerank", NO_KNOB, 0.5, fixed, oracle, 0.0)

    assert trial(0.7, Estimate(0.2, 0.1, 0.3)).predicted
    assert trial(0.7, Estimate(0.2, 0.1, 0.3)).gain == pytest.approx(0.2)
    assert not trial(0.9, Estimate(0.2, 0.1, 0.3)).predicted
    assert not trial(0.7, Estimate(0.2)).predicted


def test_an_unknown_profile_is_refused():
    with pytest.raises(ConfigError, match="quick or full"):
        planted_stage(None, "medium")


def test_opening_a_stage_gains_nearly_as_much_as_the_fix_for_the_next_item(means):
    for plant in ("nominator", "filter", "pre-ranker", "cut"):
        measured = means[f"{plant}, next item", "gain, measured"]
        assert abs(means[f"{plant}, next item", "gain, best knob"] - measured) < 0.35 * measured
