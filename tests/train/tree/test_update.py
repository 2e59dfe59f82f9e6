"""Tree updates: items are permuted, the guard never lowers the likelihood, and a reference implementation agrees."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import ConfigError, DataError
from shortlist.index.tree import TreeIndex, TreeShape, grow, n_rows
from shortlist.index.tree.assign import balanced_assign
from shortlist.models.nodes import ScorerConfig, make_scorer
from shortlist.train.tree.instances import instances_of
from shortlist.train.tree.updates import reassign
from shortlist.train.tree.updates.reassign import UpdateRule
from shortlist.train.tree.updates.update import dtr_update, jtm_update, tdm_update, update_rule, updated_tree
from tests.train.tree.small import cyclic_events, plan, small_index
from tests.train.tree.table_scores import (
    TableScorer,
    by_hand,
    likelihood,
    sigmoid_by_hand,
    softmax_by_hand,
    world,
)

worlds = st.fixed_dictionaries(
    {
        "n": st.integers(1, 30),
        "branch": st.integers(2, 5),
        "instances": st.integers(0, 50),
        "seed": st.integers(0, 1000),
        "spare": st.sampled_from([0.0, 0.3]),
        "leaf_vectors": st.sampled_from(["slot", "item"]),
    }
)
rules = st.fixed_dictionaries(
    {
        "stride": st.integers(1, 7),
        "instances_per_item": st.integers(1, 9),
        "priority": st.sampled_from(["count", "regret", "score"]),
        "stay_bonus": st.sampled_from([0.0, 0.5]),
        "guard": st.booleans(),
        "swaps": st.booleans(),
        "chunk": st.integers(1, 64),
    }
)


@given(worlds, rules, st.sampled_from([dtr_update, jtm_update]))
@settings(max_examples=150, deadline=None)
def test_t22_every_item_keeps_one_leaf_and_free_slots_stay_free(given_world, given_rule, learn):
    index, histories, labels = world(**given_world)
    leaves, report = learn(index, histories, labels, UpdateRule(**given_rule))
    old = index.tree.item_of_leaf
    assert torch.equal(leaves < 0, old < 0)
    assert torch.equal(leaves.sort().values, old.sort().values)
    index.tree.reassigned(leaves)  # which checks it all again
    assert report.moved == pytest.approx(float((leaves != old).sum() / (old >= 0).sum()))
    assert report.instances <= len(labels)
    if given_rule["guard"]:
        assert report.after >= report.before


@pytest.mark.parametrize("stride", [1, 2, 3, 7])
@pytest.mark.parametrize(
    ("n", "branch", "spare", "gone"), [(16, 2, 0.0, 0), (21, 2, 0.4, 3), (30, 3, 0.0, 0), (27, 4, 0.2, 5)]
)
def test_the_reference_implementation_gives_the_same_tree(stride, n, branch, spare, gone):
    index, histories, labels = world(n, branch, 80, seed=stride, spare=spare, gone=gone)
    rule = UpdateRule(stride=stride, guard=False, swaps=False, chunk=7)
    for learn, measure in ((dtr_update, softmax_by_hand), (jtm_update, sigmoid_by_hand)):
        leaves, report = learn(index, histories, labels, rule)
        expected, total = by_hand(index, histories, labels, stride, measure)
        assert leaves.tolist() == expected
        assert report.after == pytest.approx(total, rel=1e-5)
        assert report.unseen == sum(
            item >= 0 and item not in set(labels.tolist()) for item in index.tree.item_of_leaf.tolist()
        )


@pytest.mark.parametrize("seed", range(8))
def test_t24_the_guard_never_lowers_the_log_likelihood(seed):
    index, histories, labels = world(24, 2, 90, seed, spare=0.2)
    for _ in range(3):
        leaves, report = dtr_update(index, histories, labels, UpdateRule(stride=2, priority="score"))
        before, after = (
            likelihood(index, one, histories, labels, 2) for one in (index.tree.item_of_leaf, leaves)
        )
        assert report.before == pytest.approx(before, rel=1e-5)
        assert report.after == pytest.approx(after, rel=1e-5)
        assert after >= before - 1e-6
        index = TreeIndex(index.tree.reassigned(leaves), index.scorer)


def test_t24_guard_keeps_a_tree_that_would_get_worse():
    """At the best tree, assigning rare items first can only lose."""
    n = 16
    scores = torch.full((n, TreeShape(n).n_nodes), 0.0)
    leaves = TreeShape(n).offsets[-1] + torch.arange(n)
    scores[:, leaves[0]] = 3.0  # all score leaf 0 highest
    scores[torch.arange(n), leaves] += 1.0
    index = TreeIndex(grow(torch.arange(n), n), TableScorer(scores))
    labels = torch.cat([torch.arange(n), torch.zeros(30, dtype=torch.int64)])  # item 0 is the most popular
    rule = UpdateRule(stride=4, priority="score", swaps=False)
    unguarded, lost = dtr_update(index, labels[:, None], labels, replace(rule, guard=False))
    assert unguarded[0] != 0
    assert lost.after < lost.before
    leaves, report = dtr_update(index, labels[:, None], labels, rule)
    assert torch.equal(leaves, index.tree.item_of_leaf)
    assert (report.moved, report.kept_groups, report.after) == (0.0, 1, report.before)


def fitted(n=256, branch=16, seed=0, scale=3.0):
    """Scores as after training: an item's own path scores highest, with noise."""
    random = torch.Generator().manual_seed(seed)
    tree = grow(torch.randperm(n, generator=random), n, branch)
    table = torch.randn((n, tree.shape.n_nodes), generator=random)
    for level in range(1, tree.shape.height + 1):
        at = tree.shape.offsets[level] + tree.shape.ancestor(tree.leaves(torch.arange(n)), level)
        table[torch.arange(n), at] += scale
    counts = (30 * torch.rand(n, generator=random) ** 4).long() + 1
    return TreeIndex(tree, TableScorer(table)), torch.arange(n).repeat_interleave(counts)


@pytest.mark.parametrize("seed", range(4))
def test_t24_swaps_improve_a_tree_where_assignment_alone_cannot(seed):
    index, labels = fitted(seed=seed)
    rule = UpdateRule(stride=1)
    _, served = dtr_update(index, labels[:, None], labels, replace(rule, swaps=False, guard=False))
    leaves, report = dtr_update(index, labels[:, None], labels, rule)
    assert served.after < report.before < report.after
    assert report.moved < served.moved
    assert report.after == pytest.approx(likelihood(index, leaves, labels[:, None], labels, 1), rel=1e-5)


@given(worlds, rules, st.sampled_from([dtr_update, jtm_update]))
@settings(max_examples=100, deadline=None)
def test_t24_with_swaps_an_update_is_never_refused(given_world, given_rule, learn):
    index, histories, labels = world(**given_world)
    rule = UpdateRule(**{**given_rule, "guard": True, "swaps": True, "stay_bonus": 0.0})
    _, report = learn(index, histories, labels, rule)
    assert report.after >= report.before
    assert not report.refused


def test_items_that_stay_keep_their_leaves_and_others_take_the_free_ones():
    """Items 0 and 7 score higher in each other's half; all others stay."""
    n = 8
    table = torch.zeros((n, TreeShape(n).n_nodes))
    table[:, 1:3] = torch.tensor([[0.0, 9.0]] + [[9.0, 0.0]] * 3 + [[0.0, 9.0]] * 3 + [[9.0, 0.0]])
    index, labels = TreeIndex(grow(torch.arange(n), n), TableScorer(table)), torch.arange(n)
    leaves, report = dtr_update(index, labels[:, None], labels, UpdateRule(stride=1))
    assert leaves.tolist() == [7, 1, 2, 3, 4, 5, 6, 0]
    assert report.moved == 0.25
    assert report.tries == 1


def test_t24_the_whole_tree_stays_when_its_log_likelihood_would_be_lower():
    """Items 0 and 2 score a little higher in each other's half, but their best leaf there is taken."""
    table = torch.zeros((4, 7))  # rows: the root, 2 halves, 4 leaves
    table[:, 1:3] = torch.tensor([[0.0, 0.5], [9.0, 0.0], [0.5, 0.0], [0.0, 9.0]])
    table[:, 3:] = torch.tensor(
        [[9.0, 0.0, 0.0, 9.0], [0.0, 9.0, 0.0, 0.0], [0.0, 9.0, 9.0, 0.0], [0.0, 0.0, 0.0, 9.0]]
    )
    index, labels = TreeIndex(grow(torch.arange(4), 4), TableScorer(table)), torch.arange(4)
    rule = UpdateRule(stride=1, swaps=False)
    bold, worse = dtr_update(index, labels[:, None], labels, replace(rule, guard=False))
    assert worse.after < worse.before
    assert sorted(bold[:2].tolist()) == [1, 2]
    leaves, report = dtr_update(index, labels[:, None], labels, rule)
    assert report.refused
    assert report.proposed < report.before == report.after
    assert leaves.tolist() == [0, 1, 2, 3]
    assert report.moved == 0.0
    leaves, report = dtr_update(index, labels[:, None], labels, replace(rule, swaps=True))
    assert (report.refused, report.tries) == (
        False,
        1,
    )  # the cost of leaving is known beforehand
    assert report.proposed == report.before == report.after
    assert leaves.tolist() == [0, 1, 2, 3]


def test_t24_where_swaps_lose_later_only_the_lower_stage_is_swapped():
    """Items 0 and 4 lose nothing in their own half, much in the other; items 2 and 3 gain by a swap below."""
    n = 8
    tree = grow(torch.arange(n), n, 4)
    table = torch.zeros((n, tree.shape.n_nodes))
    table[:, 1:3] = torch.tensor([[9.0, 0.0]] * 4 + [[0.0, 9.0]] * 4)
    table[[0, 4], 1:3] = torch.tensor([[0.0, 0.5], [0.5, 0.0]])
    leaf = tree.shape.offsets[-1]
    table[torch.arange(n), leaf + torch.arange(n)] = 20.0
    table[0, leaf : leaf + 4] = table[4, leaf + 4 :] = 0.0
    table[0, leaf + 5] = table[4, leaf + 1] = 20.0
    table[2:4, leaf + 2 : leaf + 4] = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    index, labels = TreeIndex(tree, TableScorer(table)), torch.arange(n)
    leaves, report = dtr_update(index, labels[:, None], labels, UpdateRule(stride=1))
    assert report.proposed < report.before < report.after
    assert (report.refused, report.tries) == (False, 2)
    assert leaves.tolist() == [0, 1, 3, 2, 4, 5, 6, 7]


@pytest.mark.parametrize("n", [1, 2, 5, 12, 16])
def test_t25_one_stage_to_the_leaves_is_one_balanced_assignment(n):
    index, histories, labels = world(n, 2, 50, seed=n)
    leaves, _ = dtr_update(index, histories, labels, UpdateRule(stride=7, guard=False, swaps=False))
    first = index.tree.shape.offsets[-1]
    votes = index.scorer.table[histories[:, 0], first:].log_softmax(1)
    table = torch.zeros((n, n)).index_add_(0, index.tree.leaves(labels), votes).numpy()
    counts = np.bincount(index.tree.leaves(labels).numpy(), minlength=n)
    chosen = balanced_assign(table, np.ones(n, int), counts, seen=counts > 0)
    expected = torch.empty(n, dtype=torch.int32)
    expected[torch.from_numpy(chosen)] = index.tree.item_of_leaf
    assert torch.equal(leaves, expected)


def test_fig_2_of_the_paper_f_goes_to_node_5():
    """Items a..h, two levels and then one: b and c fill node 4, so f gets its second choice, node 5."""
    shape = TreeShape(8)
    table = torch.zeros((8, shape.n_nodes))
    second, third = shape.offsets[2], shape.offsets[3]
    for item, node in zip(range(8), [0, 1, 1, 0, 2, 1, 3, 3], strict=True):  # best node of each at level 2
        table[item, second + node] = 4.0
    table[5, second + 2] = 2.0
    for item, leaf in zip(range(8), [1, 3, 2, 0, 4, 5, 7, 6], strict=True):  # and best leaf
        table[item, third + leaf] = 1.0
    index = TreeIndex(grow(torch.tensor([5, 0, 7, 1, 2, 6, 4, 3]), 8), TableScorer(table))
    labels = torch.arange(8).repeat(3)[:-3]
    labels = labels[labels != 5]
    labels = torch.cat([labels, torch.tensor([5])])  # f is the least popular
    leaves, report = dtr_update(index, labels[:, None], labels, UpdateRule(stride=2))
    assert leaves.tolist() == [3, 0, 2, 1, 4, 5, 7, 6]  # d a | c b | e f | h g
    assert report.groups == 1 + 4
    assert not report.refused


def test_priority_count_gives_a_better_tree_than_the_published_rule():
    """The direction of the study behind finding 3: heavy-tailed counts, one softmax over 16 nodes."""
    gains = {"count": 0.0, "score": 0.0}
    for seed in range(5):
        random = np.random.default_rng(seed)
        n = 256
        counts = np.ceil(random.pareto(1.0, n) * 2).clip(1, 60).astype(int)
        labels = torch.from_numpy(np.repeat(np.arange(n), counts))
        index, _, _ = world(n, 16, 0, seed, users=n)
        for priority in gains:
            rule = UpdateRule(stride=1, instances_per_item=100, priority=priority, guard=False, swaps=False)
            _, report = dtr_update(index, labels[:, None], labels, rule)
            gains[priority] += (report.after - report.before) / abs(report.before)
    assert gains["count"] > 0
    assert gains["count"] > 1.3 * gains["score"]


def test_items_without_instances_keep_their_order():
    index, histories, labels = world(30, 2, 40, spare=0.2)
    for learn in (dtr_update, jtm_update):
        leaves, report = learn(index, histories[:0], labels[:0])
        assert torch.equal(leaves, index.tree.item_of_leaf)
        assert (report.moved, report.instances, report.unseen, report.refused) == (0.0, 0, 30, False)
    leaves, _ = dtr_update(index, histories, labels, UpdateRule(guard=False, swaps=False))
    unseen = sorted(set(range(30)) - set(labels.tolist()))
    old, new = (
        [item for item in one.tolist() if item in unseen] for one in (index.tree.item_of_leaf, leaves)
    )
    assert old == new


def test_a_single_item_stays_where_it_is():
    index, histories, labels = world(1, 2, 5)
    leaves, report = dtr_update(index, histories, labels)
    assert leaves.tolist() == [0]
    assert (report.moved, report.groups) == (0.0, 0)


def test_targets_without_a_leaf_do_not_change_an_update():
    index, histories, labels = world(20, 2, 60, gone=4)
    known = index.tree.leaves(labels) >= 0
    one = dtr_update(index, histories, labels)
    two = dtr_update(index, histories[known], labels[known])
    assert not known.all()
    assert torch.equal(one[0], two[0])
    assert one[1].instances == int(known.sum())


def test_the_same_seed_samples_the_same_instances():
    index, histories, labels = world(12, 2, 300, seed=3)
    rule = UpdateRule(instances_per_item=3, seed=5, guard=False)
    one, two = (dtr_update(index, histories, labels, rule) for _ in range(2))
    assert torch.equal(one[0], two[0])
    assert one[1] == two[1]
    others = [
        dtr_update(index, histories, labels, UpdateRule(instances_per_item=3, seed=seed, guard=False))
        for seed in range(6, 12)
    ]
    assert any(other[1].before != one[1].before for other in others)


@pytest.mark.parametrize("cells", [1, 20, 10_000])
def test_chunks_and_slices_do_not_change_an_update(monkeypatch, cells):
    index, histories, labels = world(40, 2, 200, spare=0.1)
    whole = dtr_update(index, histories, labels, UpdateRule(stride=2, guard=False))
    monkeypatch.setattr(reassign, "CELLS", cells)
    sliced = dtr_update(index, histories, labels, UpdateRule(stride=2, guard=False, chunk=3))
    assert torch.equal(whole[0], sliced[0])
    assert sliced[1].after == pytest.approx(whole[1].after, rel=1e-5)
    assert (sliced[1].groups, sliced[1].kept_groups) == (whole[1].groups, whole[1].kept_groups)


def test_histories_may_come_as_a_function_of_rows():
    index, histories, labels = world(20, 2, 60)
    one, two = (dtr_update(index, given, labels) for given in (histories, lambda rows: histories[rows]))
    assert torch.equal(one[0], two[0])
    with pytest.raises(DataError, match="expected a target per history, got 59 for 60"):
        dtr_update(index, histories, labels[:-1])


def test_a_large_stay_bonus_moves_fewer_items():
    index, histories, labels = world(32, 2, 200)
    loose, tight = (
        dtr_update(index, histories, labels, UpdateRule(stay_bonus=stay_bonus)) for stay_bonus in (0.0, 100.0)
    )
    assert loose[1].moved > 0.5
    assert tight[1].moved < loose[1].moved / 2


def test_with_item_embeddings_siblings_keep_their_order():
    index, histories, labels = world(24, 3, 100, leaf_vectors="item")
    leaves, report = dtr_update(index, histories, labels, UpdateRule(guard=False, swaps=False))
    assert report.moved > 0
    place = {item: at for at, item in enumerate(index.tree.item_of_leaf.tolist())}
    for start in range(0, 24, 3):
        family = [place[item] for item in leaves[start : start + 3].tolist()]
        assert family == sorted(family)


@pytest.mark.parametrize("kind", ["attention", "mlp", "linear"])
@pytest.mark.parametrize("history", ["ancestor", "item"])
def test_an_update_does_not_change_the_scorer(kind, history):
    n = 50
    tree = grow(torch.arange(n), n, 2, 0.1)
    config = ScorerConfig(
        tree.shape.n_nodes,
        n,
        kind,
        width=8,
        hidden=8,
        layers=(16, 8),
        windows=(2, 1),
        history=history,
        norm="batch",
        dropout=0.5,
    )
    scorer = make_scorer(config, 0)
    scorer.train()
    before = {name: one.clone() for name, one in scorer.state_dict().items()}
    index = TreeIndex(tree, scorer)
    random = torch.Generator().manual_seed(0)
    histories = torch.randint(-1, n, (300, 3), generator=random)
    labels = torch.randint(0, n, (300,), generator=random)
    for learn in (dtr_update, jtm_update):
        one, two = (learn(index, histories.int(), labels.int(), UpdateRule(stride=3)) for _ in range(2))
        assert torch.equal(one[0], two[0])
        assert one[1] == two[1]
        assert one[1].after >= one[1].before
        assert math.isfinite(one[1].after)
        assert not one[0].requires_grad
    assert scorer.training
    assert all(torch.equal(before[name], one) for name, one in scorer.state_dict().items())


@pytest.mark.parametrize("leaf_vectors", ["slot", "item"])
def test_tdm_clusters_items_with_similar_embeddings(leaf_vectors):
    n = 32
    tree = grow(torch.randperm(n, generator=torch.Generator().manual_seed(0)), n, 2, 0.25)
    scorer = make_scorer(ScorerConfig(n_rows(tree.shape, n, leaf_vectors), kind="linear", width=4), 0)
    index = TreeIndex(tree, scorer, leaf_vectors)
    kind = torch.arange(n) % 2
    with torch.no_grad():
        rows = index.rows(tree.shape.height, tree.leaves(torch.arange(n)))
        scorer.nodes.weight[rows] = 5.0 * kind[:, None] + 0.1 * torch.randn(
            (n, 4), generator=torch.Generator().manual_seed(1)
        )
    leaves, report = tdm_update(index, seed=0)
    assert torch.equal(leaves < 0, tree.item_of_leaf < 0)
    ordered = kind[leaves[leaves >= 0].long()]
    assert ordered[:16].unique().numel() == ordered[16:].unique().numel() == 1
    assert report.moved > 0
    assert report.before is report.after is None
    assert torch.equal(tdm_update(index, seed=0)[0], leaves)


def test_wrong_update_rules_are_refused():
    with pytest.raises(ConfigError, match="priority must be one of"):
        UpdateRule(priority="fame")
    with pytest.raises(ConfigError, match="stride, instances_per_item and chunk must be 1 or more"):
        UpdateRule(stride=0)


INSTANCES = instances_of(cyclic_events(40), 6, 2, "every", torch.device("cpu"))
ROWS = torch.arange(len(INSTANCES))


@pytest.mark.parametrize("method", ["dtr-t", "jtm", "tdm"])
def test_an_update_moves_the_same_items_to_other_leaves(method):
    index = small_index(40)
    after, report = updated_tree(plan(method), index, INSTANCES, 3)
    assert sorted(after.tree.item_of_leaf.tolist()) == list(range(40))
    assert after.tree.version == index.tree.version + 1
    assert after.scorer is index.scorer
    assert report.moved == pytest.approx(
        float((after.tree.item_of_leaf != index.tree.item_of_leaf).float().mean())
    )


@pytest.mark.parametrize(("name", "update"), [("dtr", dtr_update), ("jtm", jtm_update)])
def test_the_update_rule_follows_the_plan(name, update):
    index = replace(small_index(40), first=3)
    changed = plan(
        update=name, stride=2, instances_per_item=5, priority="regret", stay_bonus=0.3, guard=False, beam=4
    )
    after, report = updated_tree(changed, index, INSTANCES, 2**40 + 3)
    rule = update_rule(changed, index, 2**40 + 3)
    assert (rule.stride, rule.instances_per_item, rule.priority, rule.stay_bonus, rule.guard) == (
        2,
        5,
        "regret",
        0.3,
        False,
    )
    assert rule.swaps
    assert not update_rule(plan(update=name, swaps=False), index, 0).swaps
    assert rule.first == 3
    order, expected = update(index, INSTANCES.histories(ROWS), INSTANCES.targets(ROWS), rule)
    assert torch.equal(after.tree.item_of_leaf, order)
    assert report == expected


def test_tdm_update_needs_no_instances():
    index = small_index(40, leaf_vectors="item")
    after, _ = updated_tree(plan("tdm"), index, INSTANCES.take(ROWS[:0]), 3)
    assert torch.equal(after.tree.item_of_leaf, tdm_update(index, 3)[0])


def test_guarded_update_of_a_plan_never_lowers_the_likelihood():
    report = updated_tree(plan(), small_index(40), INSTANCES, 0)[1]
    assert report.after >= report.before


@pytest.mark.parametrize("learn", [dtr_update, jtm_update])
def test_instance_of_strength_two_counts_like_two_instances(learn):
    index, histories, labels = world(30, 3, 80)
    strengths = torch.randint(1, 4, (80,), generator=torch.Generator().manual_seed(0)).float()
    twice = torch.arange(80).repeat_interleave(strengths.long())
    rule = UpdateRule(instances_per_item=1000, priority="score")
    one, found = learn(index, histories, labels, rule, strengths)
    two, expected = learn(index, histories[twice], labels[twice], rule)
    assert torch.equal(one, two)
    assert found.before == pytest.approx(expected.before, rel=1e-5)
    assert found.after == pytest.approx(expected.after, rel=1e-5)
