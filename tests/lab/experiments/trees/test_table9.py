from shortlist.lab.experiments.trees.catalogs import untrained
from shortlist.lab.experiments.trees.table9 import dtr_table9, parts
from shortlist.train.tree.plan import plan_of
from tests.lab.experiments.results import check_result, ids, points


def test_bytes_are_those_counted_by_hand():
    """Five items: 1 + 2 + 3 + 5 nodes of 24 numbers; two arrays of items, a mark for every node and level's end."""
    arrays, vectors = parts(untrained(plan_of("dtr-t"), 5, 0))
    assert vectors == (1 + 2 + 3 + 5) * 24 * 4
    assert arrays == 2 * 5 * 4 + (1 + 2 + 3 + 5) + 4


def test_more_branches_need_less_memory():
    result = dtr_table9(None, "quick", [0])
    check_result(result, "dtr-table9")
    sizes = points(result, "index", "bytes of an item, small")
    assert list(sizes) == [2, 4, 8, 16, 32]
    assert sizes[2] > sizes[4] > sizes[8] > sizes[32]
    assert all(one.holds for one in result.claims)
    assert "tree methods take the same memory, small" in ids(result)


def test_full_sizes_need_no_more_than_published():
    result = dtr_table9(None, "full", [0])
    assert {"MB of a tree index, movie", "MB of a tree index, tmall"} <= ids(result)
    assert all(one.holds for one in result.claims)
