import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import ks_2samp

from shortlist.errors import DataError
from shortlist.metrics.two_samples import auc, classifier_two_sample, jensen_shannon, kolmogorov_smirnov


def test_jensen_shannon_equals_scipy():
    assert jensen_shannon(np.array([3.0, 1.0]), np.array([6.0, 2.0])) == 0.0
    assert jensen_shannon(np.array([1.0, 0.0]), np.array([0.0, 5.0])) == 1.0
    rng = np.random.default_rng(0)
    a, b = rng.random(9), rng.random(9)
    assert jensen_shannon(a, b) == pytest.approx(jensenshannon(a, b, base=2) ** 2)
    assert jensen_shannon(a, b) == pytest.approx(jensen_shannon(b, a))


def test_kolmogorov_smirnov_equals_scipy_with_ties():
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = rng.integers(0, 9, 40).astype(float), rng.integers(2, 9, 70).astype(float)
        assert kolmogorov_smirnov(a, b) == pytest.approx(ks_2samp(a, b).statistic)


def test_auc_counts_ordered_pairs():
    rng = np.random.default_rng(0)
    scores, yes = rng.integers(0, 5, 60).astype(float), rng.random(60) < 0.4
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[yes] for b in scores[~yes]]
    assert auc(scores, yes) == pytest.approx(np.mean(pairs))


def test_samples_of_one_distribution_cannot_be_separated():
    rng = np.random.default_rng(0)
    area, accuracy = classifier_two_sample(
        rng.normal(size=(4000, 3)), rng.random(4000) < 0.2, np.arange(4000)
    )
    assert area == pytest.approx(0.5, abs=0.04)
    assert accuracy == pytest.approx(0.5, abs=0.04)


def test_distant_samples_are_separated_at_any_class_balance():
    rng = np.random.default_rng(0)
    yes = np.arange(2000) < 100
    features = rng.normal(size=(2000, 2)) + 3.0 * yes[:, None]
    area, accuracy = classifier_two_sample(features, yes, np.arange(2000))
    assert area > 0.99
    assert accuracy > 0.96
    clear = np.where(yes, 1.0, -1.0)[:, None]  # separable: without ridge the coefficients would diverge
    assert classifier_two_sample(clear, yes, np.arange(2000)) == (1.0, 1.0)


def test_accuracy_on_shifted_normals_reaches_the_bayes_rate():
    rng = np.random.default_rng(1)
    yes = np.arange(20_000) % 2 == 0
    _, accuracy = classifier_two_sample((rng.normal(size=20_000) + yes)[:, None], yes, np.arange(20_000))
    assert accuracy == pytest.approx(0.6915, abs=0.01)  # Bayes accuracy: normal cdf of 1 / 2
    assert 2 * accuracy - 1 <= 0.3829 + 0.02  # total variation of the two


def test_regression_is_tested_on_groups_outside_its_training_folds():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(40), 50)
    yes = group % 2 == 0
    marks = np.eye(40)[group]  # the group identifies the class, but only of rows in the same group
    area, _ = classifier_two_sample(marks + rng.normal(size=marks.shape) * 0.01, yes, group)
    leaky, _ = classifier_two_sample(marks, yes, np.arange(2000))
    assert leaky > 0.99
    assert area < 0.65


def test_same_seed_gives_the_same_result():
    rng = np.random.default_rng(0)
    rows, yes = rng.normal(size=(300, 2)), rng.random(300) < 0.5
    first = classifier_two_sample(rows, yes, np.arange(300), seed=1)
    assert (
        first
        == classifier_two_sample(rows, yes, np.arange(300), seed=1)
        != classifier_two_sample(rows, yes, np.arange(300), seed=2)
    )


def test_empty_samples_are_refused():
    empty, some = np.empty(0), np.ones(2)
    with pytest.raises(DataError, match="an empty one"):
        jensen_shannon(np.zeros(2), some)
    with pytest.raises(DataError, match="an empty one"):
        kolmogorov_smirnov(empty, some)
    with pytest.raises(DataError, match="got only one"):
        auc(some, np.ones(2, bool))
