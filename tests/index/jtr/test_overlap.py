"""Overlap: items go where they are wanted, as far as there is room, and nobody is left outside."""

from importlib import import_module

import numpy as np
import pytest
import torch
from scipy import sparse

from shortlist.data.membership import is_in
from shortlist.errors import ConfigError
from shortlist.index.jtr import JTRIndex, overlap, reached, search
from tests.index.jtr.groves import grove, uneven, vectors_of


def votes_of(rows):
    return sparse.csr_matrix(np.array(rows, np.float32))


def chance(tree, seed=0, density=0.2):
    random = np.random.default_rng(seed)
    shape = (tree.n_items, len(tree.leaves))
    return sparse.csr_matrix(
        random.integers(1, 9, shape) * (random.random(shape) < density), dtype=np.float32
    )


def held(tree, leaf):
    return tree.rows[tree.offsets[leaf] : tree.offsets[leaf + 1]].tolist()


@pytest.mark.parametrize("copies", [1, 2, 5])
@pytest.mark.parametrize("density", [0.0, 0.02, 0.5])
def test_every_item_has_a_leaf_none_too_many_and_no_leaf_is_too_full(copies, density):
    index, vectors = grove()
    tree = overlap(index.tree, chance(index.tree, density=density), vectors, copies)
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
    # The last leaf has room for one more: item 0 has most votes and is served first.
    assert [held(twice, leaf) for leaf in (1, 3, 4)] == [[0, 4, 5], [1, 3], [0, 2, 6]]


def test_a_full_leaf_keeps_those_with_most_votes_and_the_others_go_to_their_next():
    votes = votes_of([[9, 0, 1], [8, 0, 1], [7, 0, 1], [2, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]])
    tree = overlap(uneven(), votes, vectors_of(7), copies=1)
    assert held(tree, 1) == [0, 1, 2]
    assert 3 in held(tree, 4)


def test_items_without_votes_stay_where_their_vectors_put_them():
    index, vectors = grove(leaf=30)
    tree = overlap(index.tree, chance(index.tree, density=0.0), vectors, copies=3)
    centres = index.nodes[index.tree.leaves]
    nearest = index.tree.leaves[torch.cdist(vectors, centres).argmin(1)]
    moved = tree.homes[:, 0] != nearest
    assert tree.homes.shape[1] == 1, "no votes, no copies"
    assert moved.float().mean() < 0.1, "only full leaves turn their items away"


def test_blocks_of_items_are_served_in_the_same_order(monkeypatch):
    index, vectors = grove()
    votes = chance(index.tree)
    one = overlap(index.tree, votes, vectors)
    monkeypatch.setattr(import_module("shortlist.index.jtr.overlap"), "BLOCK", 1)
    two = overlap(index.tree, votes, vectors)
    assert torch.equal(one.rows, two.rows)
    assert torch.equal(one.offsets, two.offsets)


def test_overlap_finds_more_of_the_best_at_the_same_beam():
    index, vectors = grove(400, branch=5, leaf=20)
    queries = vectors_of(300, seed=1)
    best = search(index, vectors, queries, 10, 10**6).items
    walked = torch.searchsorted(index.tree.leaves, reached(index, queries, 3))
    votes = sparse.csr_matrix((400, len(index.tree.leaves)), dtype=np.float32)
    for wanted in best.T:
        at = (wanted.repeat_interleave(3).numpy(), walked.flatten().numpy())
        votes = votes + sparse.csr_matrix((np.ones(900, np.float32), at), shape=votes.shape)

    def found(tree):
        return float(
            is_in(best, search(JTRIndex(tree, index.nodes), vectors, queries, 10, 3).items).float().mean()
        )

    plain = found(index.tree)
    shares = [found(overlap(index.tree, votes, vectors, copies)) for copies in (1, 2, 3)]
    assert plain < shares[0] < shares[1] <= shares[2] + 0.01
    assert shares[1] > 1.1 * shares[0]


def test_what_does_not_fit_is_refused():
    with pytest.raises(ConfigError, match="votes of 7 items for 3 leaves"):
        overlap(uneven(), votes_of([[1, 2]]), vectors_of(7))
    with pytest.raises(ConfigError, match="copies=0"):
        overlap(uneven(), chance(uneven()), vectors_of(7), copies=0)
