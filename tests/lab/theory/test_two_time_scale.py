"""The numbers in the tests are those of the specification of the two-time-scale theory."""

import math

import numpy as np
import pytest
from scipy.special import zeta

from shortlist.data.read import read
from shortlist.data.time_split import time_split
from shortlist.errors import ConfigError
from shortlist.lab.theory.two_time_scale import (
    StartErrors,
    best_gamma,
    best_two_step_threshold,
    beta,
    beta_curve,
    beta_eb,
    bound,
    bound_per_t,
    bound_two_step,
    gap,
    gap_printed,
    inactive_share,
    saved_curve,
    step_sizes,
    t_opt,
    t_opt_printed,
    worst_case_q,
)
from shortlist.metrics.power_law import fit_power_law

UNIT = (1.0, 1)  # B and N with B / sqrt(N) = 1
TABLE = {  # alpha, Q, V
    (1.5, 10, 1): (5.135124, 1.689984, 9, 9, 0.838701, 0.838701, 0.751697, 0.915806, 0.898677, 0.895154, 13),
    (2, 10, 1): (7.307630, 1.836286, 9, 9, 0.969654, 0.969654, 0.936067, 0.984710, 0.982406, 0.981983, 11),
    (2, 2.5, 1): (1.826907, 0.915017, 2, 1, 0.877021, 0.915017, 0.759909, 0.936494, 0.927592, 0.927592, 2),
    (2, 4.9, 1): (3.580739, 1.209823, 4, 3, 0.938120, 0.946669, 0.865452, 0.968566, 0.964333, 0.963141, 5),
    (2.5, 7.3, 1): (6.131372, 1.435092, 7, 6, 0.989911, 0.990157, 0.975871, 0.994943, 0.994277, 0.994277, 7),
    (3, 25, 4): (22.509817, 5.039762, 6, 5, 3.985801, 3.986443, 0.990212, 1.996447, 1.996052, 1.996052, 6),
    (1.2, 100, 1): (
        26.656913,
        8.951728,
        99,
        99,
        0.703344,
        0.703344,
        0.643655,
        0.838656,
        0.789497,
        0.77955,
        204,
    ),
    (2, 100, 0.7): (
        *(73.076297, 12.709136, 142, 141, 0.698511, 0.698511),
        *(0.995734, 0.835769, 0.835618, 0.835605, 160),
    ),
}
EXTENSIONS = {  # bound with a step size per T, beta of the soft start, ratio of step sizes
    (1.5, 10, 1): (0.879000, 0.674826, 0.591941),
    (2, 10, 1): (0.979761, 0.821940, 0.724811),
    (2, 2.5, 1): (0.918231, 0.591382, 0.698415),
    (2, 4.9, 1): (0.958723, None, 0.734910),
    (2.5, 7.3, 1): (0.993696, 0.831935, 0.762801),
    (3, 25, 4): (1.995740, None, 0.798318),
    (1.2, 100, 1): (0.745723, 0.620773, 0.409271),
    (2, 100, 0.7): (0.835473, None, 0.707989),
}


def random_laws(count=200, seed=18):
    """alpha in (1.1, 6), Q / V in [4, 500]."""
    rng = np.random.default_rng(seed)
    ratios, variances = rng.uniform(4, 500, count), rng.uniform(0.05, 20, count)
    return [
        (float(alpha), float(ratio * v), float(v))
        for alpha, ratio, v in zip(rng.uniform(1.1, 6, count), ratios, variances, strict=True)
    ]


def direct(value, alpha, terms=400_000):
    """E[value(T)] by a plain sum."""
    counts = np.arange(terms)
    return float((value(counts) * (counts + 1.0) ** -alpha).sum() / zeta(alpha, 1))


def ratio_of_steps(t, *law):
    active, inactive = step_sizes(t, *law, *UNIT)
    return active / inactive


@pytest.mark.parametrize("law", TABLE)
def test_the_table_of_exact_numbers(law):
    """Table 3.2."""
    _, q, v = law
    best, printed, two = t_opt(q, v), t_opt_printed(q, v), best_two_step_threshold(*law)
    found = (
        *(beta(0, *law), beta(1, *law), best, printed, beta(best, *law), beta(printed, *law)),
        *(inactive_share(best, law[0]), math.sqrt(beta(best, *law))),
        *(bound_two_step(best, *law, *UNIT), bound_two_step(two, *law, *UNIT), two),
    )
    assert found == pytest.approx(TABLE[law], abs=6e-7)


@pytest.mark.parametrize("law", EXTENSIONS)
def test_the_table_of_extensions(law):
    """Table 3.2, last columns; every law also has a beta of the soft start below that of the threshold."""
    each, soft, ratio = EXTENSIONS[law]
    best = t_opt(*law[1:])
    assert bound_per_t(*law, *UNIT) == pytest.approx(each, abs=6e-7)
    assert ratio_of_steps(best, *law) == pytest.approx(ratio, abs=6e-7)
    assert beta_eb(*law) < beta(best, *law)
    if soft is not None:
        assert beta_eb(*law) == pytest.approx(soft, abs=6e-7)


def test_the_zeta_function_is_that_of_the_specification():
    found = [zeta(1.5, 1), zeta(2, 1), zeta(3, 1), zeta(2, 11), zeta(3, 11)]
    assert found == pytest.approx([2.612375, 1.644934, 1.202057, 0.095166, 0.004524917], abs=5e-7)


def test_beta_at_zero_and_at_a_tie():
    """Test 1."""
    assert beta(0, 2, 10, 1) == pytest.approx(7.307630, abs=1e-6)
    assert beta(9, 2, 10, 1) == pytest.approx(0.969654, abs=1e-6)
    assert beta(10, 2, 10, 1) == pytest.approx(beta(9, 2, 10, 1), abs=1e-12)


def test_the_printed_threshold_is_one_too_small():
    """Test 2."""
    assert (t_opt(2.5, 1), t_opt_printed(2.5, 1)) == (2, 1)
    assert beta(2, 2, 2.5, 1) == pytest.approx(0.877021, abs=1e-6)
    assert beta(1, 2, 2.5, 1) == pytest.approx(0.915017, abs=1e-6)


def test_a_second_argument_of_zeta_without_one_moves_the_minimum():
    """Section 3.1: b = t instead of t + 1 gives 10, not 9."""
    first = np.arange(1.0, 50)
    wrong = 10 * zeta(3, first) / zeta(2, 1) + 1 - zeta(2, first) / zeta(2, 1)
    assert t_opt(10, 1) == 9
    assert int(first[wrong.argmin()]) == 10


def test_the_corrected_threshold_minimises_beta_and_the_printed_one_does_not():
    """Test 3: 200 draws, thresholds to 3,000."""
    for alpha, q, v in random_laws():
        curve, saved = beta_curve(3000, alpha, q, v), saved_curve(3000, alpha, q, v)
        best, printed = t_opt(q, v), t_opt_printed(q, v)
        assert curve[best] - curve.min() <= 1e-12 * curve.min()
        assert saved[best] == saved.max()
        assert saved[printed] < saved[best]


def test_thresholds_of_whole_ratios_agree():
    for ratio in range(1, 40):
        assert t_opt(float(ratio), 1.0) == t_opt_printed(float(ratio), 1.0) == ratio - 1


def test_a_worse_common_start_than_one_event_leaves_no_inactive_users():
    assert t_opt(0.5, 1.0) == t_opt_printed(0.5, 1.0) == 0


def test_the_gap_is_the_normalised_sum():
    """Test 4, and the other gaps of section 3.2."""
    assert gap(1.5, 10, 1) == pytest.approx(4.296424, abs=1e-6)
    assert gap_printed(1.5, 10, 1) == pytest.approx(11.223872, abs=1e-6)
    assert gap(2, 10, 1) == pytest.approx(6.337976, abs=1e-6)
    assert gap(2, 2.5, 1) == pytest.approx(0.949886, abs=1e-6)
    for law in random_laws(20):
        difference = beta(0, *law) - beta(t_opt(*law[1:]), *law)
        assert gap(*law) == pytest.approx(difference, rel=1e-10)
        assert abs(gap_printed(*law) / difference - 1) > 0.01


def test_a_smaller_variance_gives_a_larger_gap():
    for alpha, q, v in random_laws(20):
        assert gap(alpha, q, 0.9 * v) > gap(alpha, q, v)


def test_ratios_of_step_sizes():
    """Test 5, and the ratio without a threshold."""
    assert ratio_of_steps(9, 1.5, 10, 1) == pytest.approx(0.591941, abs=1e-6)
    assert ratio_of_steps(3, 6, 4.9, 1) == pytest.approx(1.060779, abs=1e-6)
    assert ratio_of_steps(4, 6, 4.9, 1) == pytest.approx(0.941764, abs=1e-6)
    assert ratio_of_steps(0, 1.5, 10, 1) == pytest.approx(2.2661, abs=1e-4)


def test_active_users_have_the_smaller_step_size_at_the_corrected_threshold():
    """Section 3.1, implication 2: no failure in 200 random draws."""
    assert all(ratio_of_steps(t_opt(q, v), alpha, q, v) < 1 for alpha, q, v in random_laws())


def test_the_bound_at_the_best_step_size():
    """Test 6, and that no other step size has a smaller bound."""
    law, online = (1.5, 10, 1), (2.0, 50)
    best = best_gamma(9, *law, *online)
    assert bound(9, *law, *online) == pytest.approx(0.259029, abs=1e-5)
    assert bound(9, *law, *online, gamma=best) == pytest.approx(bound(9, *law, *online))
    for factor in (0.5, 0.9, 1.1, 2.0):
        assert bound(9, *law, *online, gamma=factor * best) > bound(9, *law, *online)


def test_beta_goes_to_the_variance_as_all_users_become_inactive():
    """Test 8."""
    for law in TABLE:
        far = [abs(beta(t, *law) - law[2]) for t in (10**4, 10**6, 10**8)]
        assert far == sorted(far, reverse=True)
    assert beta(10**8, 2, 10, 1) == pytest.approx(1, abs=1e-6)


def test_more_step_sizes_have_no_larger_bound():
    """Test 9, at all thresholds to 300."""
    assert best_two_step_threshold(1.2, 100, 1) == 204
    for law in TABLE:
        each = bound_per_t(*law, *UNIT)
        for t in range(300):
            two = bound_two_step(t, *law, *UNIT)
            assert each <= two * (1 + 1e-12)
            assert two <= bound(t, *law, *UNIT) * (1 + 1e-12)


def test_the_best_threshold_of_two_step_sizes_is_that_of_a_long_search():
    for law in [*TABLE, *random_laws(10)]:
        every = [bound_two_step(t, *law, *UNIT) for t in range(3 * t_opt(*law[1:]) + 50)]
        found = best_two_step_threshold(*law)
        assert bound_two_step(found, *law, *UNIT) <= min(every) * (1 + 1e-12)
        assert found >= t_opt(*law[1:])


def test_the_soft_start_has_a_smaller_error_than_any_threshold():
    """Test 10."""
    assert beta_eb(2, 10, 1) == pytest.approx(0.82194, abs=1e-5)
    assert beta_eb(2, 10, 1) < beta(t_opt(10, 1), 2, 10, 1)


def test_formulas_are_plain_expectations():
    alpha, q, v = 3.0, 7.3, 0.9
    for t in (0, 1, 4, 8, 30):
        error = direct(lambda count, t=t: np.where(count >= t, q / (count + 1), v), alpha)
        assert beta(t, alpha, q, v) == pytest.approx(error, rel=1e-9)
        assert inactive_share(t, alpha) == pytest.approx(
            direct(lambda count, t=t: count < t, alpha), abs=1e-9
        )
    each = direct(lambda count: np.sqrt(np.minimum(v, q / (count + 1))), alpha)
    assert bound_per_t(alpha, q, v, *UNIT) == pytest.approx(each, rel=1e-9)
    assert beta_curve(30, alpha, q, v) == pytest.approx([beta(t, alpha, q, v) for t in range(31)], rel=1e-12)


def test_errors_that_are_measured_have_the_same_bounds():
    """With errors Q / (T + 1) on a long range of T, the sums are those of the formulas."""
    alpha, q, v, most = 3.0, 7.3, 0.9, 20_000
    law = np.arange(1.0, most + 2) ** -alpha
    found = StartErrors(law / law.sum(), q / np.arange(1.0, most + 2), v)
    for t in (0, 3, 8, 40):
        active, _ = step_sizes(t, alpha, q, v, 2.0, 50)
        assert found.beta[t] == pytest.approx(beta(t, alpha, q, v), rel=1e-6)
        assert found.bounds(2.0, 50)[t] == pytest.approx(bound(t, alpha, q, v, 2.0, 50), rel=1e-6)
        two = bound_two_step(t, alpha, q, v, 2.0, 50)
        assert found.bounds_two_step(2.0, 50)[t] == pytest.approx(two, rel=1e-6)
        assert found.gammas(2.0, 50)[t] == pytest.approx(best_gamma(t, alpha, q, v, 2.0, 50), rel=1e-6)
        assert found.active_gammas(2.0, 50)[t] == pytest.approx(active, rel=1e-3)
    assert found.beta[-1] == v


def test_the_worst_case_constant_and_its_ratio():
    """Test 11: 16 for c = .5; Q / V is at least 4 for any vectors in the ball."""
    assert worst_case_q(1.0, 0.5, 2.0) == 16
    rng = np.random.default_rng(0)
    for b_x, c, b_phi in rng.uniform(0.1, 3, (50, 3)):
        most = min(b_phi, b_x / c)  # of |phi*|, so also of the distance from the mean
        assert worst_case_q(b_x, c, b_phi) / most**2 >= 4 * (1 - 1e-12)


@pytest.mark.parametrize("alpha", [1.0, 0.5, -2.0, math.nan, math.inf])
def test_an_exponent_without_a_law_is_refused(alpha):
    """Test 7."""
    for call in (lambda: beta(1, alpha, 10, 1), lambda: beta_eb(alpha, 10, 1), lambda: gap(alpha, 10, 1)):
        with pytest.raises(ConfigError, match="alpha > 1"):
            call()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: t_opt(0, 1), "q > 0"),
        (lambda: t_opt(1, -1), "v > 0"),
        (lambda: t_opt(1e308, 1e-308), "Q / V"),
        (lambda: beta(-1, 2, 10, 1), "threshold t of 0"),
        (lambda: beta(1.5, 2, 10, 1), "threshold t of 0"),
        (lambda: bound(1, 2, 10, 1, 0, 50), "b > 0"),
        (lambda: bound(1, 2, 10, 1, 2, 0), "n >= 1"),
        (lambda: bound(1, 2, 10, 1, 2, 50, gamma=0), "gamma > 0"),
        (lambda: step_sizes(10, 400, 10, 1, 2, 50), "no user has T >= 10"),
        (lambda: best_two_step_threshold(1.00001, 1000, 1), "larger alpha"),
        (lambda: beta_eb(2, 10, 1, terms=0), "terms"),
        (lambda: worst_case_q(1, 0, 1), "c > 0"),
        (lambda: StartErrors(np.ones(3), np.ones(3), 1.0), "sum to 1"),
        (lambda: StartErrors(np.ones(1), np.ones(2), 1.0), "one error per T"),
        (lambda: StartErrors(np.ones(1), np.ones(1), 0.0), "v > 0"),
    ],
)
def test_what_has_no_meaning_is_refused(call, words):
    with pytest.raises(ConfigError, match=words):
        call()


@pytest.mark.data
def test_events_of_movielens_users_are_no_power_law(real_data):
    """Reports of section 4: the exponent of training events rises with the smallest count."""
    events = read(real_data / "ml-1m" / "ml-1m.zip", "movielens", name="ml-1m").events
    counts = time_split(events, ties="file").train_counts
    found = [fit_power_law(counts, least).alpha for least in (1, 20, 50)]
    assert found == pytest.approx([1.20, 1.64, 1.91], abs=0.005)
