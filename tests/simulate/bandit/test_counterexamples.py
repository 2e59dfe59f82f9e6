"""Proposition 2: printed numbers, self-consistent regimes, and the repaired pair (tests T1 to T8 of the spec)."""

import numpy as np
import pytest

from shortlist.errors import ConfigError
from shortlist.simulate.bandit import BanditSettings, System, simulate
from shortlist.simulate.bandit.counterexamples import (
    BANDIT,
    SUPERVISED,
    CounterexampleWorld,
    regimes,
    supervised_outcome,
)
from shortlist.train.pools import WeightRule

LINEAR = 0.02  # nominator regret per round above which it grows linearly


@pytest.mark.parametrize(
    ("name", "rule", "theta", "scores", "pick", "best", "regret", "uniform"),
    [
        ("own works", "all", (1 / 2, 3 / 8), (1 / 2, 3 / 8), 1, 1 / 2, 1 / 2, 7 / 12),
        ("own works", "own_pool", (1 / 2, 1), (1 / 2, 1), 2, 1, 0, 7 / 12),
        ("all works", "own_pool", (1 / 6, -1 / 16), (1 / 16, 1 / 6, -1 / 16), 2, 3 / 4, 1 / 4, 67 / 96),
        ("all works", "all", (1 / 6, -7 / 24), (7 / 24, 1 / 6, -7 / 24), 1, 1, 0, 67 / 96),
    ],
)
def test_t1_t2_t5_supervised(name, rule, theta, scores, pick, best, regret, uniform):
    found = supervised_outcome(name, rule)
    assert found.coefficients == pytest.approx(theta)
    assert found.scores == pytest.approx(scores)
    assert (found.pick, found.best_candidate, found.regret) == (pick, best, pytest.approx(regret))
    assert found.uniform == pytest.approx(uniform)


def test_t5_only_the_first_example_is_below_uniform_play():
    below, above = supervised_outcome("own works", "all"), supervised_outcome("all works", "own_pool")
    assert below.best_candidate < below.uniform
    assert above.best_candidate > above.uniform


def test_t3_bandit_coefficients():
    assert supervised_outcome("bandit", "own_pool").coefficients == pytest.approx((1 / 6, 1 / 16))
    assert supervised_outcome("bandit", "all").coefficients == pytest.approx((1 / 6, -5 / 24))
    theta = SUPERVISED["bandit"].coefficients
    assert theta == pytest.approx((7 / 4, 15 / 8, 1 / 6, 1))
    assert np.linalg.norm(theta) == pytest.approx(2.75788, abs=1e-5)


@pytest.mark.parametrize("copies", [1, 3, 10])
@pytest.mark.parametrize("penalty", [0.0, 0.5, 0.99, 1.01, 2.0, 9.0, 11.0, 1e4])
def test_t4_decisions_with_a_penalty(copies, penalty):
    picks = {
        (name, rule): supervised_outcome(name, rule, penalty, copies).pick
        for name in ("own works", "all works")
        for rule in ("all", "own_pool")
    }
    assert picks["own works", "all"] == (1 if penalty < copies else 2)
    assert picks["own works", "own_pool"] == 2
    assert picks["all works", "own_pool"] == 2
    assert picks["all works", "all"] == 1


def test_t4_tie_where_the_penalty_equals_the_copies():
    scores = supervised_outcome("own works", "all", 3.0, 3).scores
    assert scores[0] == pytest.approx(scores[1])


@pytest.mark.parametrize(
    ("name", "rule", "positive", "negative"),
    [
        ("printed, two nominators", "all", (1 / 8, True, 7 / 32), (-13 / 16, True, 1 / 4)),
        ("printed, two nominators", "own_pool", (1, True, 7 / 32), (-7 / 8, True, 1 / 4)),
        ("printed, own should work", "all", (-5 / 24, False, 0), (-13 / 16, True, 1 / 4)),
        ("printed, own should work", "own_pool", (1 / 16, True, 0), (-7 / 8, True, 1 / 4)),
        ("printed, all should work", "all", (1 / 8, True, 7 / 32), (-5 / 24, True, 0)),
        ("printed, all should work", "own_pool", (1, True, 7 / 32), (1 / 16, False, 0)),
        ("repaired, own works", "all", (-5 / 24, False, 0), (-13 / 16, True, 1 / 4)),
        ("repaired, own works", "own_pool", (1, True, 0), (0, False, 1 / 4)),
        ("repaired, all works", "all", (-1 / 16, False, 3 / 16), (-7 / 24, True, 0)),
        ("repaired, all works", "own_pool", (7 / 8, True, 3 / 16), None),
    ],
)
def test_regimes_of_the_spec(name, rule, positive, negative):
    found = regimes(name, rule)
    for one, expected in zip(found, (positive, negative), strict=True):
        if expected is not None:
            assert (one.coefficient, one.consistent, one.regret) == (
                pytest.approx(expected[0]),
                expected[1],
                pytest.approx(expected[2]),
            )


def played(name, rule, seeds, rounds=3000, nominator="G"):
    world = CounterexampleWorld(BANDIT[name])
    system = System(nominator, world.example.pools.n_nominators, 2, "O")
    settings = BanditSettings(
        rule=WeightRule(rule), tie="random", alpha_nominator=1.0, record_every=rounds // 2
    )
    found = simulate(
        world, [system], seeds=seeds, rounds=rounds, settings=settings, pools=world.pools, masks=world.masks()
    )
    curve = found.nominator[0]  # [S, 2]
    return (curve[:, 1] - curve[:, 0]) / (rounds - rounds // 2), found


@pytest.mark.parametrize("nominator", ["G", "U"])
def test_t6_repaired_world_where_own_works(nominator):
    seeds = range(40 if nominator == "G" else 12)
    own, _ = played("repaired, own works", "own_pool", seeds, nominator=nominator)
    everything, _ = played("repaired, own works", "all", seeds, nominator=nominator)
    assert (own == 0).all()
    assert (everything > LINEAR).all()
    assert everything.mean() == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("nominator", ["G", "U"])
def test_t7_repaired_world_where_all_works(nominator):
    seeds = range(40 if nominator == "G" else 12)
    everything, _ = played("repaired, all works", "all", seeds, nominator=nominator)
    own, _ = played("repaired, all works", "own_pool", seeds, nominator=nominator)
    assert (everything == 0).all()
    assert (own > LINEAR).all()
    assert own.mean() == pytest.approx(0.1875, abs=0.02)


def test_t8_printed_pools_leave_own_in_a_bad_regime():
    own, _ = played("printed, own should work", "own_pool", range(40))
    assert (own > LINEAR).mean() >= 0.8


def test_unknown_counterexample():
    with pytest.raises(ConfigError, match=r"expected .*repaired, own works"):
        regimes("repaired", "all")
    with pytest.raises(ConfigError, match="did you mean own works"):
        supervised_outcome("own work", "all")
