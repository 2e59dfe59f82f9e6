"""Intervals and tests against scipy, and their error rates on simulated users."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from shortlist.errors import ConfigError, DataError
from shortlist.metrics import resampling
from shortlist.metrics.significance import bootstrap, bootstraps, holm, p_text, paired, paired_tests

from .test_resampling import samples_of


def normal(seed: int, count: int, mean: float = 0.0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(mean, 1.0, count))


def test_columns_that_share_samples_have_the_intervals_they_have_alone() -> None:
    with_gaps = normal(2, 50)
    with_gaps[:7] = math.nan
    columns = [normal(0, 50), with_gaps, normal(1, 50), torch.full((50,), math.nan)]
    together = bootstraps(columns, seed=3, samples=200)
    assert [repr(one) for one in together] == [repr(bootstrap(one, 3, 200)) for one in columns]
    assert together[0] != together[2]
    means = columns[2].numpy()[samples_of(50, seed=3, count=200)].mean(axis=1)
    assert [together[2].low, together[2].high] == pytest.approx(np.quantile(means, [0.025, 0.975]))


def test_pairs_that_share_samples_and_flips_have_the_results_they_have_alone() -> None:
    with_gaps = normal(2, 50)
    with_gaps[:7] = math.nan
    nobody = torch.full((50,), math.nan)
    pairs = [(normal(0, 50, 0.2), normal(1, 50)), (with_gaps, normal(1, 50)), (nobody, nobody)]
    together = paired_tests(pairs, seed=3, samples=200)
    assert [repr(one) for one in together] == [repr(paired(a, b, 3, 200)) for a, b in pairs]
    assert together[0].p_value != together[1].p_value


def test_the_interval_agrees_with_scipy() -> None:
    values = normal(0, 300, 2.0).exp()
    ours = bootstrap(values, seed=1, samples=5000)
    theirs = stats.bootstrap((values.numpy(),), np.mean, n_resamples=5000, method="percentile", rng=3)
    spread = theirs.standard_error
    assert ours.mean == pytest.approx(float(values.mean()))
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=0.15 * spread)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=0.15 * spread)


def test_results_are_determined_by_the_seed() -> None:
    values, others = normal(0, 50), normal(1, 50)
    assert bootstrap(values, seed=4) == bootstrap(values, seed=4)
    assert bootstrap(values, seed=4) != bootstrap(values, seed=5)
    assert paired(values, others, seed=4) == paired(values, others, seed=4)


def test_chunked_sampling_gives_the_same_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    values, others = normal(0, 50), normal(1, 50)
    whole = paired(values, others, seed=4)
    monkeypatch.setattr(resampling, "CELLS", 170)  # three samples at a time
    assert paired(values, others, seed=4) == whole


def test_95_percent_interval_has_nominal_coverage() -> None:
    held = 0
    for trial in range(300):
        found = bootstrap(normal(trial, 60, 0.3), seed=trial, samples=400)
        held += found.low <= 0.3 <= found.high
    assert 0.90 <= held / 300 <= 0.985


def test_a_wider_level_gives_a_wider_interval() -> None:
    narrow, wide = (bootstrap(normal(0, 80), seed=0, level=level) for level in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.mean < narrow.high < wide.high


def test_users_with_nan_are_left_out_of_both_systems() -> None:
    a = torch.tensor([1.0, math.nan, 3.0, 4.0, 9.0])
    b = torch.tensor([0.0, 5.0, 3.0, 6.0, math.nan])
    found = paired(a, b, seed=0)
    assert (found.wins, found.ties, found.losses) == (1, 1, 1)
    assert found.difference == pytest.approx(-1 / 3)
    assert bootstrap(a, seed=0).mean == pytest.approx(17 / 4)


def test_no_users_left_gives_nan() -> None:
    nobody = torch.full((3,), math.nan)
    assert all(math.isnan(value) for value in vars(bootstrap(nobody, seed=0)).values())
    assert math.isnan(paired(nobody, nobody, seed=0).p_value)
    assert math.isnan(paired(nobody, nobody, seed=0).effect_size)


def test_the_p_value_agrees_with_scipys_permutation_and_t_tests() -> None:
    a, b = normal(0, 40, 0.35), normal(1, 40)
    found = paired(a, b, seed=2, samples=20_000)
    flips = stats.permutation_test(
        (a.numpy(), b.numpy()),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=20_000,
        rng=5,
    )
    assert found.p_value == pytest.approx(flips.pvalue, abs=0.015)
    assert found.p_value == pytest.approx(stats.ttest_rel(a.numpy(), b.numpy()).pvalue, abs=0.02)
    assert found.effect_size == pytest.approx(stats.ttest_rel(a.numpy(), b.numpy()).statistic / math.sqrt(40))


def test_all_four_sign_flips_of_two_users_are_equally_likely() -> None:
    found = paired(torch.tensor([1.0, 1.0]), torch.zeros(2), seed=0, samples=20_000)
    assert found.p_value == pytest.approx(0.5, abs=0.02)  # ++ and --


def test_no_difference_is_never_significant_and_a_clear_one_is() -> None:
    values = normal(0, 100)
    same = paired(values, values, seed=0)
    assert (same.p_value, same.difference, same.effect_size, same.ties) == (1.0, 0.0, 0.0, 100)
    better = paired(values + 1 + 0.1 * normal(1, 100), values, seed=0)
    assert better.p_value == pytest.approx(1 / 1001)
    assert better.low > 0.9
    assert (better.wins, better.losses) == (100, 0)


def test_one_in_twenty_tests_of_equal_systems_rejects() -> None:
    rejected = sum(
        paired(normal(t, 30), normal(t + 1000, 30), seed=t, samples=200).p_value <= 0.05 for t in range(300)
    )
    assert 0.02 <= rejected / 300 <= 0.085


def test_swapping_the_systems_mirrors_the_paired_test() -> None:
    a, b = normal(0, 30, 0.2), normal(1, 30)
    there, back = paired(a, b, seed=0), paired(b, a, seed=0)
    assert there.difference == pytest.approx(-back.difference)
    assert there.low == pytest.approx(-back.high)
    assert (there.p_value, there.wins) == (back.p_value, back.losses)


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(DataError, match=r"same users, got \[3\] and \[4\]"):
        paired(torch.zeros(3), torch.zeros(4), seed=0)
    with pytest.raises(DataError, match="one value per user"):
        bootstrap(torch.zeros((2, 2)), seed=0)
    with pytest.raises(ConfigError, match="0 < level < 1"):
        bootstrap(torch.zeros(3), seed=0, level=95)


def thirds(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Recalls of twelve users with three relevant items each."""
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.integers(0, 4, 12) / 3), torch.from_numpy(rng.integers(0, 3, 12) / 3)


def test_bound_within_rounding_error_of_zero_counts_as_zero() -> None:
    """The lower bound in whole thirds, which has no rounding error, is the oracle."""
    rows, zero = samples_of(12, seed=0, count=200), 0
    for seed in range(100):
        a, b = thirds(seed)
        there, back = paired(a, b, seed=0, samples=200), paired(b, a, seed=0, samples=200)
        exact = np.quantile((3 * (a - b)).round().numpy()[rows].sum(axis=1), 0.025)
        assert there.above == back.below == (exact > 1e-9)
        zero += abs(exact) < 1e-9
    assert zero > 3


def test_small_systematic_difference_is_significant() -> None:
    values = normal(0, 100)
    better = paired(values + 1e-6 * (1 + 0.1 * normal(1, 100)), values, seed=0)
    assert (better.above, better.below) == (True, False)
    worse = paired(values, values + 1e-6, seed=0)
    assert (worse.above, worse.below) == (False, True)


def test_values_equal_within_rounding_error_are_ties() -> None:
    third = torch.full((20,), 1 / 3, dtype=torch.float64)
    found = paired(1 - third, 2 * third, seed=0)
    assert ((1 - third) != 2 * third).all()
    assert (found.difference, found.low, found.high, found.effect_size, found.ties) == (
        0.0,
        0.0,
        0.0,
        0.0,
        20,
    )
    assert not found.above


def test_no_users_give_no_significant_difference() -> None:
    nobody = torch.full((3,), math.nan)
    found = paired(nobody, nobody, seed=0)
    assert (found.above, found.below) == (False, False)


def test_holm_on_a_case_worked_out_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_leaves_a_single_p_value_unchanged() -> None:
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


def test_holm_does_not_count_nan() -> None:
    first, second = holm([0.02, float("nan")])
    assert first == 0.02
    assert math.isnan(second)


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_keeps_the_order_and_never_lowers_a_p_value(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(p <= after <= 1 for p, after in zip(p_values, adjusted, strict=True))
    by_p = sorted(range(len(p_values)), key=lambda at: p_values[at])
    assert [adjusted[at] for at in by_p] == sorted(adjusted)


def test_p_value_is_never_written_as_0():
    assert [p_text(p) for p in (0.0001, 0.001, 0.0499, 1.0, math.nan)] == [
        "< 0.001",
        "0.001",
        "0.050",
        "1.000",
        "–",
    ]
