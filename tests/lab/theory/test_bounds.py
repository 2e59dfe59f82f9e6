import math
from dataclasses import replace

import numpy as np
import pytest

from shortlist.artifact.as_json import as_json
from shortlist.errors import ConfigError
from shortlist.lab.theory.bounds import break_even, model_complexity, retrieval_bound, retriever_bound
from shortlist.lab.theory.bounds_inputs import BoundInputs, bottom_aligned, pair_factor, top_aligned
from tests.lab.theory.test_bounds_inputs import inputs

TA = {"scorer": "attention", "layers": 4, "norms": "fixed"}
MLP = {"scorer": "mlp", "layers": 3, "norms": "fixed"}


def test_complexities_at_the_size_of_movielens_equal_the_specification():
    assert retriever_bound(inputs(), "paper_linear", "paper").value == pytest.approx(16.7, abs=0.05)
    assert retriever_bound(inputs(**TA), "paper_ta", "paper").value == pytest.approx(3.5e3, rel=0.01)
    wild = retriever_bound(inputs(**TA, b1=10.0, b2=6.0), "paper_ta", "paper")
    assert wild.value == pytest.approx(1.2e9, rel=0.04)
    assert wild.vacuous


def test_the_small_case_of_the_specification():
    assert retriever_bound(inputs(4, 2, 400), "paper_linear", "paper").value == pytest.approx(0.92, abs=0.005)


def test_break_even_sizes_equal_the_specification():
    assert break_even(inputs(branch=2), "paper_linear", "paper").value == pytest.approx(7.3e7, rel=0.005)
    assert break_even(inputs(branch=8), "paper_linear", "paper").value == pytest.approx(5.6e7, rel=0.005)
    assert break_even(inputs(branch=8), "rigorous_linear").value == pytest.approx(4236**2)
    assert break_even(inputs(7129, 2), "paper_linear", "paper").value == pytest.approx(2.7e8, rel=0.005)
    assert break_even(inputs(branch=8), "rigorous_linear").vacuous


def test_a_bound_equals_the_trivial_one_at_its_break_even():
    one = inputs(b0=3.0, bx=0.5)
    needed = break_even(one, "rigorous_linear").value
    there = replace(one, n_train=round(needed))
    assert retriever_bound(there, "rigorous_linear").value == pytest.approx(
        retriever_bound(there, "trivial").value
    )
    assert not retriever_bound(replace(one, n_train=2 * round(needed)), "rigorous_linear").vacuous


def test_formulas_equal_the_theorems():
    n, branch, m = 100, 4, 400
    tree = {"n": n, "branch": branch, "m": m}
    lengths = {"b0": 2.0, "bx": 3.0, "ba": 1.5, "b1": 1.2, "b2": 1.3, "c_sigma": 1.1}
    factor = pair_factor(n, branch) / math.sqrt(m)
    linear = inputs(**tree, **lengths)
    assert retriever_bound(linear, "paper_linear", "paper").value == pytest.approx(4 * 6 * factor)
    assert retriever_bound(linear, "paper_linear").value == pytest.approx(2 * 6 * factor)
    layers = inputs(**tree, **lengths, **MLP)
    by_hand = 1.1**2 * 1.2**3 * 5
    assert retriever_bound(layers, "paper_mlp", "paper").value == pytest.approx(8 * by_hand * factor)
    assert retriever_bound(layers, "paper_mlp").value == pytest.approx(4 * 2**2 * by_hand * factor)
    assert retriever_bound(replace(layers, odd=True), "paper_mlp").value == pytest.approx(
        4 * by_hand * factor
    )
    attention = inputs(**tree, **lengths, **TA, width=7)
    weight = 1.1**2 * 1.3**2 * (1.5**2 + 1.5**2 * 2 + 2 * 1.5)
    by_hand = 1.1**3 * 1.2**4
    printed, corrected = by_hand * (weight * 69 + 2), 8 * by_hand * (7 * weight * 69 + 2)
    assert retriever_bound(attention, "paper_ta", "paper").value == pytest.approx(4 * printed * factor)
    assert retriever_bound(attention, "paper_ta").value == pytest.approx(4 * corrected * factor)
    assert model_complexity(attention, "paper").value == pytest.approx(printed / 20)
    assert model_complexity(layers, "paper").value == pytest.approx(2 * 1.1**2 * 1.2**3 * 5 / 20)


def test_exact_pairs_include_a_node_with_itself_where_the_proof_needs_it():
    tree = {"n": 100, "branch": 4, "m": 400}
    assert retriever_bound(inputs(**tree), "pair_exact").value == pytest.approx(
        2 * math.sqrt(100 * 99 + 25 * 24 + 7 * 6 + 2 * 1) / 20
    )
    assert retriever_bound(inputs(**tree, **MLP), "pair_exact").value == pytest.approx(
        4 * 4 * 2 * math.sqrt(100**2 + 25**2 + 7**2 + 2**2) / 20
    )


@pytest.mark.parametrize("branch", [2, 3, 8, 32])
def test_the_rigorous_form_is_smaller_on_trees_of_this_library(branch):
    for n in range(2, 2001, 7):
        one = inputs(n, branch)
        paper = retriever_bound(one, "paper_linear", "paper").value
        assert retriever_bound(one, "rigorous_linear").value <= paper


def test_a_tree_with_more_pairs_than_the_paper_counts_is_marked():
    top = BoundInputs(100, top_aligned(5, 2), 2)
    assert any("34 pairs" in text for text in retriever_bound(top, "paper_linear", "paper").assumptions)
    bottom = BoundInputs(100, bottom_aligned(5, 2), 2)
    assert not any("pairs" in text for text in retriever_bound(bottom, "paper_linear", "paper").assumptions)


def all_kinds(one):
    kinds = {"linear": ("paper_linear", "rigorous_linear"), "mlp": ("paper_mlp",), "attention": ("paper_ta",)}
    for kind in (*kinds[one.scorer], "pair_exact", "rigorous_model"):
        for constants in ("paper", "corrected"):
            yield retriever_bound(one, kind, constants).value


@pytest.mark.parametrize("given", [{}, MLP, TA])
def test_bounds_decrease_in_instances_and_increase_in_every_norm(given):
    one = inputs(100, 4, 400, **given)
    usual = list(all_kinds(one))
    fewer = list(all_kinds(replace(one, n_train=1600)))
    assert fewer == pytest.approx([value / 2 for value in usual])
    for name in ("b0", "bx", "ba", "b1", "b2", "c_sigma"):
        longer = list(all_kinds(replace(one, **{name: 1.7})))
        assert all(a >= b for a, b in zip(longer, usual, strict=True))
    assert all(a > b for a, b in zip(all_kinds(replace(one, b0=1.7)), usual, strict=True))


def test_the_rigorous_form_is_above_the_rademacher_complexity_of_the_class():
    random = np.random.default_rng(0)
    m, d = 200, 5
    x = random.normal(size=(m, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    signs = random.choice([-1.0, 1.0], size=(500, m))
    single = np.linalg.norm(signs @ x, axis=1).mean() / m
    assert retriever_bound(inputs(64, 2, m), "rigorous_linear").value >= 2 * 126 * single


def test_the_rademacher_complexity_of_a_small_tree_is_below_the_rigorous_form():
    """Random search for the weights that fit random signs best: a lower bound of the complexity."""
    random = np.random.default_rng(1)
    m, d, sizes = 60, 3, (2, 4)
    x = random.normal(size=(m, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    labels = random.integers(0, 4, m)
    found = []
    for _ in range(20):
        signs = random.choice([-1.0, 1.0], m)
        best = -np.inf
        for _ in range(200):
            margins = np.full(m, np.inf)
            for size in sizes:
                w = random.normal(size=(size, d))
                w /= np.linalg.norm(w, axis=1, keepdims=True)
                scores, own = x @ w.T, labels * size // 4
                mine = scores[np.arange(m), own]
                scores[np.arange(m), own] = -np.inf
                margins = np.minimum(margins, mine - scores.max(1))
            best = max(best, float(signs @ margins) / m)
        found.append(best)
    assert 0 < np.mean(found) <= retriever_bound(inputs(4, 2, m), "rigorous_linear").value


def test_theorem_4_4_is_the_sum_of_its_terms():
    one = inputs(100, 4, 10_000, norms="fixed")
    result = retrieval_bound(one, 0.3)
    by_hand = 2 * retriever_bound(one, "rigorous_linear").value
    tail = 3 * math.sqrt(math.log(40) / 20_000)
    assert result["complexity"].value == pytest.approx(by_hand)
    assert result["tail"].value == pytest.approx(tail)
    assert result.total.value == pytest.approx(0.3 + by_hand + tail)
    printed = retrieval_bound(one, 0.3, "paper_linear", constants="paper")
    assert printed["complexity"].value == pytest.approx(
        4 * retriever_bound(one, "paper_linear", "paper").value
    )
    assert printed["tail"].value == pytest.approx(math.sqrt(2 * math.log(40) / 10_000))
    assert printed.total.vacuous
    assert not retrieval_bound(replace(one, n_train=10**9), 0.3).total.vacuous
    assert as_json(result)["total"]["value"] == result.total.value


def test_measured_norms_make_the_bound_larger():
    fixed = inputs(100, 4, 10_000, b0=3.0, norms="fixed")
    measured = replace(fixed, norms="measured")
    for name in ("complexity", "tail"):
        assert retrieval_bound(measured, 0.3)[name].value > retrieval_bound(fixed, 0.3)[name].value
    again = retrieval_bound(measured, 0.3, "paper_linear", constants="paper")
    assert again.total.value == retrieval_bound(fixed, 0.3, "paper_linear", constants="paper").total.value


def test_unbounded_losses_use_the_score_range():
    one = inputs(100, 4, 10_000, b0=2.0, norms="fixed")
    ramp, hinge, logistic = (
        retrieval_bound(one, 0.3, loss=loss)["tail"].value for loss in ("ramp", "hinge", "logistic")
    )
    assert hinge / ramp == pytest.approx(1 + 2 * 2)
    assert logistic / ramp == pytest.approx(math.log2(1 + math.exp(4)))
    steep = retrieval_bound(one, 0.3, loss="logistic")["complexity"].value
    assert steep == pytest.approx(retrieval_bound(one, 0.3)["complexity"].value / math.log(2))
    assert retrieval_bound(replace(one, gamma=2.0), 0.3)["complexity"].value == pytest.approx(
        retrieval_bound(one, 0.3)["complexity"].value / 2
    )


def test_a_scorer_outside_of_the_theorems_is_refused_unless_forced():
    normed = inputs(**TA, departures=("bias", "normalisation"))
    with pytest.raises(ConfigError, match=r"bias, normalisation.*force=True"):
        retriever_bound(normed, "paper_ta")
    result = retriever_bound(normed, "paper_ta", force=True)
    assert not result.applicable
    assert "not_applicable: bias, normalisation" in result.assumptions
    assert retriever_bound(normed, "trivial").applicable


def test_a_theorem_of_another_scorer_is_refused():
    with pytest.raises(ConfigError, match="paper_ta is for the scorer attention"):
        retriever_bound(inputs(), "paper_ta")
    with pytest.raises(ConfigError, match="kind must be one of"):
        retriever_bound(inputs(), "paper_forest")
    with pytest.raises(ConfigError, match="constants must be one of"):
        retriever_bound(inputs(), "paper_linear", "better")
    with pytest.raises(ConfigError, match="loss must be one of"):
        retrieval_bound(inputs(), 0.1, loss="squared")
