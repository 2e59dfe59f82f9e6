"""Beam search: exact with a full-width beam; a narrow beam returns the best items of its leaves, each once."""

import pytest
import torch

from shortlist.errors import ConfigError, DataError
from shortlist.index import search as exact
from shortlist.index.jtr import JTRIndex, descend, grow, lost_by_beam, reached, search
from tests.index.jtr.leaf_trees import grown, shared, uneven, vectors_of

SIZES = [(1, 10, 100), (60, 10, 100), (7, 10, 1), (150, 2, 1), (400, 10, 20), (400, 3, 11)]


def full_answers(vectors, queries, k, exclude=None):
    """Full sort of all scores."""
    scores = queries @ vectors.T
    if exclude is not None:
        for row, excluded in zip(scores, exclude.tolist(), strict=True):
            row[[item for item in excluded if 0 <= item < len(vectors)]] = -torch.inf
    scores, items = scores.sort(dim=1, descending=True, stable=True)
    items = items.masked_fill(scores == -torch.inf, -1)
    short = (0, max(k - items.shape[1], 0))
    pad = torch.nn.functional.pad
    return pad(items, short, value=-1)[:, :k], pad(scores, short, value=-torch.inf)[:, :k]


@pytest.mark.parametrize("copies", [1, 2, 3])
@pytest.mark.parametrize(("n", "branch", "leaf"), SIZES)
def test_full_width_beam_equals_exact_search(n, branch, leaf, copies):
    index, vectors = grown(n, branch, leaf)
    index = shared(index, vectors, copies)
    queries = vectors_of(30, seed=1)
    exclude = torch.randint(-1, n + 5, (30, 6), generator=torch.Generator().manual_seed(2))
    for excluded in (None, exclude):
        found = search(index, vectors, queries, 12, len(index.tree.leaves), excluded)
        items, scores = full_answers(vectors, queries, 12, excluded)
        assert torch.equal(found.items, items)
        torch.testing.assert_close(found.scores, scores)


def test_full_width_beam_equals_the_exact_index():
    index, vectors = grown()
    queries = vectors_of(30, seed=1)
    assert torch.equal(search(index, vectors, queries, 9, 10**6).items, exact(vectors, queries, 9)[0])


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_narrow_beam_returns_the_best_items_of_its_leaves_once(beam):
    index, vectors = grown()
    index = shared(index, vectors)
    tree, queries = index.tree, vectors_of(20, seed=3)
    leaves_reached = reached(index, queries, beam)
    found = search(index, vectors, queries, 8, beam)
    for leaves, query, items in zip(leaves_reached.tolist(), queries, found.items.tolist(), strict=True):
        held = {
            item
            for leaf in leaves
            for item in tree.rows[tree.offsets[leaf] : tree.offsets[leaf + 1]].tolist()
        }
        ranked = sorted(held, key=lambda item: -float(vectors[item] @ query))[:8]
        assert items == ranked + [-1] * (8 - len(ranked))


def test_a_beam_keeps_the_best_children_of_what_it_kept():
    index, _ = grown(300, 4, 5)
    query = vectors_of(1, seed=5)
    scores, front = (index.nodes @ query[0]).tolist(), [0]
    for kept in descend(index, query, 3):
        below = [child for node in front for child in index.tree.onward[node].tolist() if child >= 0]
        front = sorted(below, key=lambda node: -scores[node])[:3]
        assert kept[0].tolist() == front


def test_a_leaf_above_the_last_depth_keeps_competing():
    nodes = torch.tensor([[0.0], [2.0], [3.0], [1.0], [2.5]])
    index = JTRIndex(uneven(), nodes)
    query = torch.ones(1, 1)
    assert [nodes.tolist() for nodes in descend(index, query, 2)] == [[[2, 1]], [[4, 1]]]
    assert [nodes.tolist() for nodes in descend(index, query, 1)] == [[[2]], [[4]]]
    assert [nodes.tolist() for nodes in descend(index, -query, 1)] == [[[1]], [[1]]]


def test_ties_are_ordered_by_row():
    index = grow(vectors_of(50), 3, 4)
    found = search(index, torch.ones(50, 8), torch.ones(2, 8), 60, 100)
    assert found.items.tolist() == [[*range(50), *[-1] * 10]] * 2
    assert (found.scores[:, 50:] == -torch.inf).all()


def test_results_do_not_depend_on_the_batch_size(monkeypatch):
    index, vectors = grown()
    index = shared(index, vectors)
    queries = vectors_of(25, seed=7)
    whole = search(index, vectors, queries, 9, 3)
    monkeypatch.setattr("shortlist.index.jtr.beam.GATHERED", 1)
    alone = search(index, vectors, queries, 9, 3)
    assert torch.equal(whole.items, alone.items)
    torch.testing.assert_close(whole.scores, alone.scores)


def test_empty_batch_catalogue_or_candidates_give_empty_results():
    index, vectors = grown()
    assert search(index, vectors, torch.empty(0, 8), 5, 2).items.shape == (0, 5)
    empty = grow(torch.empty(0, 8))
    found = search(empty, torch.empty(0, 8), torch.ones(2, 8), 3, 1)
    assert found.items.tolist() == [[-1] * 3] * 2
    everything = torch.arange(200).expand(2, -1)
    assert (search(index, vectors, torch.ones(2, 8), 3, 99, everything).items == -1).all()


@pytest.mark.parametrize("arguments", [{"k": 0, "beam": 1}, {"k": 1, "beam": 0}], ids=str)
def test_k_and_beam_below_one_are_refused(arguments):
    index, vectors = grown()
    with pytest.raises(ConfigError, match="must be at least 1"):
        search(index, vectors, torch.ones(1, 8), **arguments)


def test_vectors_of_another_catalogue_are_refused():
    index, vectors = grown()
    with pytest.raises(DataError, match="expected vectors of 200 items"):
        search(index, vectors[1:], torch.ones(1, 8), 1, 1)
    with pytest.raises(DataError, match="each of width 8"):
        search(index, vectors, torch.ones(1, 7), 1, 1)


def test_a_wider_beam_loses_less_and_a_full_beam_nothing():
    index, vectors = grown()
    lost = [lost_by_beam(index, vectors, vectors_of(40, seed=1), 10, beam) for beam in (1, 3, 9, 10**6)]
    assert lost == sorted(lost, reverse=True)
    assert lost[0] > 0.3
    assert lost[-1] == 0


def test_lost_by_beam_counts_the_missed_items_of_the_exact_top_k():
    index = JTRIndex(uneven(), torch.tensor([[0.0], [2.0], [1.0], [1.0], [0.0]]))
    vectors, query = torch.arange(7.0)[:, None], torch.ones(1, 1)
    # The beam reaches the leaf of 0, 4 and 5; the exact top 4 are 6, 5, 4, 3.
    assert lost_by_beam(index, vectors, query, 4, 1) == pytest.approx(0.5)
    assert lost_by_beam(index, vectors, query, 4, 1, torch.tensor([[6, 3, 1, 2]])) == 0
