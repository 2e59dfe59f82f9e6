"""The initial tree: every item once, no leaf above capacity, similar items together."""

import pytest
import torch

from shortlist.errors import ConfigError, DataError
from shortlist.index.jtr import grow
from tests.index.jtr.leaf_trees import grown, vectors_of

SIZES = [(1, 10, 100), (50, 10, 100), (7, 10, 1), (120, 2, 1), (500, 10, 20), (101, 10, 100), (40, 50, 3)]


@pytest.mark.parametrize(("n", "branch", "leaf"), SIZES)
def test_every_item_is_in_one_leaf_and_no_leaf_exceeds_its_capacity(n, branch, leaf):
    tree = grow(vectors_of(n), branch, leaf).tree
    assert sorted(tree.rows.tolist()) == list(range(n))
    assert (tree.sizes[tree.leaves] > 0).all()
    assert tree.widest <= leaf
    assert tree.onward.shape[1] <= branch


def test_items_that_fit_into_one_leaf_are_not_split():
    assert grow(vectors_of(100), 10, 100).tree.n_nodes == 1
    assert grow(vectors_of(101), 10, 100).tree.n_nodes == 4, "three leaves, no more than could be half full"


@pytest.mark.parametrize("branch", [2, 10])
def test_identical_vectors_are_split(branch):
    tree = grow(torch.ones(300, 4), branch, 5).tree
    assert tree.widest <= 5
    assert tree.height < 30


def test_a_node_vector_is_the_mean_of_its_items():
    index, vectors = grown()
    tree = index.tree
    torch.testing.assert_close(index.nodes[0], vectors.mean(0))
    for leaf in tree.leaves.tolist():
        held = tree.rows[tree.offsets[leaf] : tree.offsets[leaf + 1]].long()
        torch.testing.assert_close(index.nodes[leaf], vectors[held].mean(0))


def test_separated_clusters_get_separate_leaves():
    centres = 20 * torch.eye(6)
    label = torch.arange(6).repeat(15)
    tree = grow(centres[label] + 0.1 * vectors_of(90, 6), 6, 20).tree
    for leaf in tree.leaves.tolist():
        held = tree.rows[tree.offsets[leaf] : tree.offsets[leaf + 1]].long()
        assert len(label[held].unique()) == 1


def test_the_same_seed_grows_the_same_tree():
    one, two, other = (grow(vectors_of(300), 5, 12, seed) for seed in (0, 0, 1))
    assert torch.equal(one.tree.rows, two.tree.rows)
    assert torch.equal(one.nodes, two.nodes)
    assert not torch.equal(one.tree.rows, other.tree.rows)


def test_an_empty_catalogue_is_an_empty_leaf():
    index = grow(torch.empty(0, 4))
    assert index.tree.n_nodes == 1
    assert index.nodes.isfinite().all()


@pytest.mark.parametrize("arguments", [{"branch": 1}, {"leaf": 0}], ids=str)
def test_invalid_sizes_are_refused(arguments):
    with pytest.raises(ConfigError, match="branch must be at least 2 and leaf at least 1"):
        grow(vectors_of(9), **arguments)


def test_non_finite_vectors_are_refused():
    with pytest.raises(DataError, match="not finite"):
        grow(torch.full((3, 2), torch.nan))
