from typing import NamedTuple

import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.index.tree.shape import TreeShape
from shortlist.index.tree.tree import Tree, grow
from shortlist.train.tree.rectify import (
    MODES,
    Top,
    by_leaf,
    first_level_by_top,
    first_true_level,
    label_weights,
    mean_label_per_level,
    rectified,
    total_peaks,
)
from tests.train.tree.test_sampler import seeded


class Pairs(NamedTuple):
    rows: torch.Tensor
    items: torch.Tensor

    def __len__(self):
        return len(self.items)

    def histories(self, rows):
        return self.rows[rows]

    def targets(self, rows):
        return self.items[rows]


def plain_tree(n, branch=2):
    return grow(torch.arange(n), n, branch)


def all_levels(tree):
    return tuple(range(1, tree.shape.height + 1))


def items_below(tree, level, node):
    items = [int(tree.item_of_leaf[leaf]) for leaf in tree.shape.leaves(level, node)]
    return [item for item in items if item >= 0]


def slow_strict(scores, item, tree):
    """Eq. 14 as printed."""
    leaf = int(tree.leaf_of_item[item])
    labels = []
    for level in all_levels(tree):
        below = items_below(tree, level, tree.shape.ancestor(leaf, level))
        labels.append(float(all(scores[other] <= scores[item] for other in below)))
    return labels


def slow_one_step(scores, item, tree):
    leaf, labels = int(tree.leaf_of_item[item]), []
    for level in all_levels(tree)[:-1]:
        above = items_below(tree, level, tree.shape.ancestor(leaf, level))
        child = items_below(tree, level + 1, tree.shape.ancestor(leaf, level + 1))
        labels.append(float(max(scores[i] for i in child) >= max(scores[i] for i in above)))
    return [*labels, 1.0]


def slow_level(scores, item, tree):
    """1 + the depth of the lowest node shared with a better item."""
    leaf, deepest = int(tree.leaf_of_item[item]), 0
    for other in range(len(scores)):
        there = int(tree.leaf_of_item[other])
        if there >= 0 and scores[other] > scores[item]:
            shared = [
                j for j in all_levels(tree) if tree.shape.ancestor(leaf, j) == tree.shape.ancestor(there, j)
            ]
            deepest = max([deepest, *shared])
    return 1 + deepest


def expectation(chances, tree, mode):
    """The expected label of every node, level -> list, when items come with these chances."""
    n = len(chances)
    levels = all_levels(tree)
    weights = label_weights(chances.log().expand(n, n), torch.arange(n), tree, levels, mode)
    found = {}
    for column, level in enumerate(levels):
        nodes = torch.tensor([tree.shape.ancestor(int(tree.leaf_of_item[i]), level) for i in range(n)])
        sums = torch.zeros(tree.shape.sizes[level], dtype=chances.dtype)
        found[level] = sums.index_add(0, nodes, chances * weights[:, column]).tolist()
    return found


def beam_search(expected, tree, beam):
    """Items found by a beam over expected labels, numbered from 1 as the paper does."""
    kept = [0]
    for level in all_levels(tree):
        reached = [child for node in kept for child in tree.shape.children(level - 1, node)]
        kept = sorted(reached, key=lambda node: -expected[level][node])[:beam]
    return {int(tree.item_of_leaf[leaf]) + 1 for leaf in kept}


def test_t07_plain_labels_lose_an_item_that_strict_labels_keep():
    tree = plain_tree(8)
    chances = torch.tensor([0.21, 0.0, 0.12, 0.18, 0.19, 0.0, 0.16, 0.14], dtype=torch.float64)
    summed, strict = expectation(chances, tree, "none"), expectation(chances, tree, "strict")
    assert summed[2] == pytest.approx([0.21, 0.30, 0.19, 0.30])
    assert summed[1] == pytest.approx([0.51, 0.49])
    assert strict[2] == pytest.approx([0.21, 0.18, 0.19, 0.16])
    assert strict[1] == pytest.approx([0.21, 0.19])
    assert beam_search(summed, tree, 3) == {1, 4, 7}
    assert beam_search(strict, tree, 3) == {1, 4, 5}


@pytest.mark.parametrize("seed", range(40))
def test_t08_strict_labels_make_beam_search_find_the_most_likely_items(seed):
    generator = seeded(seed)
    n, branch = int(torch.randint(2, 60, (1,), generator=generator)), 2 + seed % 4
    tree = grow(torch.randperm(n, generator=generator), n, branch)
    chances = torch.rand(n, generator=generator, dtype=torch.float64).softmax(0)
    expected = expectation(chances, tree, "strict")
    for beam in (1, 3, 10):
        best = {int(item) + 1 for item in chances.topk(min(beam, n)).indices}
        assert beam_search(expected, tree, beam) == best


def test_t09_one_step_labels_lose_the_best_item():
    tree = plain_tree(8)
    chances = torch.tensor([0.30, 0.0, 0.0, 0.05, 0.25, 0.20, 0.10, 0.10], dtype=torch.float64)
    one_step, strict = expectation(chances, tree, "one_step"), expectation(chances, tree, "strict")
    assert one_step[1] == pytest.approx([0.30, 0.45])
    assert strict[1] == pytest.approx([0.30, 0.25])
    assert beam_search(one_step, tree, 1) == {5}
    assert beam_search(strict, tree, 1) == {1}


def random_tree(seed):
    """A random tree with free slots and absent items, and scores, some of them tied."""
    generator = seeded(seed)
    n = int(torch.randint(1, 40, (1,), generator=generator))
    branch = int(torch.randint(2, 6, (1,), generator=generator))
    tree = grow(torch.randperm(n + 2, generator=generator)[:n], n + 2, branch, spare=(seed % 3) * 0.3)
    scores = torch.randn(n + 2, generator=generator)
    return tree, (scores * 2).round() if seed % 4 == 0 else scores


def test_t10_the_first_true_level_matches_the_definition_on_random_trees():
    for seed in range(2000):
        tree, scores = random_tree(seed)
        if tree.shape.height == 0:
            continue
        present = [int(i) for i in tree.item_of_leaf if i >= 0]
        item = present[seed % len(present)]
        found = int(first_true_level(scores[None], torch.tensor([item]), tree)[0])
        assert found == slow_level(scores.tolist(), item, tree), seed
        expected = slow_strict(scores.tolist(), item, tree)
        assert [float(level >= found) for level in all_levels(tree)] == expected, seed
        assert expected == sorted(expected)  # once true, true to the leaf


@pytest.mark.parametrize("seed", range(60))
def test_strict_and_one_step_labels_match_their_definitions(seed):
    tree, scores = random_tree(seed)
    if tree.shape.height == 0:
        pytest.skip("a lone leaf has no levels")
    items = tree.item_of_leaf[tree.item_of_leaf >= 0].long()
    spread = scores.expand(len(items), -1)
    for mode, slow in (("strict", slow_strict), ("one_step", slow_one_step)):
        found = label_weights(spread, items, tree, all_levels(tree), mode)
        assert found.tolist() == [slow(scores.tolist(), int(item), tree) for item in items]


@pytest.mark.parametrize("branch", [2, 3, 8])
def test_t10_expected_strict_labels_are_the_largest_probability_below(branch):
    n = 50
    tree = grow(torch.randperm(n, generator=seeded(branch)), n, branch, spare=0.2)
    chances = torch.randn(n, generator=seeded(1), dtype=torch.float64).softmax(0)
    for level, found in expectation(chances, tree, "strict").items():
        below = [items_below(tree, level, node) for node in range(tree.shape.sizes[level])]
        expected = [max((chances[i].item() for i in items), default=0.0) for items in below]
        assert found == pytest.approx(expected)


@pytest.mark.parametrize("branch", [2, 5])
def test_expected_normalised_labels_add_up_to_one(branch):
    n = 30
    tree = grow(torch.randperm(n, generator=seeded(branch)), n, branch)
    chances = torch.randn(n, generator=seeded(4), dtype=torch.float64).softmax(0)
    strict = expectation(chances, tree, "strict")
    for level, found in expectation(chances, tree, "normalised").items():
        assert sum(found) == pytest.approx(1.0, abs=1e-6)
        assert found == pytest.approx([x / sum(strict[level]) for x in strict[level]], abs=1e-6)


def test_t10_the_example_of_appendix_f():
    tree = plain_tree(16)
    chances = torch.full((16,), 0.04)
    chances[2], chances[5] = 0.13, 0.11  # c is the best of a .. h, f the best of e .. h
    found = label_weights(chances.log()[None], torch.tensor([5]), tree, (1, 2, 3, 4))
    assert found.tolist() == [[0.0, 1.0, 1.0, 1.0]]  # nodes 1, 4, 9, 20
    assert first_true_level(chances[None], torch.tensor([5]), tree).tolist() == [2]


@pytest.mark.parametrize("mode", ["strict", "normalised"])
def test_t11_the_weighted_loss_is_minimal_at_the_largest_probability_below(mode):
    n = 27
    tree = plain_tree(n, 3)
    chances = torch.randn(n, generator=seeded(6), dtype=torch.float64).softmax(0)
    weights = label_weights(chances.log().expand(n, n), torch.arange(n), tree, (1, 2, 3), mode).double()
    peaks = chances
    for column, level in ((2, 3), (1, 2), (0, 1)):
        logits = (peaks.log() + 0.7).requires_grad_()
        nodes = tree.shape.ancestor(torch.arange(n), level)
        risk = (chances * weights[:, column] * -logits.log_softmax(0)[nodes]).sum()
        gradient = torch.autograd.grad(risk, logits)[0]
        assert gradient.abs().max() < (1e-7 if mode == "normalised" else 1e-15)
        peaks = peaks.view(-1, 3).amax(1)


def test_equal_scores_all_count_as_the_best():
    tree = plain_tree(9, 3)
    assert first_true_level(torch.zeros(9, 9), torch.arange(9), tree).tolist() == [1] * 9
    for mode in ("strict", "one_step"):
        assert (label_weights(torch.zeros(9, 9), torch.arange(9), tree, (1, 2), mode) == 1).all()


def test_an_item_without_a_leaf_has_no_true_label():
    tree = grow(torch.tensor([0, 1, 2, 4]), 5)
    items = torch.tensor([3, -1, 4])
    scores = torch.arange(5.0).expand(3, 5)
    assert first_true_level(scores, items, tree).tolist() == [3, 3, 1]
    for mode in MODES:
        found = label_weights(scores, items, tree, (1, 2), mode)
        assert (found[:2] == 0).all()
        assert (found[2] > 0).all()


def test_free_slots_and_absent_items_do_not_compete():
    tree = Tree(TreeShape(4), torch.tensor([2, -1, -1, 0], dtype=torch.int32), 3)
    scores = torch.tensor([[5.0, 99.0, 7.0]])  # item 1 is absent
    assert by_leaf(scores, tree).tolist() == [[7.0, -torch.inf, -torch.inf, 5.0]]
    assert first_true_level(scores, torch.tensor([0]), tree).tolist() == [1]


def test_total_peaks_sum_the_largest_probability_of_every_node():
    chances = torch.tensor([[0.1, 0.2, 0.3, 0.15, 0.25]])
    found = total_peaks(chances.log(), TreeShape(5), (1, 2, 3))
    assert found.tolist() == [pytest.approx([0.55, 0.75, 1.0])]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cells", [1, 100, 2**26])
def test_labels_of_all_instances_equal_those_of_each(mode, cells):
    tree = grow(torch.randperm(30, generator=seeded(1)), 30, 3, spare=0.1)
    levels = (2, 3, 4)
    table = torch.randn(30, 30, generator=seeded(2))
    histories = torch.randint(0, 30, (57, 5), generator=seeded(3))
    items = torch.randint(-1, 30, (57,), generator=seeded(4))
    held = []

    def estimate(some):
        held.append(len(some))
        return table[some[:, -1]]

    labels = rectified(tree, Pairs(histories, items), estimate, mode, cells)
    expected = label_weights(table[histories[:, -1]], items, tree, levels, mode)
    assert torch.equal(labels.weights(torch.arange(57), levels), expected)
    assert torch.equal(labels.weights(torch.tensor([5, 3]), levels), expected[[5, 3]])
    assert torch.allclose(mean_label_per_level(labels, levels, chunk=10), expected.double().mean(0))
    assert max(held, default=0) <= max(cells // 33, 1)
    assert labels.fits(tree)
    assert not labels.fits(tree.reassigned(tree.item_of_leaf.flip(0)))
    if mode == "strict":
        assert labels.values.dtype == torch.uint8
        assert labels.values.shape == (57,)


def test_labels_have_no_gradient():
    table = torch.randn(4, 4, requires_grad=True)
    pairs = Pairs(torch.arange(4)[:, None], torch.arange(4))
    labels = rectified(plain_tree(4), pairs, lambda some: table[some[:, 0]], "normalised")
    assert not labels.values.requires_grad


def test_strict_labels_leave_fewer_positives_at_the_top_than_one_step():
    tree = plain_tree(2048)
    items = torch.arange(0, 2048, 8)
    scores = torch.randn(len(items), 2048, generator=seeded(9))
    strict = label_weights(scores, items, tree, all_levels(tree), "strict").mean(0)
    one_step = label_weights(scores, items, tree, all_levels(tree), "one_step").mean(0)
    assert strict[0] < 0.02
    assert 0.4 < one_step[0] < 0.6


def test_wrong_modes_are_refused():
    with pytest.raises(ConfigError, match="strict, one_step, normalised, none"):
        label_weights(torch.zeros(1, 4), torch.tensor([0]), plain_tree(4), (1,), "soft")
    pairs = Pairs(torch.zeros(1, 1), torch.tensor([0]))
    with pytest.raises(ConfigError, match="got 'soft'"):
        rectified(plain_tree(4), pairs, lambda some: some, "soft")


def test_top_items_give_strict_labels_and_where_they_are_certain():
    """A list that holds the item has every better one; else its labels can only be too many, never too few."""
    unsure = 0
    for seed in range(1000):
        tree, scores = random_tree(seed)
        if tree.shape.height == 0:
            continue
        item = int(tree.item_of_leaf[tree.item_of_leaf >= 0][seed % tree.n_live])
        many = seed % (len(scores) + 1) or len(scores)
        best = scores.topk(many)
        mixed = torch.randperm(many, generator=seeded(seed))
        top = Top(best.indices[mixed][None], best.values[mixed][None])
        found, exact = first_level_by_top(top, torch.tensor([item]), tree)
        expected = slow_level(scores.tolist(), item, tree)
        assert found[0] == expected if exact[0] else found[0] <= expected, seed
        assert exact[0] or item not in best.indices.tolist()
        unsure += int(not exact[0])
    assert 50 < unsure < 900


def test_top_items_may_be_padding_or_have_no_leaf():
    tree = grow(torch.tensor([0, 1, 2, 3]), 6)
    top = Top(
        torch.tensor([[5, -1, 1], [-1, -1, -1], [0, 4, 3]]),
        torch.tensor([[9.0, 9.0, 2.0], [0, 0, 0], [3, 9, 2]]),
    )
    found, exact = first_level_by_top(top, torch.tensor([1, 2, 5]), tree)
    assert found.tolist() == [1, 1, 3]  # item 5 has no leaf, as a better item and as a target
    assert exact.tolist() == [True, False, True]


def test_labels_of_all_instances_from_top_items():
    tree = grow(torch.randperm(30, generator=seeded(1)), 30, 3)
    table = torch.randn(30, 30, generator=seeded(2))
    histories = torch.randint(0, 30, (57, 5), generator=seeded(3))
    items = torch.randint(0, 30, (57,), generator=seeded(4))

    def best(count):
        def estimate(some):
            found = table[some[:, -1]].topk(count)
            return Top(found.indices, found.values)

        return estimate

    pairs = Pairs(histories, items)
    whole = rectified(tree, pairs, lambda some: table[some[:, -1]])
    for cells in (100, 2**26):
        named = rectified(tree, pairs, best(30), cells=cells)
        assert torch.equal(named.values, whole.values)
        assert named.exact.all()
    few = rectified(tree, pairs, best(5))
    assert 0 < few.exact.sum() < 57
    assert torch.equal(few.values[few.exact], whole.values[few.exact])
    assert whole.exact is None
    sampled = label_weights(best(5)(histories), items, tree, (2, 3))
    assert torch.equal(sampled, few.weights(torch.arange(57), (2, 3)))
    with pytest.raises(ConfigError, match="need the mode strict"):
        rectified(tree, pairs, best(5), "one_step")
    with pytest.raises(ConfigError, match="need the mode strict"):
        label_weights(best(5)(histories), items, tree, (2, 3), "normalised")
