"""The shape compared with a tree of linked nodes."""

import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.index.tree import TreeShape

EDGES = [(b**h + d, b) for b in (2, 3, 5, 6, 8, 10) for h in (1, 2, 3) for d in (-1, 0, 1)]
SIZES = sorted(
    {(n, b) for n in range(1, 34) for b in (2, 3, 4, 5, 8, 32)} | set(EDGES) | {(1024, 2), (1000, 7)}
)


class Node:
    def __init__(self, children=(), leaf=None):
        self.children, self.parent, self.leaf = list(children), None, leaf
        for child in self.children:
            child.parent = self


def pointers(n, branch):
    """Levels of linked nodes, root first: `branch` neighbours get a parent until one node is left."""
    levels = [[Node(leaf=leaf) for leaf in range(n)]]
    while len(levels[0]) > 1:
        below = levels[0]
        levels.insert(0, [Node(below[i : i + branch]) for i in range(0, len(below), branch)])
    return levels


def below(node):
    return (
        [node.leaf] if node.leaf is not None else [leaf for child in node.children for leaf in below(child)]
    )


@pytest.mark.parametrize(("n", "branch"), SIZES)
def test_t01_heights_are_exact_and_children_cover_the_next_level(n, branch):
    shape = TreeShape(n, branch)
    assert branch**shape.height >= n
    assert shape.height == 0 or branch ** (shape.height - 1) < n
    assert (shape.sizes[0], shape.sizes[-1]) == (1, n)
    for level in range(shape.height):
        children = [list(shape.children(level, i)) for i in range(shape.sizes[level])]
        assert [child for some in children for child in some] == list(range(shape.sizes[level + 1]))
        assert all(children)
    assert shape.n_nodes == sum(shape.sizes) == shape.offsets[-1] + n
    assert shape.offsets == tuple(sum(shape.sizes[:level]) for level in range(shape.height + 1))


@pytest.mark.parametrize(("n", "branch", "height"), [(125, 5, 3), (126, 5, 4), (216, 6, 3), (217, 6, 4)])
def test_t01_heights_are_exact_where_float_logarithms_are_not(n, branch, height):
    assert TreeShape(n, branch).height == height


@pytest.mark.parametrize(("n", "branch"), SIZES)
def test_t02_shape_equals_a_tree_of_linked_nodes(n, branch):
    shape, levels = TreeShape(n, branch), pointers(n, branch)
    assert shape.sizes == tuple(len(level) for level in levels)
    place = {node: (level, i) for level, nodes in enumerate(levels) for i, node in enumerate(nodes)}
    for node, (level, i) in place.items():
        assert [place[child][1] for child in node.children] == list(shape.children(level, i))
        assert list(shape.leaves(level, i)) == below(node)
        assert node.parent is None or place[node.parent] == (level - 1, shape.parent(i))
        assert all(shape.ancestor(leaf, level) == i for leaf in below(node))


def test_ancestors_of_many_leaves_at_once():
    shape = TreeShape(10, 3)
    leaves = torch.arange(10)
    assert shape.ancestor(leaves, 1).tolist() == [0] * 9 + [1]
    assert shape.parent(leaves).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]


def test_search_starts_at_the_first_level_wider_than_the_beam():
    shape = TreeShape(100, 2)  # 1 2 4 7 13 25 50 100
    assert [shape.start(beam) for beam in (1, 2, 3, 7, 8, 99, 100, 1000)] == [1, 2, 2, 4, 4, 7, 7, 7]


def test_a_single_leaf_is_the_root():
    shape = TreeShape(1)
    assert (shape.height, shape.sizes, shape.offsets, shape.n_nodes) == (0, (1,), (0,), 1)
    assert list(shape.children(0, 0)) == []
    assert list(shape.leaves(0, 0)) == [0]
    assert shape.start(1) == 0


@pytest.mark.parametrize("n", [0, -1, 1.5, "3", True, None])
def test_a_tree_without_leaves_is_refused(n):
    with pytest.raises(ConfigError, match="leaves, at least 1"):
        TreeShape(n)


@pytest.mark.parametrize("branch", [1, 0, 2.0, False])
def test_a_tree_without_branches_is_refused(branch):
    with pytest.raises(ConfigError, match="branches, at least 2"):
        TreeShape(3, branch)
