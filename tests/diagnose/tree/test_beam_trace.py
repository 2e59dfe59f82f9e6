import pytest
import torch

from shortlist.diagnose.tree.beam_losses import SearchSettings
from shortlist.diagnose.tree.beam_trace import walk
from tests.index.tree.tabular import nobody, rows_index


def small():
    """Eight leaves; the best of all, leaf 5, lies below a node that nobody would keep."""
    table = torch.tensor(
        [[0.0, 2.0, 1.0, 3.0, 2.0, 0.0, 1.0, 1.0, 2.0, 3.0, 4.0, 0.0, 9.0, 5.0, 6.0]]
    )  # root, 2, 4, 8
    return rows_index(table, 8)


def test_a_walk_tells_where_an_item_left_the_beam_and_what_it_would_have_taken():
    told = walk(small(), nobody(1), torch.tensor([[5, 3, -1]]), SearchSettings(k=2, beam=2))
    assert [(step.level, step.nodes) for step in told.steps] == [(1, (0, 1)), (2, (0, 1)), (3, (2, 3))]
    assert [step.scored for step in told.steps] == [2, 4, 4]
    lost, found = told.trails
    assert (lost.item, lost.found, lost.lost_at, lost.among_best) == (5, False, 2, True)
    passing = lost.passings[1]
    assert (passing.node, passing.score, passing.rank, passing.needed) == (2, 0.0, 4, 2.0)
    assert [one.kept for one in lost.passings] == [True, False, False]
    assert (found.item, found.found, found.lost_at, found.among_best) == (3, True, None, False)
    assert [one.rank for one in found.passings] == [1, 2, 4]


def test_what_search_lost_comes_first_then_what_was_found():
    told = walk(small(), nobody(1), torch.tensor([[0, 3, 5]]), SearchSettings(k=2, beam=2))
    assert [trail.item for trail in told.trails] == [5, 3]


def test_items_without_a_leaf_have_no_trail():
    told = walk(small(), nobody(1), torch.tensor([[99, -1]]), SearchSettings(k=2, beam=2))
    assert told.trails == ()


@pytest.mark.parametrize("beam", [1, 8])
def test_kept_nodes_are_never_more_than_the_beam(beam):
    told = walk(small(), nobody(1), torch.tensor([[5]]), SearchSettings(k=2, beam=beam))
    assert all(len(step.nodes) == len(step.scores) <= beam for step in told.steps)
