"""Regret per round after learning: closed forms, Monte Carlo, and the simulation (T17 to T19)."""

import numpy as np
import pytest

from shortlist.simulate.bandit import BanditSettings, LinearWorld, System, simulate
from shortlist.simulate.bandit.asymptotes import (
    expected_maximum,
    expected_norm,
    nominator_asymptote,
    single_stage_asymptote,
)
from shortlist.simulate.bandit.draws import SINGLE, nested_masks


@pytest.mark.parametrize(("arms", "value"), [(10, 1.5388), (50, 2.2491), (100, 2.5076), (1000, 3.2414)])
def test_t19_expected_maximum(arms, value):
    assert expected_maximum(arms) == pytest.approx(value, abs=1e-4)


@pytest.mark.parametrize(
    ("subset", "width", "value"), [(10, 20, 0.6983), (4, 20, 0.4257), (20, 40, 0.7027), (8, 40, 0.4362)]
)
def test_expected_norm(subset, width, value):
    assert expected_norm(subset, width) == pytest.approx(value, abs=1e-4)


def test_expected_norm_of_all_features_is_one():
    assert expected_norm(7, 7) == pytest.approx(1)


@pytest.mark.parametrize(("subset", "value"), [(10, 0.6785), (4, 1.2917)])
def test_t17_single_stage_reaches_its_asymptote(subset, value):
    assert single_stage_asymptote(20, subset, 50) == pytest.approx(value, abs=1e-4)
    world, seeds = LinearWorld(20, 50), range(60)
    found = simulate(
        world, [System("G", 1, subset)], seeds=seeds, rounds=1000, settings=BanditSettings(record_every=500)
    )
    late = (found.total[0, :, 1] - found.total[0, :, 0]) / 500
    shown = nested_masks(seeds, 1, 20, SINGLE)[:, 0] < subset
    norms = np.array(
        [
            np.linalg.norm(world.coefficients(seed).numpy()[own])
            for seed, own in zip([*seeds], shown, strict=True)
        ]
    )
    assert (late - expected_maximum(50) * (1 - norms)).mean() == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize(("subset", "value", "tolerance"), [(10, 0.207, 0.02), (4, 0.478, 0.03)])
def test_t18_nominator_regret_after_learning(subset, value, tolerance):
    assert nominator_asymptote(20, subset, 50, 5, draws=4000) == pytest.approx(value, abs=tolerance)
