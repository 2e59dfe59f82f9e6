import json

import torch

from shortlist.index.tree import Tree, delete
from shortlist.lab.bench.tree_job import findable, large_index, life, main


def test_the_job_prints_its_measurements(capsys):
    main("300", "5", "1")
    measured = json.loads(capsys.readouterr().out)
    assert measured["same_answer"] == measured["survivors_found"] == 1
    assert measured["peak_bytes"] >= 0
    assert {f"{step}_seconds" for step in ("build", "save", "load", "search", "insert", "delete")} < set(
        measured
    )


def test_insertions_beyond_the_free_slots_rebalance_the_tree():
    assert life(200, 30, seed=0, branch=3, width=4)["survivors_found"] == 1


def test_deleted_items_are_not_findable():
    tree = delete(large_index(40, 2, seed=0, width=2), torch.arange(10)).tree
    assert findable(tree, torch.arange(40)) == 0.75
    assert findable(tree, torch.arange(10, 40)) == 1


def test_an_item_under_a_node_that_is_not_live_is_not_findable():
    tree = large_index(8, 2, seed=0, width=2).tree
    broken = Tree(tree.shape, tree.item_of_leaf, tree.n_items)
    broken.__dict__["reach"] = tuple(level.clone() for level in tree.reach)
    broken.reach[1][0] = False
    assert findable(broken, torch.arange(8)) == 0.5
