from shortlist.lab.experiments.trees.catalogs import untaught
from shortlist.lab.experiments.trees.table9 import dtr_table9, parts
from shortlist.train.tree.plan import plan_of
from tests.lab.experiments.shapes import check_shape, ids, points


def test_bytes_are_those_counted_by_hand():
    """Five items: 1 + 2 + 3 + 5 nodes of 24 numbers; two arrays of items, a mark for every node and level's end."""
    arrays, vectors = parts(untaught(plan_of("dtr-t"), 5, 0))
    assert vectors == (1 + 2 + 3 + 5) * 24 * 4
    assert arrays == 2 * 5 * 4 + (1 + 2 + 3 + 5) + 4


def test_more_branches_take_less():
    told = dtr_table9(None, "quick", [0])
    check_shape(told, "dtr-table9")
    held = points(told, "index", "bytes of an item, small")
    assert list(held) == [2, 4, 8, 16, 32]
    assert held[2] > held[4] > held[8] > held[32]
    assert all(one["holds"] for one in told["claims"])
    assert "tree methods take the same memory, small" in ids(told)


def test_full_sizes_keep_to_what_was_published():
    told = dtr_table9(None, "full", [0])
    assert {"MB of a tree index, movie", "MB of a tree index, tmall"} <= ids(told)
    assert all(one["holds"] for one in told["claims"])
