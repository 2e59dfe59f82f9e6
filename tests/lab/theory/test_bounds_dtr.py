import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.errors import ConfigError, DataError
from shortlist.index.tree import TreeShape, grow
from shortlist.lab.theory.bounds_dtr import (
    corollary1,
    dtr_bound,
    label_gap,
    lemma1,
    lemma2,
    lemma4,
    node_factor,
)
from shortlist.lab.theory.bounds_inputs import bottom_aligned
from shortlist.train.tree import log_proposal, proposal_kl
from tests.lab.theory.test_bounds_inputs import inputs

LENGTHS = {
    "b0": 2.0,
    "ba": 1.5,
    "b1": 1.2,
    "b2": 1.3,
    "c_sigma": 1.1,
    "layers": 3,
    "width": 4,
    "hist_len": 10,
}
ATTENTION = {"scorer": "attention", "norms": "fixed", **LENGTHS}


def test_node_factors_equal_the_specification():
    def factors(form):
        return [node_factor(bottom_aligned(7129, branch), branch, form) for branch in (2, 32)]

    assert factors("printed") == pytest.approx([146, 284], abs=0.5)
    assert factors("derived") == pytest.approx([146, 120], abs=0.5)
    assert factors("exact") == pytest.approx([119, 86], abs=0.5)


def test_level_logarithms_differ_from_the_printed_form():
    sizes = bottom_aligned(3706, 2)
    assert sum(map(math.log, sizes[1:])) == pytest.approx(53.2, abs=0.05)
    assert 2 * math.log(node_factor(sizes, 2, "printed")) == pytest.approx(9.3, abs=0.05)


def test_worked_example_6_corollary_1():
    assert corollary1(13, 0.1, 7129, 5.0, "paper").value == pytest.approx(19.160, abs=5e-4)
    assert corollary1(13, 0.1).value == pytest.approx(1.2643, abs=5e-5)
    assert corollary1(1, 0.1, 7129, 5.0, "paper").value == corollary1(1, 0.1).value == 0


def test_formulas_equal_the_lemmas():
    one = inputs(100, 4, 400, **ATTENTION)
    alone, through = 1.1**2 * 1.3**2 * 1.5**2, 1.1**2 * 2 * 1.3**2 * (1.5**2 + 1.5)
    tau = node_factor(one.level_sizes, 4, "printed")
    printed = 1.1**2 * 1.2**3 * (2 + 10 * alone + 10 * through * tau)
    assert lemma1(one, "paper").value == pytest.approx(2 * printed / 20)
    second = lemma2(one, 2, 0.5, "paper")
    assert second["complexity"].value == pytest.approx(8 * one.level_sizes[2] * printed / 20)
    wide = 4 * math.log(one.level_sizes[2]) + 8 * one.range
    assert second["tail"].value == pytest.approx(wide * math.sqrt(2 * math.log(80) / 400))
    whole = dtr_bound(one, 3.0, [0.1] * one.height, 0.2, constants="paper")
    assert whole["complexity"].value == pytest.approx(8 * tau**2 * printed / 20)
    wide = 8 * math.log(tau) + 8 * one.height * one.range
    assert whole["tail"].value == pytest.approx(wide * math.sqrt(2 * math.log(80) / 400))
    assert whole["divergence"].value == pytest.approx(0.1 * one.height)
    assert whole["estimation"].value == pytest.approx(0.2 * (2 * one.range + math.log(100)))
    assert whole.total.vacuous


def test_corrected_a_level_needs_no_root_and_all_levels_must_hold():
    one = inputs(100, 4, 400, **ATTENTION)
    alone, through = 1.1**2 * 1.3**2 * 1.5**2, 1.1**2 * 2 * 1.3**2 * (1.5**2 + 1.5)
    corrected = 4 * 1.1**2 * 1.2**3 * (2 + 4 * 10 * (alone + through))  # 2 per layer (X7), the width (X8)
    whole = dtr_bound(one, 3.0)
    assert whole["complexity"].value == pytest.approx(8 * one.n_nodes * corrected / 20)
    levels = [lemma2(one, level, 0.1) for level in range(1, one.height + 1)]
    assert whole["complexity"].value == pytest.approx(sum(level["complexity"].value for level in levels))
    assert whole["tail"].value == pytest.approx(sum(level["tail"].value for level in levels))
    root = math.sqrt(one.n_nodes)
    first = 4 * 1.1**2 * 1.2**3 * (2 * root + 4 * 10 * (alone + through * root))
    assert lemma1(one).value == pytest.approx(2 * first / 20)


def test_uniform_sampling_has_the_range_of_the_paper():
    one = inputs(100, 4, 400, **ATTENTION)
    uniform = [1 / (size - 1) for size in one.level_sizes[1:]]
    assert dtr_bound(one, 3.0, least_share=uniform)["tail"].value == pytest.approx(
        dtr_bound(one, 3.0)["tail"].value
    )
    rare = [share / 100 for share in uniform]
    assert dtr_bound(one, 3.0, least_share=rare)["tail"].value > dtr_bound(one, 3.0)["tail"].value


@pytest.mark.parametrize("constants", ["paper", "corrected"])
def test_bounds_decrease_in_instances_and_increase_in_every_norm(constants):
    one = inputs(100, 4, 400, **ATTENTION)
    usual = dtr_bound(one, 3.0, constants=constants)
    more = dtr_bound(replace(one, n_train=40_000), 3.0, constants=constants)
    assert more["complexity"].value == pytest.approx(usual["complexity"].value / 10)
    assert more["tail"].value == pytest.approx(usual["tail"].value / 10)
    for name in ("b0", "ba", "b1", "b2", "c_sigma"):
        longer = dtr_bound(replace(one, **{name: 2.5}), 3.0, constants=constants)
        assert longer.total.value > usual.total.value


def max_heap(shape, random):
    """Max-heap scores by level [1, nodes], and the largest epsilon of any node."""
    values = {shape.height: torch.from_numpy(random.normal(0, 2, (1, shape.n)))}
    worst = 0.0
    for level in range(shape.height - 1, 0, -1):
        below, parents = values[level + 1][0], shape.sizes[level]
        best = torch.empty(parents, dtype=torch.float64)
        for node in range(parents):
            family = below[list(shape.children(level, node))]
            best[node] = family.max()
            worst = max(worst, 1 - float(family.softmax(0).max()))
        values[level] = best[None] + float(random.normal())  # the same for a whole level
    return values, worst


@pytest.mark.parametrize("seed", range(40))
def test_proposals_on_a_max_heap_keep_to_the_tight_form(seed):
    random = np.random.default_rng(seed)
    shape = TreeShape(int(random.integers(4, 65)), int(random.integers(2, 6)))
    values, epsilon = max_heap(shape, random)
    for level, logq in log_proposal(shape, values, 1).items():
        tight = corollary1(level, epsilon).value
        ratio = logq - values[level].log_softmax(1)
        assert float(ratio.abs().max()) <= tight + 1e-9
        assert float(proposal_kl(logq, values[level])[0]) <= tight + 1e-9
        assert tight <= (level - 1) * math.log(shape.branch) + 1e-9


def test_the_label_gap_equals_a_loop():
    random = np.random.default_rng(0)
    tree = grow(torch.arange(8), 8)
    shape, users = tree.shape, 6
    one, other = (torch.from_numpy(random.normal(size=(users, 8))).float() for _ in range(2))
    labels, histories = (
        torch.from_numpy(random.integers(0, 8, users)),
        torch.zeros(users, 3, dtype=torch.int64),
    )
    result = label_gap(tree, histories, labels, (lambda _: one, lambda _: other), "one_step")

    def label(scores, leaf, level):
        """1 if the item is the best leaf below its ancestor."""
        return float(scores[leaf] >= max(scores[i] for i in shape.leaves(level, shape.ancestor(leaf, level))))

    by_hand = [
        sum(
            abs(label(one[user], leaf, level) - label(other[user], leaf, level))
            for level in range(1, shape.height + 1)
        )
        for user, leaf in enumerate(labels.tolist())
    ]
    assert result.value == pytest.approx(np.mean(by_hand))
    same = label_gap(tree, histories, labels, (lambda _: one, lambda _: one + 1e-4), "one_step")
    assert same.value == 0  # labels need not change when estimates do


def test_invalid_arguments_are_refused():
    one = inputs(100, 4, 400, **ATTENTION)
    with pytest.raises(ConfigError, match="level must lie between 1 and"):
        lemma2(one, 0, 0.5)
    with pytest.raises(DataError, match="a divergence for each"):
        dtr_bound(one, 3.0, [0.1])
    with pytest.raises(DataError, match="a share above 0"):
        dtr_bound(one, 3.0, least_share=[0.5])
    with pytest.raises(ConfigError, match="form must be one of"):
        node_factor(one.level_sizes, 4, "guessed")
    with pytest.raises(ConfigError, match="0 <= epsilon < 1"):
        corollary1(3, 1.0)
    with pytest.raises(ConfigError, match="label error"):
        lemma4(-1.0, 1.0, 10)
    with pytest.raises(ConfigError, match="force=True"):
        lemma1(replace(one, departures=("it has biases",)))
    assert not lemma1(replace(one, departures=("it has biases",)), force=True).applicable
