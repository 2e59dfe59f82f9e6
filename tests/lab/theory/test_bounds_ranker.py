import math
from dataclasses import replace

import numpy as np
import pytest

from shortlist.errors import ConfigError, DataError
from shortlist.lab.theory.bounds_ranker import (
    harmonised_limit,
    ramp,
    rank_margins,
    ranker_bound,
    shift_term,
    weight_shift,
)
from tests.lab.theory.test_bounds_inputs import inputs

FIXED = {"k": 40, "norms": "fixed"}


def test_worked_example_9_ten_flags():
    flags = np.array([True] * 2 + [False] * 8)
    assert weight_shift(flags) == pytest.approx((4 + 4 + 8) / 10)
    assert weight_shift(flags) == pytest.approx(shift_term(0.2, "paper").value) == pytest.approx(1.6)
    assert shift_term(0.2).value == pytest.approx(0.8)
    least = ranker_bound(inputs(m=10**12, b0=0.0, **FIXED), 0.2, 0.2, "paper").total.value
    assert least == pytest.approx(2 - 0.2, abs=1e-5)


@pytest.mark.parametrize("recall", [0.03, 0.3, 0.5, 0.97])
def test_the_shift_follows_from_recall(recall):
    flags = np.random.default_rng(0).random(5000) < recall
    assert weight_shift(flags) == pytest.approx(2 * (1 - flags.mean()), abs=1e-12)


def test_the_complexity_falls_from_680_to_11_with_the_root_of_the_items():
    one = inputs(**FIXED)
    paper = ranker_bound(one, 0.3, 0.9, "paper")["complexity"].value
    assert paper == pytest.approx(680, abs=0.5)
    assert 2 * ranker_bound(one, 0.3, 0.9)["complexity"].value == pytest.approx(
        11.2, abs=0.05
    )  # factor 4 kept


def test_terms_equal_the_theorem():
    one = inputs(100, 4, 10_000, b0=2.0, **FIXED)
    result = ranker_bound(one, 0.3, 0.6)
    assert result["shift"].value == pytest.approx(0.7)
    assert result["complexity"].value == pytest.approx(2 * 41 * 10 * 2 / 100)
    assert result["tail"].value == pytest.approx(3 * math.sqrt(math.log(40) / 20_000))
    assert result.total.value == pytest.approx(sum(term.value for term in result.terms))
    retrieved = ranker_bound(one, 0.3, 0.6, harmonised=True)
    assert retrieved["shift"].value == 0
    assert retrieved["complexity"].value == pytest.approx(
        result["complexity"].value / math.sqrt(0.3), rel=1e-3
    )


def test_a_retriever_trained_on_the_sample_is_noted():
    assert any(
        "not independent" in text
        for text in ranker_bound(inputs(), 0.3, 0.6, crossfit=False).total.assumptions
    )


@pytest.mark.parametrize("seed", range(20))
def test_the_printed_theorem_is_always_vacuous(seed):
    random = np.random.default_rng(seed)
    n, candidates = 50, int(random.integers(1, 9))
    found = random.random(n) < random.uniform(0.1, 1)
    found[0] = True
    own, others = random.normal(3, 5, n), random.normal(size=(n, candidates))
    losses = ramp(rank_margins(own, others, with_self=True))
    empirical = float(np.where(found, losses, random.random(n)).mean())
    one = inputs(int(random.integers(2, 500)), 2, int(random.integers(1, 10**9)), b0=random.uniform(0, 3))
    result = ranker_bound(one, float(found.mean()), empirical, "paper")
    assert result.total.value >= 1
    assert result.total.vacuous


def test_an_item_excluded_from_its_maximum_can_have_a_positive_margin():
    own, others = np.array([3.0, 0.0, 1.0]), np.array([[1.0, 0.5], [1.0, -np.inf], [-np.inf, -np.inf]])
    assert rank_margins(own, others).tolist() == [2.0, -1.0, np.inf]
    assert rank_margins(own, others, with_self=True).tolist() == [0.0, -1.0, 0.0]
    assert ramp(rank_margins(own, others)).tolist() == [0.0, 1.0, 0.0]
    big = inputs(100, 4, 10**12, **FIXED)
    assert not ranker_bound(big, 0.9, 0.1).total.vacuous


def test_harmonised_training_has_the_smaller_bound_below_its_limit():
    assert [harmonised_limit(one) for one in (0.05, 0.1, 0.2, 0.5)] == pytest.approx(
        [0.27, 0.42, 0.65, 1.21], abs=6e-3
    )
    assert harmonised_limit(0.1, "paper") == pytest.approx(0.83, abs=5e-3)
    m = 10_000
    for recall in (0.05, 0.2, 0.5):
        for share in (0.5, 0.99, 1.01, 2.0):
            rest = share * harmonised_limit(recall)  # C0 / sqrt(m)
            plain, retrieved = 1 - recall + rest, rest * math.sqrt(m) / math.sqrt(recall * m)
            assert (retrieved < plain) == (share < 1)


def test_an_impossible_loss_is_refused():
    with pytest.raises(DataError, match=r"at least 0\.5"):
        ranker_bound(inputs(), 0.5, 0.2, "paper")
    with pytest.raises(ConfigError, match="recall must lie above 0"):
        ranker_bound(inputs(), 0.0, 0.2)
    with pytest.raises(DataError, match="no instance is retrieved"):
        weight_shift(np.zeros(5, bool))
    with pytest.raises(ConfigError, match="force=True"):
        ranker_bound(replace(inputs(), departures=("it has biases",)), 0.5, 0.6)
