"""Search: a beam as wide as the tree is exact search; a narrow one finds what its leaves hold, each item once."""

import pytest
import torch

from shortlist.errors import ConfigError, DataError
from shortlist.index import search as exact
from shortlist.index.jtr import JTRIndex, descend, grow, reached, search
from tests.index.jtr.groves import grove, shared, uneven, vectors_of

SIZES = [(1, 10, 100), (60, 10, 100), (7, 10, 1), (150, 2, 1), (400, 10, 20), (400, 3, 11)]


def full_answers(vectors, queries, k, exclude=None):
    """The slow, obvious way."""
    scores = queries @ vectors.T
    if exclude is not None:
        for row, met in zip(scores, exclude.tolist(), strict=True):
            row[[item for item in met if 0 <= item < len(vectors)]] = -torch.inf
    scores, items = scores.sort(dim=1, descending=True, stable=True)
    items = items.masked_fill(scores == -torch.inf, -1)
    short = (0, max(k - items.shape[1], 0))
    pad = torch.nn.functional.pad
    return pad(items, short, value=-1)[:, :k], pad(scores, short, value=-torch.inf)[:, :k]


@pytest.mark.parametrize("copies", [1, 2, 3])
@pytest.mark.parametrize(("n", "branch", "leaf"), SIZES)
def test_a_beam_as_wide_as_the_tree_finds_what_exact_search_finds(n, branch, leaf, copies):
    index, vectors = grove(n, branch, leaf)
    index = shared(index, vectors, copies)
    queries = vectors_of(30, seed=1)
    exclude = torch.randint(-1, n + 5, (30, 6), generator=torch.Generator().manual_seed(2))
    for left_out in (None, exclude):
        found = search(index, vectors, queries, 12, len(index.tree.leaves), left_out)
        items, scores = full_answers(vectors, queries, 12, left_out)
        assert torch.equal(found.items, items)
        torch.testing.assert_close(found.scores, scores)


def test_exact_search_of_this_library_agrees():
    index, vectors = grove()
    queries = vectors_of(30, seed=1)
    assert torch.equal(search(index, vectors, queries, 9, 10**6).items, exact(vectors, queries, 9)[0])


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_a_narrow_beam_names_the_best_items_of_its_leaves_each_once(beam):
    index, vectors = grove()
    index = shared(index, vectors)
    tree, queries = index.tree, vectors_of(20, seed=3)
    walked = reached(index, queries, beam)
    found = search(index, vectors, queries, 8, beam)
    for leaves, query, items in zip(walked.tolist(), queries, found.items.tolist(), strict=True):
        held = {
            item
            for leaf in leaves
            for item in tree.rows[tree.offsets[leaf] : tree.offsets[leaf + 1]].tolist()
        }
        ranked = sorted(held, key=lambda item: -float(vectors[item] @ query))[:8]
        assert items == ranked + [-1] * (8 - len(ranked))


def test_a_beam_keeps_the_best_children_of_what_it_kept():
    index, _ = grove(300, 4, 5)
    query = vectors_of(1, seed=5)
    scores, front = (index.nodes @ query[0]).tolist(), [0]
    for kept in descend(index, query, 3):
        below = [one for node in front for one in index.tree.onward[node].tolist() if one >= 0]
        front = sorted(below, key=lambda node: -scores[node])[:3]
        assert kept[0].tolist() == front


def test_a_leaf_that_is_reached_early_goes_on_competing():
    nodes = torch.tensor([[0.0], [2.0], [3.0], [1.0], [2.5]])
    index = JTRIndex(uneven(), nodes)
    query = torch.ones(1, 1)
    assert [one.tolist() for one in descend(index, query, 2)] == [[[2, 1]], [[4, 1]]]
    assert [one.tolist() for one in descend(index, query, 1)] == [[[2]], [[4]]]
    assert [one.tolist() for one in descend(index, -query, 1)] == [[[1]], [[1]]]


def test_equal_products_go_by_row():
    index = grow(vectors_of(50), 3, 4)
    found = search(index, torch.ones(50, 8), torch.ones(2, 8), 60, 100)
    assert found.items.tolist() == [[*range(50), *[-1] * 10]] * 2
    assert (found.scores[:, 50:] == -torch.inf).all()


def test_answers_do_not_depend_on_who_else_is_asked(monkeypatch):
    index, vectors = grove()
    index = shared(index, vectors)
    queries = vectors_of(25, seed=7)
    whole = search(index, vectors, queries, 9, 3)
    monkeypatch.setattr("shortlist.index.jtr.beam.NUMBERS", 1)
    alone = search(index, vectors, queries, 9, 3)
    assert torch.equal(whole.items, alone.items)
    torch.testing.assert_close(whole.scores, alone.scores)


def test_nothing_asked_and_nothing_held_are_answered_with_nothing():
    index, vectors = grove()
    assert search(index, vectors, torch.empty(0, 8), 5, 2).items.shape == (0, 5)
    empty = grow(torch.empty(0, 8))
    found = search(empty, torch.empty(0, 8), torch.ones(2, 8), 3, 1)
    assert found.items.tolist() == [[-1] * 3] * 2
    everything = torch.arange(200).expand(2, -1)
    assert (search(index, vectors, torch.ones(2, 8), 3, 99, everything).items == -1).all()


@pytest.mark.parametrize("given", [{"k": 0, "beam": 1}, {"k": 1, "beam": 0}], ids=str)
def test_asking_for_nothing_is_refused(given):
    index, vectors = grove()
    with pytest.raises(ConfigError, match="must be at least 1"):
        search(index, vectors, torch.ones(1, 8), **given)


def test_vectors_of_another_catalogue_are_refused():
    index, vectors = grove()
    with pytest.raises(DataError, match="expected vectors of 200 items"):
        search(index, vectors[1:], torch.ones(1, 8), 1, 1)
    with pytest.raises(DataError, match="each of width 8"):
        search(index, vectors, torch.ones(1, 7), 1, 1)
