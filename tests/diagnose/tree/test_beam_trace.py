import pytest
import torch

from shortlist.diagnose.tree.beam_losses import SearchSettings
from shortlist.diagnose.tree.beam_trace import trace_beam
from tests.diagnose.tree.small_trees import catalog_of
from tests.index.tree.tabular import no_histories, rows_index


def small():
    """Eight leaves; the best of all, leaf 5, is below a node with a low score."""
    table = torch.tensor(
        [[0.0, 2.0, 1.0, 3.0, 2.0, 0.0, 1.0, 1.0, 2.0, 3.0, 4.0, 0.0, 9.0, 5.0, 6.0]]
    )  # root, 2, 4, 8
    return rows_index(table, 8)


def traced(relevant, beam=2):
    settings = SearchSettings(k=2, beam=beam)
    return trace_beam(small(), no_histories(1), torch.tensor([relevant]), settings, catalog_of(range(8)))


def test_a_trace_has_the_level_where_an_item_left_the_beam_and_the_threshold():
    trace = traced([5, 3, -1])
    assert [(level.level, level.nodes) for level in trace.levels] == [(1, (0, 1)), (2, (0, 1)), (3, (2, 3))]
    assert [level.scored for level in trace.levels] == [2, 4, 4]
    lost, returned = trace.paths
    assert (lost.item, lost.returned, lost.lost_at, lost.in_top_k) == (5, False, 2, True)
    node = lost.nodes[1]
    assert (node.node, node.score, node.rank, node.threshold) == (2, 0.0, 4, 2.0)
    assert [node.kept for node in lost.nodes] == [True, False, False]
    assert (returned.item, returned.returned, returned.lost_at, returned.in_top_k) == (3, True, None, False)
    assert [node.rank for node in returned.nodes] == [1, 2, 4]


def test_items_lost_by_the_beam_come_first_then_returned_ones():
    assert [path.item for path in traced([0, 3, 5]).paths] == [5, 3]


def test_paths_have_ids_and_titles_of_the_catalogue():
    (path,) = traced([5]).paths
    assert (path.item_id, path.title) == (5, "5")


def test_items_without_a_leaf_have_no_path():
    assert traced([99, -1]).paths == ()


@pytest.mark.parametrize("beam", [1, 8])
def test_a_level_keeps_at_most_beam_nodes(beam):
    assert all(len(level.nodes) == len(level.scores) <= beam for level in traced([5], beam).levels)
