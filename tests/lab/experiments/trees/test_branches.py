import pytest

from shortlist.index.tree import TreeShape
from shortlist.lab.experiments.trees.branches import (
    bounds_fig1,
    dtr_fig5,
    equal_beam,
    even_negatives,
    nodes_scored,
    total_negatives,
)
from tests.lab.experiments.results import check_result, ids, points


def test_negatives_of_all_levels_stay_the_same():
    binary = TreeShape(3706, 2)
    total = total_negatives(binary, 70)
    assert total == 1 + 3 + 7 + 14 + 28 + 57 + 6 * 70
    for branch in (4, 8, 16, 32):
        shape = TreeShape(3706, branch)
        assert total <= total_negatives(shape, even_negatives(shape, total)) < total + len(shape.sizes)


def test_a_small_tree_uses_all_negatives():
    assert even_negatives(TreeShape(5, 4), 100) == 4


def test_nodes_scored_with_the_papers_beam_match_a_count_by_hand():
    assert nodes_scored(TreeShape(3706, 2), 150) == 232 + 300 * 4
    assert (
        nodes_scored(TreeShape(3706, 32), 150) == 3706
    )  # the level above has 116 nodes: all leaves are scored


@pytest.mark.parametrize("branch", [2, 4, 8, 16, 32])
def test_the_equal_beam_is_the_widest_within_the_nodes_of_a_binary_tree(branch):
    nodes = nodes_scored(TreeShape(3706, 2), 150)
    shape = TreeShape(3706, branch)
    beam = equal_beam(shape, nodes)
    assert nodes_scored(shape, beam) <= nodes < nodes_scored(shape, beam + 1)


def test_figure_5_searches_every_tree_three_ways(cache_file, request):
    result = dtr_fig5(None, "quick", [0], cache_file=cache_file)
    check_result(result, "dtr-fig5")
    assert {
        "dtr-t rises with branches at equal beam on world",
        "dtr-t rises with branches at equal nodes on world",
        "dtr-u gains more than dtr-t-rl on world",
        "dtr-u loses something to the beam with 2 branches on world",
    } <= ids(result)
    for method in ("dtr-u", "dtr-t", "dtr-t-rl"):
        wide, even = (
            points(result, f"{method}, {arm} on world", "nodes scored")
            for arm in ("equal beam", "equal nodes")
        )
        assert even[8] <= even[2] + 2  # the last parent may have fewer children
        assert wide[8] > even[8]
    request.getfixturevalue("no_training")
    assert dtr_fig5(None, "quick", [0], cache_file=cache_file).rows == result.rows


def test_figure_1_compares_three_scorers(cache_file, request):
    result = bounds_fig1(None, "quick", [0], cache_file=cache_file)
    check_result(result, "bounds-fig1")
    assert result.rows[0].metric == "recall@20"
    for kind in ("linear", "mlp", "attention"):
        assert points(result, f"{kind}, all leaves on world", "leaves scored") == {2: 200.0, 8: 200.0}
        assert f"{kind} rises with branches at all leaves on world" in ids(result)
    request.getfixturevalue("no_training")
    assert bounds_fig1(None, "quick", [0], cache_file=cache_file).rows == result.rows
