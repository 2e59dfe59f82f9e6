from dataclasses import replace
from functools import cache

from shortlist.lab.experiments.two_time_scale.theory_world_claims import world_claims
from shortlist.lab.experiments.two_time_scale.theory_worlds import WORLDS, play

SETTINGS = replace(WORLDS["c 0.1, s 3, alpha 1.2"], users=300, most=120, rounds=10)


@cache
def played():
    return play(SETTINGS, 0)


def by_name(*every):
    return {one.id.removeprefix("w: "): one for one in world_claims({"w": every})}


def test_the_fitted_constant_predicts_the_crossover_and_the_worst_case_does_not():
    """Reading (ii) of the specification."""
    claims = by_name(played())
    assert claims["the worst-case threshold is many times too large"].holds
    assert claims["fitted Q / V predicts the crossover"].holds
    assert claims["split-half Q / V predicts the crossover"].holds
    assert claims["the soft start has the smaller error"].holds
    assert claims["worst-case Q / V is at least 4"].estimate > 4


def test_a_violated_bound_is_reported():
    one = played()
    broken = replace(one, run=replace(one.run, errors=one.run.errors * 10, own=one.run.own * 1000))
    claims = by_name(one, broken)
    assert not claims["the error is at most Q / (T + 1)"].holds
    assert not claims["the excess risk is within its bounds"].holds


def test_claims_about_a_crossover_fail_where_it_is_not_reached():
    one = played()
    claims = by_name(one, replace(one, run=replace(one.run, variance=1e-4)))
    for name in (
        "the worst-case threshold is many times too large",
        "fitted Q / V predicts the crossover",
        "split-half Q / V predicts the crossover",
        "active users have the smaller best step",
    ):
        assert not claims[name].holds
    assert "crossovers 1" in claims["fitted Q / V predicts the crossover"].note
    assert "None" in claims["fitted Q / V predicts the crossover"].note


def test_drifting_moments_are_reported():
    one = played()
    first = replace(one.halves[0], q=3 * one.halves[0].q)
    claims = by_name(replace(one, halves=(first, *one.halves[1:])))
    assert not claims["split-half Q is constant"].holds
