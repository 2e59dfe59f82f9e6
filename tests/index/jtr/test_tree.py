"""LeafTree: derived arrays, contents and validation."""

from dataclasses import replace

import pytest
import torch

from shortlist.errors import ArtifactError, DataError
from shortlist.index.jtr import LeafTree
from tests.index.jtr.leaf_trees import grown, int32, uneven


def test_derived_arrays_of_a_hand_made_tree():
    tree = uneven()
    assert (tree.n_nodes, tree.height, tree.widest) == (5, 2, 3)
    assert tree.leaves.tolist() == [1, 3, 4]
    assert tree.sizes.tolist() == [0, 3, 0, 3, 2]
    assert tree.parents.tolist() == [0, 0, 0, 2, 2]
    assert tree.paths.tolist() == [[0, 0, 0], [0, 1, 1], [0, 2, 2], [0, 2, 3], [0, 2, 4]]
    assert tree.onward.tolist() == [[1, 2], [1, -1], [3, 4], [3, -1], [4, -1], [-1, -1]]
    assert [tree.front(depth).tolist() for depth in (0, 1, 2, 9)] == [[0], [1, 2], [1, 3, 4], [1, 3, 4]]
    homes = [[1, -1], [3, -1], [4, -1], [3, -1], [1, -1], [1, 3], [4, -1]]
    assert tree.homes.tolist() == homes


def test_nodes_without_any_item_below_are_not_live():
    tree = uneven()
    moved = replace(tree, leaf=7).filled(torch.arange(7), torch.tensor([1] * 4 + [3] * 3))
    assert moved.live.tolist() == [True, True, True, True, False]
    assert moved.onward.tolist()[2] == [3, -1]
    assert moved.front(2).tolist() == [1, 3]
    lonely = moved.filled(torch.arange(7), torch.tensor([1] * 7))
    assert lonely.live.tolist() == [True, True, False, False, False]
    assert lonely.front(1).tolist() == [1]


def test_contents_may_come_in_any_order():
    tree = uneven()
    items, leaves = torch.tensor([6, 5, 5, 4, 3, 2, 1, 0]), torch.tensor([4, 3, 1, 1, 3, 4, 3, 1])
    same = tree.filled(items, leaves)
    assert torch.equal(same.rows, tree.rows)
    assert torch.equal(same.offsets, tree.offsets)


def test_every_path_starts_at_the_root_and_ends_at_the_node():
    tree = grown(300, branch=3, leaf=5)[0].tree
    assert (tree.paths[:, 0] == 0).all()
    assert (tree.paths[:, -1] == torch.arange(tree.n_nodes)).all()
    steps = tree.paths[:, 1:] != tree.paths[:, :-1]
    assert (tree.parents[tree.paths[:, 1:]][steps] == tree.paths[:, :-1][steps]).all()


def test_settings_and_tensors_round_trip():
    tree = uneven()
    back = LeafTree.build(tree.settings(), tree.tensors())
    assert back.settings() == tree.settings()
    assert all(torch.equal(back.tensors()[name], tensor) for name, tensor in tree.tensors().items())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"children": int32(1, 3, 3, 5, 5)}, "one offset per node"),
        ({"children": int32(1, 3, 3, 4, 4, 4)}, "every node but the root"),
        ({"children": int32(1, 4, 3, 5, 5, 5)}, "ascending order"),
        ({"children": int32(1, 1, 1, 1, 5, 5)}, "parents before children"),
        ({"offsets": int32(0, 0, 3, 3, 6, 7)}, "number of entries"),
        ({"offsets": int32(0, 1, 3, 3, 6, 8)}, "leaves only"),
        ({"rows": int32(0, 4, 5, 1, 3, 5, 2, 7)}, "rows of the catalogue"),
        ({"rows": int32(0, 5, 4, 1, 3, 5, 2, 6)}, "once, ascending"),
        ({"rows": int32(0, 4, 5, 1, 3, 5, 2, 4)}, "at least one leaf"),
        ({"rows": torch.arange(8)}, "int32"),
        ({"children": int32()}, "one offset per node"),
        ({"offsets": None}, "int32"),
    ],
    ids=str,
)
def test_arrays_that_are_not_a_tree_are_refused(changed, message):
    tree = uneven()
    with pytest.raises(ArtifactError, match=f"{message}.*make the artifact again"):
        LeafTree.build(tree.settings(), {**tree.tensors(), **changed})


@pytest.mark.parametrize("changed", [{"leaf": "3"}, {"leaf": 2}, {"n_items": -7}, {"n_items": True}], ids=str)
def test_invalid_settings_are_refused(changed):
    tree = uneven()
    with pytest.raises(ArtifactError, match="make the artifact again"):
        LeafTree.build({**tree.settings(), **changed}, tree.tensors())


def test_a_leaf_above_its_capacity_is_refused():
    with pytest.raises(DataError, match="at most 3 items in a leaf"):
        uneven().filled(torch.arange(7), torch.tensor([1] * 4 + [3] * 3))
