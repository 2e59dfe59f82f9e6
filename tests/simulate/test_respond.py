"""Random numbers that depend only on seeds, and user responses made from them."""

import numpy as np
import pytest

from shortlist.simulate.respond import PATIENCE, sample_outcomes, uniforms

SEEDS = np.array([0, 1, -1, 2**63 - 1, -(2**63)], np.int64)


def splitmix(state: int) -> int:
    """The finaliser of splitmix64 with Python integers."""
    bits = (state + 0x9E3779B97F4A7C15) % 2**64
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB % 2**64
    return bits ^ (bits >> 31)


def test_the_finaliser_is_the_published_one() -> None:
    assert splitmix(0) == 0xE220A8397B1DCDAF  # the first number of splitmix64 with seed 0


@pytest.mark.parametrize("salt", [0, 3, -1])
def test_uniforms_equal_splitmix64(salt: int) -> None:
    slow = [[splitmix(splitmix(int(seed) + splitmix(salt)) + k) >> 11 for k in range(3)] for seed in SEEDS]
    assert uniforms(SEEDS, 3, salt).tolist() == [[bits / 2**53 for bits in row] for row in slow]


def test_uniforms_do_not_depend_on_batch_or_width() -> None:
    whole = uniforms(SEEDS, 8, salt=1)
    assert np.array_equal(uniforms(SEEDS[2:3], 5, salt=1), whole[2:3, :5])


def test_uniforms_have_a_uniform_histogram() -> None:
    numbers = uniforms(np.arange(10_000), 1, salt=0)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert np.histogram(numbers, 10, (0, 1))[0] == pytest.approx(np.full(10, 1000), abs=150)


def test_examined_positions_are_a_prefix_of_the_slate() -> None:
    examined = sample_outcomes(np.zeros((500, 12)), np.arange(500), seed=0).examined.int()
    assert examined[:, 0].all()
    assert (examined.diff(dim=1) <= 0).all()
    assert {1, 12} <= set(examined.sum(1).tolist())


def test_affinity_one_is_clicked_if_examined_and_affinity_zero_never() -> None:
    affinity = np.tile([1.0, 0.0, 1.0], (200, 1))
    outcomes = sample_outcomes(affinity, np.arange(200), seed=4)
    assert outcomes.clicks.tolist() == (outcomes.examined.numpy() & (affinity == 1)).tolist()
    assert outcomes.affinity.tolist() == affinity.tolist()


def test_examination_and_clicks_use_independent_uniforms_and_the_seed_changes_both() -> None:
    affinity, seeds = np.full((50, 10), 0.5), np.arange(50)
    one, other = sample_outcomes(affinity, seeds, seed=0), sample_outcomes(affinity, seeds, seed=1)
    assert one.examined.tolist() == (PATIENCE ** np.arange(10) > uniforms(seeds, 1, salt=0)).tolist()
    clicked = uniforms(seeds, 10, salt=1) < 0.5
    assert one.clicks.tolist() == (one.examined.numpy() & clicked).tolist()
    assert one.examined.tolist() != other.examined.tolist()
