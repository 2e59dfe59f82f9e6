import math
from dataclasses import replace

import pytest
import torch

from shortlist.artifact.as_json import as_json
from shortlist.errors import ConfigError
from shortlist.index.tree import TreeIndex, grow, n_rows
from shortlist.lab.theory.bounds_inputs import (
    BoundInputs,
    BoundTerm,
    bottom_aligned,
    doubling,
    most_nodes,
    pair_factor,
    same_level_pairs,
    top_aligned,
)
from shortlist.models.nodes import ScorerConfig, make_scorer
from shortlist.models.nodes.weight_norms import norm_report


def enumerated(sizes):
    """Ordered pairs of different nodes of one level, counted one by one."""
    return sum(1 for size in sizes[1:] for one in range(size) for other in range(size) if one != other)


def inputs(n=3706, branch=8, m=800_000, **given):
    return BoundInputs(m, bottom_aligned(n, branch), branch, **given)


def test_worked_example_10_five_leaves_aligned_both_ways():
    assert top_aligned(5, 2) == (1, 2, 4, 5)
    assert bottom_aligned(5, 2) == (1, 2, 3, 5)
    assert same_level_pairs(top_aligned(5, 2)) == 34
    assert same_level_pairs(bottom_aligned(5, 2)) == 28
    assert pair_factor(5, 2) ** 2 == pytest.approx(33.33, abs=0.01)


@pytest.mark.parametrize("branch", [2, 3, 7])
def test_pairs_equal_enumeration(branch):
    for n in range(2, 65):
        for aligned in (top_aligned, bottom_aligned):
            assert same_level_pairs(aligned(n, branch)) == enumerated(aligned(n, branch))


@pytest.mark.parametrize("branch", range(2, 33))
def test_a_bottom_aligned_tree_never_has_more_pairs_than_the_paper_states(branch):
    for n in range(2, 2001):
        assert same_level_pairs(bottom_aligned(n, branch)) <= pair_factor(n, branch) ** 2


def test_a_top_aligned_tree_nearly_always_has_more():
    more = [n for n in range(2, 5001) if same_level_pairs(top_aligned(n, 2)) > pair_factor(n, 2) ** 2]
    assert more[0] == 5
    assert len(more) == 4966


def test_pairs_of_real_catalogues_equal_the_specification():
    def ratios(n, aligned, branches):
        return [math.sqrt(same_level_pairs(aligned(n, one))) / n for one in branches]

    few, more = (2, 4, 8, 16, 32), (2, 4, 8, 16, 32, 64)
    assert ratios(3706, bottom_aligned, few) == pytest.approx(
        [1.1545, 1.0327, 1.0078, 1.0018, 1.0004], abs=5e-5
    )
    assert ratios(3706, top_aligned, few) == pytest.approx([1.186, 1.040, 1.010, 1.002, 1.037], abs=6e-4)
    assert ratios(7129, top_aligned, more) == pytest.approx(
        [1.200, 1.163, 1.156, 1.154, 1.010, 1.153], abs=6e-4
    )
    assert [inputs(branch=one).n_nodes for one in few] == [7414, 4942, 4236, 3953, 3826]


@pytest.mark.parametrize("branch", [2, 3, 8])
def test_a_top_aligned_tree_has_up_to_twice_the_pairs(branch):
    most = (2 * branch**2 - 1) / branch**2
    n = branch ** round(16 / math.log2(branch)) + 1  # one more than a full tree holds
    found = same_level_pairs(top_aligned(n, branch)) / pair_factor(n, branch) ** 2
    assert found == pytest.approx(most, rel=1e-3)
    assert pair_factor(7129, 2) == pytest.approx(8232, abs=0.5)


def test_trends_over_branches_equal_the_specification():
    def change(value, low, high):
        return value(high) / value(low) - 1

    assert change(lambda b: pair_factor(3706, b), 2, 32) == pytest.approx(-0.134, abs=5e-4)
    assert change(lambda b: pair_factor(3706, b), 8, 32) == pytest.approx(-0.007, abs=5e-4)
    assert change(lambda b: inputs(branch=b).n_nodes, 2, 32) == pytest.approx(-0.48, abs=5e-3)
    assert change(lambda b: math.sqrt(most_nodes(7129, b)), 2, 32) == pytest.approx(-0.18, abs=5e-3)


@pytest.mark.parametrize("branch", [2, 3, 5, 8, 32])
def test_no_tree_has_more_nodes_than_the_bound_on_them(branch):
    for n in range(2, 2001):
        for aligned in (top_aligned, bottom_aligned):
            assert sum(aligned(n, branch)[1:]) <= most_nodes(n, branch)


def test_the_sum_of_level_logarithms_exceeds_that_of_all_nodes():
    for branch in (2, 3, 8):
        for n in range(8, 400):
            sizes = bottom_aligned(n, branch)
            if len(sizes) > 2:
                assert sum(map(math.log, sizes[1:])) >= math.log(sum(sizes[1:]))


def test_scores_stay_within_the_range_of_their_class():
    assert inputs(b0=3.0, bx=2.0).range == 6
    layers = inputs(scorer="mlp", b0=3.0, bx=2.0, b1=2.0, layers=3, c_sigma=1.1)
    assert layers.range == pytest.approx(1.1**2 * 8 * 3)
    assert replace(layers, layer_product=5.0).range == pytest.approx(1.1**2 * 5 * 3)
    attention = inputs(scorer="attention", b0=0.5, ba=2.0, b1=2.0, b2=3.0, layers=2, window=20)
    assert attention.range == pytest.approx(4 * 20 * 2 * 9 * 2)


def test_measured_norms_reduce_delta():
    measured = inputs(b0=3.0, bx=1.0)
    paid = measured.stratified()
    assert (paid.b0, paid.bx, paid.norms) == (4.0, 1.0, "stratified")
    assert paid.delta == pytest.approx(0.05 / (3 * 4) / (1 * 2))
    assert replace(measured, norms="fixed").stratified().delta == 0.05
    assert sum(1 / (cell * (cell + 1)) for cell in range(1, 10_000)) < 1  # all choices together cost delta


def test_a_norm_is_rounded_up_to_a_power_of_two():
    assert [doubling(one) for one in (0.0, 0.3, 1.0, 1.01, 2.0, 9.0)] == [
        (1, 1.0),
        (1, 1.0),
        (1, 1.0),
        (2, 2.0),
        (2, 2.0),
        (5, 16.0),
    ]


def test_a_term_has_a_ratio_to_its_reference():
    one, other = (BoundTerm("a", value, "f", "paper", True) for value in (6.0, 3.0))
    assert one.against(other).ratio_to_ref == 2
    assert one.against(one).ratio_to_ref == 1
    assert one.against(replace(one, value=0.0)).ratio_to_ref == math.inf
    assert as_json(one)["applicable"]


def test_at_users_counts_one_instance_per_user():
    assert inputs(n_users=600).at_users().n_train == 600
    with pytest.raises(ConfigError, match="number of users is unknown"):
        inputs().at_users()


@pytest.mark.parametrize(
    "given",
    [
        {"scorer": "forest"},
        {"norms": "guessed"},
        {"b0": -1.0},
        {"delta": 0.0},
        {"m": 0},
    ],
)
def test_invalid_inputs_are_refused(given):
    with pytest.raises(ConfigError, match="bounds: "):
        inputs(**given)


def test_levels_begin_with_the_root():
    with pytest.raises(ConfigError, match="1 for the root first"):
        BoundInputs(10, (2, 4), 2)


@pytest.mark.parametrize("kind", ["linear", "mlp", "attention"])
def test_of_index_measures_the_norms_of_the_scorer(kind):
    index = theory_index(kind)
    norms = norm_report(index.scorer, trained_history=False)
    result = BoundInputs.of_index(index, 500, norms, n_users=20, k=3)
    assert (result.level_sizes, result.branch, result.scorer) == (index.tree.shape.sizes, 3, kind)
    assert result.b0 == pytest.approx(float(index.scorer.nodes.weight.detach().double().norm(dim=1).max()))
    assert result.range == pytest.approx(norms.bf)
    assert result.departures == ()
    assert BoundInputs.of_index(index, 500).departures == ("histories are read from a trained table",)
    assert result.norms == "measured"
    assert BoundInputs.of_index(index, 500, norms, fixed=True).norms == "fixed"


def theory_index(kind, n=20, branch=3, width=4):
    """A tree with a scorer within the theorems: no bias, no normalisation, a separate item table."""
    tree = grow(torch.arange(n), n, branch)
    config = ScorerConfig(
        n_rows(tree.shape, n, "item"),
        n_items=n,
        kind=kind,
        width=width,
        hidden=3,
        layers=(5, 4),
        windows=(2, 1),
        history="item",
        norm="none",
        bias=False,
    )
    return TreeIndex(tree, make_scorer(config, seed=0).eval(), "item")
