"""Insertion, deletion and rebalancing: present items are found, with their vectors."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import DataError
from shortlist.index.tree import TreeIndex, delete, exhaustive, grow, insert, n_rows, rebalance, search
from shortlist.index.tree.updates import _nearest_free
from shortlist.models.nodes import ScorerConfig, make_scorer

BOTH = pytest.mark.parametrize("leaf_vectors", ["slot", "item"])


def index_of(n, branch=2, spare=0.0, leaf_vectors="slot", history="ancestor", seed=0, kind="linear"):
    tree = grow(torch.randperm(n, generator=torch.Generator().manual_seed(seed)), n, branch, spare)
    rows = n_rows(tree.shape, n, leaf_vectors)
    config = ScorerConfig(rows, n, kind, width=6, history=history)
    return TreeIndex(tree, make_scorer(config, seed).eval(), leaf_vectors)


def items_of(index):
    return set(index.tree.item_of_leaf.tolist()) - {-1}


def vector(index, level, node):
    return index.scorer.nodes.weight[index.rows(level, torch.tensor(node))]


def leaf_vector(index, item):
    return vector(index, index.tree.shape.height, int(index.tree.leaf_of_item[item]))


def assert_all_findable(index, expected):
    assert items_of(index) == expected
    history = torch.tensor([[0, 1, -1, 3]])
    k = len(expected) + 2
    wide = search(index, history, k, beam=index.tree.shape.n)
    for found in (
        wide,
        exhaustive(index, history, k),
        search(index, history, k, 3 * k, skip=False, path=True),
    ):
        assert set(found.items[0].tolist()) - {-1} == expected
        assert (found.items[0] >= 0).sum() == len(expected)
    if len(expected):
        assert bool(wide.scores[0, : len(expected)].isfinite().all())


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 20),
    st.integers(2, 4),
    st.sampled_from([0.0, 0.3]),
    st.sampled_from(["slot", "item"]),
    st.sampled_from(["ancestor", "item"]),
    st.lists(
        st.tuples(st.sampled_from(["insert", "delete", "rebalance"]), st.integers(0, 2**31)), max_size=8
    ),
)
def test_after_any_updates_exactly_the_present_items_are_found(n, branch, spare, leaf, history, steps):
    index, expected = index_of(n, branch, spare, leaf, history), set(range(n))
    for step, (word, seed) in enumerate(steps):
        generator = torch.Generator().manual_seed(seed)
        if word == "insert":
            absent = torch.tensor(sorted(set(range(index.tree.n_items + 5)) - expected))
            new = absent[torch.randperm(len(absent), generator=generator)[:4]]
            near = torch.full_like(new, -1)
            if expected:
                near[::2] = torch.tensor(sorted(expected))[
                    torch.randint(len(expected), (1,), generator=generator)
                ]
            index, expected = insert(index, new, near), expected | set(new.tolist())
        elif word == "delete":
            there = torch.tensor(sorted(expected), dtype=torch.int64)
            gone = there[torch.randperm(len(there), generator=generator)[:3]]
            index, expected = delete(index, gone), expected - set(gone.tolist())
        else:
            index = rebalance(index, spare)
        assert index.tree.version <= step + 1
        assert_all_findable(index, expected)


@BOTH
def test_a_new_item_takes_the_free_slot_closest_to_its_near_item(leaf_vectors):
    index = index_of(40, 4, spare=0.25, leaf_vectors=leaf_vectors)
    free = (index.tree.item_of_leaf < 0).nonzero()[:, 0]
    for near in (0, 7, 39):
        grown = insert(index, torch.tensor([40]), torch.tensor([near]))
        assert grown.tree.shape == index.tree.shape
        preferred = int(index.tree.leaf_of_item[near])
        distance = abs(int(grown.tree.leaf_of_item[40]) - preferred)
        assert distance == int((free - preferred).abs().min())
        assert torch.equal(grown.tree.leaf_of_item[:40], index.tree.leaf_of_item)


@BOTH
def test_a_new_leaf_gets_the_mean_vector_of_its_siblings(leaf_vectors):
    index = index_of(30, 5, spare=0.2, leaf_vectors=leaf_vectors, history="item")
    new = torch.tensor([30, 31, 32])
    grown = insert(index, new, torch.tensor([4, 4, 20]))
    for item in new.tolist():
        leaf = int(grown.tree.leaf_of_item[item])
        parent = index.tree.shape.parent(leaf)
        around = [
            int(index.tree.item_of_leaf[i])
            for i in index.tree.shape.children(index.tree.shape.height - 1, parent)
        ]
        around = [other for other in around if other >= 0]
        expected = torch.stack([leaf_vector(index, other) for other in around]).mean(0)
        torch.testing.assert_close(leaf_vector(grown, item), expected)
        torch.testing.assert_close(grown.scorer.items.weight[item], index.scorer.items.weight[around].mean(0))
    for item in range(30):
        assert torch.equal(leaf_vector(grown, item), leaf_vector(index, item))
    inner = index.tree.shape.offsets[-1]
    assert torch.equal(grown.scorer.nodes.weight[:inner], index.scorer.nodes.weight[:inner])


def test_a_new_leaf_without_siblings_gets_the_vector_of_its_near_item():
    index = delete(index_of(8, 2), torch.arange(8)[index_of(8, 2).tree.item_of_leaf[2:4].long()])
    keeper = int(index.tree.item_of_leaf[0])
    grown = insert(index, torch.tensor([20]), torch.tensor([keeper]))
    assert grown.tree.leaf_of_item[20] in (2, 3)
    assert torch.equal(leaf_vector(grown, 20), leaf_vector(index, keeper))
    alone = insert(index, torch.tensor([20]))
    assert torch.equal(leaf_vector(alone, 20), vector(index, 2, 1))  # else that of its parent


def test_a_reinserted_item_keeps_its_history_vector():
    index = index_of(20, 4, history="item")
    again = insert(delete(index, torch.tensor([5])), torch.tensor([5]))
    assert torch.equal(again.scorer.items.weight, index.scorer.items.weight)


@BOTH
@pytest.mark.parametrize("spare", [0.0, 0.5, 3.0])
def test_rebalancing_moves_vectors_with_their_items(leaf_vectors, spare):
    index = delete(index_of(45, 3, 0.1, leaf_vectors), torch.arange(0, 45, 7))
    again = rebalance(index, spare)
    assert again.tree.version == index.tree.version + 1
    kept = [item for item in index.tree.item_of_leaf.tolist() if item >= 0]
    assert [item for item in again.tree.item_of_leaf.tolist() if item >= 0] == kept
    for item in kept:
        assert torch.equal(leaf_vector(again, item), leaf_vector(index, item))


@pytest.mark.parametrize("leaf_vectors", ["slot", "item"])
def test_inner_nodes_get_the_mean_of_the_old_ancestors_of_their_items(leaf_vectors):
    index = index_of(20, 2, 0.0, leaf_vectors)
    again = rebalance(index, 1.0)
    old, new = index.tree.shape, again.tree.shape
    assert new.height == old.height + 1
    for level in range(new.height):
        before = max(0, level - 1)  # as far from the leaves
        for node in range(new.sizes[level]):
            below = [int(again.tree.item_of_leaf[leaf]) for leaf in new.leaves(level, node)]
            above = [
                vector(index, before, old.ancestor(int(index.tree.leaf_of_item[item]), before))
                for item in below
                if item >= 0
            ]
            torch.testing.assert_close(vector(again, level, node), torch.stack(above).mean(0))


def test_rebalancing_a_full_tree_without_spare_slots_changes_nothing():
    index = index_of(37, 3)
    again = rebalance(index, 0.0)
    torch.testing.assert_close(again.scorer.nodes.weight, index.scorer.nodes.weight)
    assert torch.equal(again.tree.item_of_leaf, index.tree.item_of_leaf)


@BOTH
@pytest.mark.parametrize("history", ["ancestor", "item"])
def test_running_out_of_slots_rebalances_with_new_items_behind_their_near_items(leaf_vectors, history):
    index = index_of(16, 2, 0.0, leaf_vectors, history)
    new, near = torch.arange(16, 26), torch.arange(10)
    grown = insert(index, new, near, spare=0.5)
    assert grown.tree.shape.n == 39
    order = [item for item in grown.tree.item_of_leaf.tolist() if item >= 0]
    for item, other in zip(new.tolist(), near.tolist(), strict=True):
        assert order.index(item) == order.index(other) + 1
    assert [item for item in order if item < 16] == index.tree.item_of_leaf.tolist()
    for item in range(16):
        assert torch.equal(leaf_vector(grown, item), leaf_vector(index, item))
    assert_all_findable(grown, set(range(26)))


def test_all_items_can_be_deleted_and_others_inserted():
    index = delete(index_of(3), torch.arange(3))
    assert_all_findable(index, set())
    assert rebalance(index) is index
    assert_all_findable(insert(index, torch.tensor([1, 7])), {1, 7})
    assert_all_findable(insert(index, torch.arange(9)), set(range(9)))
    single = delete(index_of(1), torch.tensor([0]))
    assert_all_findable(insert(single, torch.tensor([5])), {5})


@pytest.mark.parametrize("kind", ["linear", "mlp", "attention"])
def test_an_update_does_not_change_the_old_index(kind):
    index = index_of(12, 3, 0.5, kind=kind)
    before = {name: tensor.clone() for name, tensor in index.tensors().items()}
    changed = [insert(index, torch.tensor([12])), rebalance(index, 2.0), insert(index, torch.arange(12, 40))]
    with torch.no_grad():
        for other in changed:
            for parameter in other.scorer.parameters():
                parameter.add_(1)
    delete(index, torch.tensor([3]))
    assert all(torch.equal(tensor, before[name]) for name, tensor in index.tensors().items())
    for other in changed:
        back = TreeIndex.build(other.settings(), other.tensors())
        assert_all_findable(back, items_of(other))
        assert other.scorer.nodes.weight.requires_grad


@pytest.mark.parametrize(
    ("items", "near", "reason"),
    [
        ([3], None, "item 3 is already in the tree"),
        ([10, 10], None, "twice"),
        ([-1], None, "rows in 0"),
        ([2**31], None, "rows in 0"),
        ([10], [11], "near item 11 is not in the tree"),
        ([10], [1, 2], "one item for each of 1 new ones, got 2"),
        ([[10]], None, "items must be a 1-d tensor of integers"),
        ([10.0], None, "items must be a 1-d tensor of integers"),
        ([10], [0.5], "near must be a 1-d tensor of integers"),
    ],
)
def test_an_invalid_insertion_is_refused(items, near, reason):
    with pytest.raises(DataError, match=reason):
        insert(index_of(5), torch.tensor(items), None if near is None else torch.tensor(near))


INVALID = [([5], "item 5: it is not"), ([-1], "item -1"), ([2, 2], "twice"), ([1.0], "integers")]


@pytest.mark.parametrize(("items", "reason"), INVALID)
def test_an_invalid_deletion_is_refused(items, reason):
    with pytest.raises(DataError, match=reason):
        delete(index_of(5), torch.tensor(items))


def test_empty_insertions_and_deletions_are_valid():
    none = torch.empty(0, dtype=torch.int64)
    assert items_of(insert(index_of(5), none)) == items_of(delete(index_of(5), none)) == set(range(5))


@settings(max_examples=200, deadline=None)
@given(st.sets(st.integers(0, 60), min_size=1, max_size=40), st.data())
def test_free_slots_are_distinct_and_close(free, data):
    free = torch.tensor(sorted(free))
    preferred = data.draw(st.lists(st.integers(0, 60), min_size=1, max_size=len(free)))
    at = _nearest_free(free, torch.tensor(preferred))
    assert len(set(at.tolist())) == len(preferred)
    assert 0 <= int(at.min()) <= int(at.max()) < len(free)
    if len(preferred) == 1:
        assert int((free[at] - preferred[0]).abs()) == int((free - preferred[0]).abs().min())


def test_items_with_the_same_preferred_leaf_spread_to_both_sides():
    at = _nearest_free(torch.arange(0, 100, 10), torch.full((5,), 50))
    assert sorted((at * 10).tolist()) == [30, 40, 50, 60, 70]


def test_ten_thousand_insertions_into_a_million_items():
    n = 1_000_000
    index = index_of(n, 8, spare=0.05)
    near = torch.randint(0, n, (10_000,), generator=torch.Generator().manual_seed(0))
    grown = insert(index, torch.arange(n, n + 10_000), near)
    assert grown.tree.n_live == n + 10_000
    distance = (grown.tree.leaf_of_item[n:] - index.tree.leaf_of_item[near.long()]).abs()
    assert float(distance.float().median()) < 40


@BOTH
@pytest.mark.parametrize("kind", ["linear", "mlp", "attention"])
def test_an_updated_index_scores_with_its_own_vectors(kind, leaf_vectors):
    index, history = (
        index_of(30, 3, 0.5, leaf_vectors, kind=kind),
        torch.tensor([[3, 5, 7, -1], [1, 2, 9, 4]]),
    )
    search(index, history, 5)  # whatever a scorer keeps from a first call must not reach its copies
    for changed in (
        insert(index, torch.arange(30, 35)),
        insert(index, torch.arange(30, 90)),
        rebalance(index, 0.0),
    ):
        height = changed.tree.shape.height
        found = search(changed, history, 8, beam=changed.tree.shape.n)
        rows = changed.rows(height, changed.tree.leaves(found.items))
        expected = changed.scorer.naive(changed.history_rows(height, history), rows)
        torch.testing.assert_close(found.scores, expected.detach(), rtol=1e-4, atol=1e-5)
