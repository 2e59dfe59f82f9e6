"""Overlap: items go to the leaves with most votes within capacity, and every item has a leaf."""

from importlib import import_module

import numpy as np
import pytest
import torch
from scipy import sparse

from shortlist.data.membership import is_in
from shortlist.errors import ConfigError
from shortlist.index.jtr import JTRIndex, overlap, reached, search
from tests.index.jtr.leaf_trees import grown, uneven, vectors_of


def votes_of(rows):
    return sparse.csr_matrix(np.array(rows, np.float32))


def random_votes(tree, seed=0, density=0.2):
    random = np.random.default_rng(seed)
    shape = (tree.n_items, len(tree.leaves))
    return sparse.csr_matrix(
        random.integers(1, 9, shape) * (random.random(shape) < density), dtype=np.float32
    )


def held(tree, leaf):
    return tree.rows[tree.offsets[leaf] : tree.offsets[leaf + 1]].tolist()


@pytest.mark.parametrize("copies", [1, 2, 5])
@pytest.mark.parametrize("density", [0.0, 0.02, 0.5])
def test_copies_and_leaf_capacity_are_respected_and_every_item_has_a_leaf(copies, density):
    index, vectors = grown()
    tree = overlap(index.tree, random_votes(index.tree, density=density), vectors, copies)
    counts = torch.bincount(tree.rows, minlength=200)
    assert counts.min() >= 1
    assert counts.max() <= copies
    assert tree.widest <= tree.leaf
    assert torch.equal(tree.children, index.tree.children)


def test_items_go_to_the_leaves_with_most_votes():
    votes = votes_of([[5, 0, 1], [0, 4, 1], [0, 0, 3], [0, 2, 0], [6, 0, 0], [1, 0, 0], [0, 0, 2]])
    tree = uneven()
    once = overlap(tree, votes, vectors_of(7), copies=1)
    assert [held(once, leaf) for leaf in (1, 3, 4)] == [[0, 4, 5], [1, 3], [2, 6]]
    twice = overlap(tree, votes, vectors_of(7), copies=2)
    # The last leaf has one free place: item 0 has the most votes and chooses first.
    assert [held(twice, leaf) for leaf in (1, 3, 4)] == [[0, 4, 5], [1, 3], [0, 2, 6]]


def test_a_full_leaf_keeps_the_items_with_most_votes():
    votes = votes_of([[9, 0, 1], [8, 0, 1], [7, 0, 1], [2, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]])
    tree = overlap(uneven(), votes, vectors_of(7), copies=1)
    assert held(tree, 1) == [0, 1, 2]
    assert 3 in held(tree, 4)


def test_items_without_votes_go_to_the_nearest_leaf():
    index, vectors = grown(leaf=30)
    tree = overlap(index.tree, random_votes(index.tree, density=0.0), vectors, copies=3)
    centres = index.nodes[index.tree.leaves]
    nearest = index.tree.leaves[torch.cdist(vectors, centres).argmin(1)]
    moved = tree.homes[:, 0] != nearest
    assert tree.homes.shape[1] == 1, "no votes, no copies"
    assert moved.float().mean() < 0.1, "only full leaves reject items"


def test_block_size_does_not_change_the_assignment(monkeypatch):
    index, vectors = grown()
    votes = random_votes(index.tree)
    one = overlap(index.tree, votes, vectors)
    monkeypatch.setattr(import_module("shortlist.index.jtr.overlap"), "BLOCK", 1)
    two = overlap(index.tree, votes, vectors)
    assert torch.equal(one.rows, two.rows)
    assert torch.equal(one.offsets, two.offsets)


def test_overlap_raises_recall_at_the_same_beam():
    index, vectors = grown(400, branch=5, leaf=20)
    queries = vectors_of(300, seed=1)
    best = search(index, vectors, queries, 10, 10**6).items
    leaves_reached = torch.searchsorted(index.tree.leaves, reached(index, queries, 3))
    votes = sparse.csr_matrix((400, len(index.tree.leaves)), dtype=np.float32)
    for targets in best.T:
        at = (targets.repeat_interleave(3).numpy(), leaves_reached.flatten().numpy())
        votes = votes + sparse.csr_matrix((np.ones(900, np.float32), at), shape=votes.shape)

    def recall(tree):
        return float(
            is_in(best, search(JTRIndex(tree, index.nodes), vectors, queries, 10, 3).items).float().mean()
        )

    plain = recall(index.tree)
    shares = [recall(overlap(index.tree, votes, vectors, copies)) for copies in (1, 2, 3)]
    assert plain < shares[0] < shares[1] <= shares[2] + 0.01
    assert shares[1] > 1.1 * shares[0]


def test_invalid_arguments_are_refused():
    with pytest.raises(ConfigError, match="votes of 7 items for 3 leaves"):
        overlap(uneven(), votes_of([[1, 2]]), vectors_of(7))
    with pytest.raises(ConfigError, match="copies=0"):
        overlap(uneven(), random_votes(uneven()), vectors_of(7), copies=0)
