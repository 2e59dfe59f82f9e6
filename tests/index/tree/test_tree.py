"""Items at leaves: the two mappings agree, and a damaged tree is refused with a reason."""

from dataclasses import replace

import pytest
import torch

from shortlist.artifact.store import Lineage, load, save
from shortlist.errors import ArtifactError, ConfigError, DataError
from shortlist.index.tree import Tree, grow


def shuffled(n, seed=0):
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 100])
@pytest.mark.parametrize("spare", [0.0, 0.1, 1.0])
def test_t01_item_of_leaf_and_leaf_of_item_are_inverse(n, spare):
    tree = grow(shuffled(n), n, spare=spare)
    leaves = tree.leaf_of_item
    assert torch.equal(tree.item_of_leaf[leaves.long()], torch.arange(n, dtype=torch.int32))
    taken = tree.item_of_leaf >= 0
    assert torch.equal(leaves[tree.item_of_leaf[taken].long()].long(), taken.nonzero()[:, 0])
    assert tree.n_live == n
    assert tree.item_of_leaf[taken].tolist() == shuffled(n).tolist()  # in the given order


def test_spare_slots_are_spread_evenly():
    tree = grow(torch.arange(100), 100, spare=0.25)
    free = (tree.item_of_leaf < 0).view(25, 5).sum(1)
    assert tree.shape.n == 125
    assert free.tolist() == [1] * 25


def test_items_outside_the_order_are_absent():
    tree = grow(torch.tensor([4, 1]), 6)
    assert tree.leaf_of_item.tolist() == [-1, 1, -1, -1, 0, -1]
    asked = torch.tensor([[-1, 4, 1], [0, 6, 99]])
    assert tree.leaves(asked).tolist() == [[-1, 0, 1], [-1, -1, -1]]


@pytest.mark.parametrize("branch", [2, 3, 5])
def test_a_node_is_live_if_an_item_is_below(branch):
    tree = grow(shuffled(23), 23, branch, spare=0.5)
    leaves = tree.item_of_leaf.masked_fill(torch.arange(tree.shape.n) < 9, -1)
    tree = replace(tree, item_of_leaf=leaves)
    for level, size in enumerate(tree.shape.sizes):
        slow = [any(leaves[leaf] >= 0 for leaf in tree.shape.leaves(level, i)) for i in range(size)]
        assert tree.live(level).tolist() == slow
        assert tree.reach[level].tolist() == [*slow, False]


def test_reach_counts_allowed_items_only():
    tree = grow(torch.arange(8), 8)
    allowed = torch.arange(8) == 5
    reach = tree.allow(allowed)
    assert [level[:-1].nonzero()[:, 0].tolist() for level in reach] == [[0], [1], [2], [5]]
    with pytest.raises(DataError, match="a bool for each of 8 items, got int64"):
        tree.allow(torch.arange(8))


def test_a_reassigned_tree_has_the_same_items_and_a_new_version():
    tree = grow(torch.arange(5), 5, spare=0.4)
    slots = tree.item_of_leaf >= 0
    again = tree.reassigned(torch.tensor([4, 3, 2, 1, 0]))
    assert again.item_of_leaf[slots].tolist() == [4, 3, 2, 1, 0]
    assert torch.equal(again.item_of_leaf >= 0, slots)
    assert again.version == 1
    whole = tree.reassigned(tree.item_of_leaf.flip(0))
    assert torch.equal(whole.item_of_leaf, tree.item_of_leaf.flip(0))


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 3], [0, 1, 2], [0, 1, 2, 3, 9]])
def test_reassignment_with_other_items_is_refused(order):
    with pytest.raises(DataError, match="order of a tree"):
        grow(torch.arange(5), 5).reassigned(torch.tensor(order))


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ([], "non-empty"),
        ([0, 0], "an item 2 times"),
        ([0, 3], "items of 0 .. 2"),
        ([0, -1], "items of 0 .. 2"),
        ([[0]], "1-d tensor"),
        ([0.5], "of integers"),
    ],
)
def test_an_invalid_order_is_refused(order, reason):
    with pytest.raises(DataError, match=reason):
        grow(torch.tensor(order), 3)


@pytest.mark.parametrize("spare", [-0.1, float("nan"), 1e9])
def test_an_invalid_share_of_spare_slots_is_refused(spare):
    with pytest.raises(ConfigError, match="spare"):
        grow(torch.arange(3), 3, spare=spare)


def test_a_tree_round_trips_through_an_artifact(tmp_path):
    tree = grow(shuffled(20), 22, 3, spare=0.2).reassigned(shuffled(20, seed=1))
    made = save(tmp_path / "tree", "tree", {"tree.safetensors": tree.tensors()}, Lineage(), tree.settings())
    read = load(tmp_path / "tree", "tree")
    back = Tree.build(read.about, read.tensors("tree.safetensors"))
    assert made.version == read.version
    assert back.shape == tree.shape
    assert torch.equal(back.item_of_leaf, tree.item_of_leaf)
    assert (back.n_items, back.version, back.checksum()) == (22, 1, tree.checksum())


def broken(settings=None, leaves=None, drop=None):
    tree = grow(shuffled(10), 10)
    values = tree.settings() | (settings or {})
    values = {key: value for key, value in values.items() if key != drop}
    tensors = tree.tensors() if leaves is None else {"item_of_leaf": torch.tensor(leaves, dtype=torch.int32)}
    return values, tensors


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (broken(leaves=[0, *range(9)]), "holds an item 2 times"),
        (broken(leaves=list(range(9))), "of length 10, got int32 \\[9\\]"),
        (broken(leaves=list(range(10))), "expected checksum"),
        (broken(leaves=[-2, *range(1, 10)]), "got -2 .. 9"),
        (broken(leaves=[10, *range(1, 10)]), "got 1 .. 10"),
        (broken({"slots": 9}), "of length 9"),
        (broken({"slots": 0}), "at least 1"),
        (broken({"branch": 1}), "at least 2"),
        (broken({"branch": 3}), "expected checksum"),
        (broken({"version": 3}), "expected checksum"),
        (broken({"version": -1}), "negative"),
        (broken({"n_items": "10"}), "n_items must be int"),
        (broken({"checksum": "0"}), "expected checksum 0"),
        *(
            (broken(drop=key), f"lack '{key}'")
            for key in ("slots", "branch", "n_items", "version", "checksum")
        ),
        ((broken()[0], {}), "expected a tensor 'item_of_leaf', got none"),
        ((broken()[0], {"item_of_leaf": torch.arange(10)}), "int32 of length 10, got int64"),
    ],
)
def test_a_damaged_tree_is_refused_with_the_reason(parts, reason):
    with pytest.raises(ArtifactError, match=reason):
        Tree.build(*parts)


def test_a_tree_of_a_million_items_is_grown():
    order = shuffled(1_000_000)
    tree = grow(order, 1_000_000, 8, spare=0.1)
    assert tree.leaf_of_item.shape == (1_000_000,)
    assert len(tree.reach) == tree.shape.height + 1


def test_a_tree_moves_between_devices():
    tree = grow(shuffled(5), 5)
    assert tree.to("cpu").checksum() == tree.checksum()
