from dataclasses import replace

import pytest
import torch

from shortlist.train.tree.instances import instances_of
from shortlist.train.tree.update import _rule, updated_tree
from shortlist.train.tree.update import dtr_update, jtm_update, tdm_update
from tests.train.tree.small import plan, small_index, walks

INSTANCES = instances_of(walks(40), 6, 2, "every", torch.device("cpu"))
ROWS = torch.arange(len(INSTANCES))


@pytest.mark.parametrize("method", ["dtr-t", "jtm", "tdm"])
def test_an_update_lays_the_same_items_at_other_leaves(method):
    index = small_index(40)
    after, report = updated_tree(plan(method), index, INSTANCES, 3)
    assert sorted(after.tree.item_of_leaf.tolist()) == list(range(40))
    assert after.tree.version == index.tree.version + 1
    assert after.scorer is index.scorer
    assert report.moved == pytest.approx(
        float((after.tree.item_of_leaf != index.tree.item_of_leaf).float().mean())
    )


@pytest.mark.parametrize(("word", "move"), [("dtr", dtr_update), ("jtm", jtm_update)])
def test_the_rule_is_the_plan_s(word, move):
    index = replace(small_index(40), first=3)
    told = plan(update=word, stride=2, cap=5, priority="regret", sticky=0.3, guard=False, beam=4)
    after, report = updated_tree(told, index, INSTANCES, 2**40 + 3)
    rule = _rule(told, index, 2**40 + 3)
    assert (rule.stride, rule.cap, rule.priority, rule.sticky, rule.guard) == (2, 5, "regret", 0.3, False)
    assert rule.improve
    assert not _rule(plan(update=word, improve=False), index, 0).improve
    assert rule.first == 3
    order, expected = move(index, INSTANCES.histories(ROWS), INSTANCES.labels(ROWS), rule)
    assert torch.equal(after.tree.item_of_leaf, order)
    assert report == expected


def test_clusters_of_leaf_vectors_need_no_instances():
    index = small_index(40, leaf_vectors="item")
    after, _ = updated_tree(plan("tdm"), index, INSTANCES.some(ROWS[:0]), 3)
    assert torch.equal(after.tree.item_of_leaf, tdm_update(index, 3)[0])


def test_the_guard_never_lets_the_likelihood_fall():
    report = updated_tree(plan(), small_index(40), INSTANCES, 0)[1]
    assert report.after >= report.before
