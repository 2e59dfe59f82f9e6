import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from shortlist.index.tree import Tree, TreeIndex
from shortlist.train.tree.samplers.sampler import depth_aware, path
from shortlist.train.tree.step import TrainStep, _States, first_trained_level
from tests.train.tree.small import plan, small_index

USERS = 9


def batch(n, max_history=6, seed=3):
    """Histories [U, K] with padding in front, and labels [U]."""
    random = torch.Generator().manual_seed(seed)
    histories = torch.randint(0, n, (USERS, max_history), generator=random)
    lengths = torch.randint(0, max_history + 1, (USERS, 1), generator=random)
    histories = torch.where(torch.arange(max_history) >= max_history - lengths, histories, -1)
    return histories, torch.randint(0, n, (USERS,), generator=random)


def generator():
    return torch.Generator().manual_seed(5)


def by_hand(step, histories, labels, weight, cost):
    """A loss level by level, node by node, with the scorer that is easy to read."""
    index, total = step.index, []
    for at, level in enumerate(step.levels):
        size = index.tree.shape.sizes[level]
        rows = index.rows(level, torch.arange(size)).expand(len(labels), -1)
        scores = index.scorer.naive(index.history_rows(level, histories), rows)  # [U, N]
        positive = index.tree.shape.ancestor(index.tree.leaves(labels), level)
        total.append(cost(scores, positive) * weight[:, at])
    losses = torch.stack(total, 1)  # [U, L]
    return losses.sum(1).mean() if step.plan.reduction == "sum" else losses.mean()


def softmax_cost(scores, positive):
    return F.cross_entropy(scores, positive, reduction="none")


def binary_cost(scores, positive):
    expected = F.one_hot(positive, scores.shape[1]).float()
    return F.binary_cross_entropy_with_logits(scores, expected, reduction="none").sum(1)


def margin_cost(scores, positive):
    others = scores.scatter(1, positive[:, None], -torch.inf).amax(1)
    return F.relu(1 - (scores.gather(1, positive[:, None])[:, 0] - others))


COSTS = {"softmax": softmax_cost, "binary": binary_cost, "margin": margin_cost}
TREES = [
    {"n": 30, "branch": 2},
    {"n": 31, "branch": 5, "leaf_vectors": "item"},
    {"n": 30, "branch": 3, "history": "item"},
    {"n": 7, "branch": 10, "history": "item", "leaf_vectors": "item"},
    {"n": 30, "branch": 2, "kind": "mlp", "pool": "mean"},
    {"n": 30, "branch": 4, "kind": "linear"},
]


@pytest.mark.parametrize("given", TREES, ids=str)
@pytest.mark.parametrize("loss", COSTS)
@pytest.mark.parametrize("levels", ["all", "useful"])
def test_with_all_negatives_the_loss_equals_a_loop_over_levels(given, loss, levels):
    step = TrainStep(plan(sampler="all", loss=loss, levels=levels, beam=4), small_index(**given))
    histories, labels = batch(given["n"])
    weight = torch.rand(USERS, len(step.levels), generator=generator())
    found, skipped = step.loss(histories, labels, weight, generator())
    expected = by_hand(step, histories, labels, weight, COSTS[loss])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert skipped == 0
    assert found.requires_grad


def test_the_gradient_equals_that_of_the_loop():
    gradients = []
    histories, labels = batch(30)
    for fast in (True, False):
        step = TrainStep(plan(sampler="all", reduction="mean"), small_index())
        weight = torch.ones(USERS, len(step.levels))
        if fast:
            step.loss(histories, labels, weight, generator())[0].backward()
        else:
            by_hand(step, histories, labels, weight, softmax_cost).backward()
        gradients.append([one.grad for one in step.index.scorer.parameters()])
    for one, two in zip(*gradients, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("sampler", ["uniform", "tree"])
def test_the_mean_sampled_loss_is_close_to_the_full_loss(sampler):
    """With the exact correction the mean over many samples is close; the logarithm gives a small bias."""
    index = small_index(60)
    histories, labels = batch(60)
    full = TrainStep(plan(sampler="all"), index)
    weight = torch.ones(USERS, len(full.levels))
    expected = full.loss(histories, labels, weight, generator())[0].detach()
    step = TrainStep(plan(sampler=sampler, negatives=15, mix=0.2), index)
    with torch.no_grad():
        sampled = [
            step.loss(histories, labels, weight, torch.Generator().manual_seed(i))[0] for i in range(60)
        ]
    assert abs(float(torch.stack(sampled).mean() / expected) - 1) < 0.05


@pytest.mark.parametrize("method", ["dtr-u", "dtr-t", "jtm", "plt", "otm"])
@pytest.mark.parametrize("leaf_vectors", ["slot", "item"])
def test_nodes_not_sampled_get_no_gradient(method, leaf_vectors):
    index = small_index(60, branch=3, leaf_vectors=leaf_vectors, history="item")
    step = TrainStep(plan(method, history="item", leaf_vectors=leaf_vectors, beam=2, negatives=2), index)
    histories, labels = batch(60)
    step.loss(histories, labels, torch.ones(USERS, len(step.levels)), generator())[0].backward()
    leaves = index.tree.leaves(labels)
    sampled = step.sampler.sample(
        index.tree.shape,
        step.levels,
        leaves,
        generator(),
        lambda level, nodes: eval_scores(index, histories, level, nodes),
    )
    rows = step._rows(sampled.nodes)[sampled.valid].unique()
    touched = index.scorer.nodes.weight.grad.abs().sum(1).nonzero()[:, 0]
    assert 0 < len(touched) < index.scorer.config.n_rows
    assert set(touched.tolist()) <= set(rows.tolist())


def eval_scores(index, histories, level, nodes):
    with torch.no_grad():
        return index.scorer.score(index.state(histories, level), index.rows(level, nodes))


def test_zero_weights_and_targets_without_a_leaf_have_no_loss():
    whole = small_index(30)
    histories, labels = batch(30)
    gone = torch.where(whole.tree.item_of_leaf == labels[0], -1, whole.tree.item_of_leaf)
    index = TreeIndex(Tree(whole.tree.shape, gone, 30), whole.scorer)
    step = TrainStep(plan(sampler="all"), index)
    weight = torch.ones(USERS, len(step.levels))
    weight[1] = 0
    here = (labels != labels[0]) & (torch.arange(USERS) != 1)
    found = step.loss(histories, labels, weight, generator())[0]
    left = step.loss(histories[here], labels[here], weight[here], generator())[0]
    torch.testing.assert_close(found * USERS, left * here.sum())
    unknown = torch.full((USERS,), 99)
    assert step.loss(histories, unknown, weight, generator())[0] == 0


def test_free_slots_are_never_negatives():
    index = small_index(20, spare=0.5, history="item")
    step = TrainStep(plan(sampler="all", spare_leaves=0.5, history="item", levels="all"), index)
    histories, labels = batch(20)
    step.loss(histories, labels, torch.ones(USERS, len(step.levels)), generator())[0].backward()
    free = (index.tree.item_of_leaf < 0).nonzero()[:, 0] + index.tree.shape.offsets[-1]
    assert len(free) == 10
    assert (index.scorer.nodes.weight.grad[free] == 0).all()


@pytest.mark.parametrize("leaf_vectors", ["slot", "item"])
def test_free_slots_change_neither_model_targets_nor_the_beam(leaf_vectors):
    index = small_index(20, spare=0.5, leaf_vectors=leaf_vectors)
    histories, labels = batch(20)
    step = TrainStep(plan("otm", beam=3, levels="all", spare_leaves=0.5), index)
    weight = torch.ones(USERS, len(step.levels))
    before = step.loss(histories, labels, weight, generator())[0]
    bottom = index.tree.shape.height
    rows, row_of = torch.arange(index.tree.shape.n)[index.tree.item_of_leaf < 0], TreeIndex.rows

    def raised(self, level, nodes):  # free leaves get a row that no other node has
        found = row_of(self, level, nodes)
        return torch.where(torch.isin(nodes, rows), 0, found) if level == bottom else found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TreeIndex, "rows", raised)
        for lift in (-30.0, 30.0):
            with torch.no_grad():
                index.scorer.nodes.weight[0] = lift
            assert torch.equal(step.loss(histories, labels, weight, generator())[0], before)


def test_model_targets_are_one_where_the_path_has_the_best_score():
    index = small_index(16)
    step = TrainStep(plan("otm", beam=16, levels="all"), index)  # so wide a beam meets every node
    histories, labels = batch(16)
    shape, leaves = index.tree.shape, index.tree.leaves(labels)
    scores = [
        index.scorer.naive(
            index.history_rows(level, histories), index.level_rows(level).expand(USERS, -1)
        ).detach()
        for level in range(shape.height + 1)
    ]
    expected = []
    for user, leaf in enumerate(leaves.tolist()):
        wins, total = 1.0, 0.0
        for level in range(shape.height, 0, -1):
            node = leaf >> (shape.height - level)
            row = scores[level][user]
            shifted = row - math.log(len(row))  # logit of one among n nodes
            total += float(F.softplus(shifted).sum() - wins * shifted[node])
            wins *= float(row[node] >= row[node ^ 1])
        expected.append(total)
    found = step.loss(histories, labels, torch.ones(USERS, shape.height), generator())[0]
    torch.testing.assert_close(float(found.detach()), sum(expected) / USERS, rtol=1e-5, atol=1e-5)


def test_a_positive_that_beam_search_does_not_reach_is_not_trained():
    index = small_index(40)
    step = TrainStep(plan("otm", beam=2, levels="all"), index)
    histories, labels = batch(40)
    leaves = index.tree.leaves(labels)
    sampled = step._sample(leaves, _States(step, histories), generator())
    assert sampled.reached.any()
    assert not sampled.reached.all()
    assert (
        sampled.valid[..., 0] & (sampled.nodes[..., 0] == path(index.tree.shape, step.levels, leaves))
    ).all()
    for user in range(USERS):
        for at in range(len(step.levels)):
            there = sampled.nodes[user, at, 1:][~sampled.valid[user, at, 1:]].tolist()
            assert not sampled.reached[user, at] or sampled.nodes[user, at, 0] in there
    logits = torch.zeros(sampled.nodes.shape, requires_grad=True)
    step._loss(
        logits, sampled, torch.ones(sampled.reached.shape), leaves, _States(step, histories)
    ).backward()
    assert ((logits.grad[..., 0] != 0) == sampled.reached).all()
    assert (logits.grad[..., 1:][sampled.valid[..., 1:]] > 0).all()


def test_plt_loss_compares_siblings_only():
    index = small_index(27, branch=3)
    step = TrainStep(plan("plt", branch=3), index)
    histories, labels = batch(27)
    total = torch.zeros(USERS)
    for level in step.levels:
        positive = index.tree.shape.ancestor(index.tree.leaves(labels), level)
        family = positive[:, None] // 3 * 3 + torch.arange(3)
        scores = index.scorer.naive(index.history_rows(level, histories), index.rows(level, family))
        total = total + binary_cost(scores, positive % 3)
    found = step.loss(histories, labels, torch.ones(USERS, len(step.levels)), generator())[0]
    torch.testing.assert_close(found, total.mean(), rtol=1e-5, atol=1e-5)


def test_sampling_does_not_change_the_scorer():
    """The authors' code sampled negatives in training mode, which changed the running statistics."""
    index = small_index(60, norm="batch", output="bn_prelu", dropout=0.5)
    index.scorer.train()
    step = TrainStep(plan("dtr-t"), index)
    histories, labels = batch(60)
    step.loss(histories, labels, torch.ones(USERS, len(step.levels)), generator())
    assert index.scorer.training
    counts = [one for name, one in index.scorer.state_dict().items() if "num_batches" in name]
    assert counts
    assert all(count == 1 for count in counts)


def test_useful_levels_start_at_the_first_with_more_nodes_than_the_beam():
    index = small_index(60)
    assert index.tree.shape.sizes == (1, 2, 4, 8, 15, 30, 60)
    shape = index.tree.shape
    assert first_trained_level(plan(beam=10), shape) == 4
    assert first_trained_level(plan(beam=1000), shape) == 6
    assert first_trained_level(plan(beam=10, levels="all"), shape) == 1
    assert first_trained_level(plan(), small_index(1).tree.shape) == 1
    assert TrainStep(plan(), replace(index, first=4)).levels == (4, 5, 6)
    assert TrainStep(plan(), small_index(1)).levels == ()


def test_the_sampler_follows_the_plan():
    index = small_index(60)
    step = TrainStep(plan("dtr-u", alpha=0.5, negatives=8), index)
    assert step.sampler.negatives == depth_aware(8, step.levels, 0.5)
    assert TrainStep(plan("dtr-u", negatives=8), index).sampler.negatives == 8
    tree = TrainStep(plan("dtr-t", "released"), index).sampler
    assert (tree.start, tree.correction, tree.mix) == ("exact", "released", 0.0)
    assert TrainStep(plan("otm", beam=7), index).sampler.beam == 7


def test_top_k_hinge_uses_the_beam_as_k():
    step = TrainStep(plan(sampler="all", loss="hinge", beam=3, levels="all"), small_index(30))
    histories, labels = batch(30)

    def cost(scores, positive):
        own = scores.gather(1, positive[:, None])
        costs = 1 - F.one_hot(positive, scores.shape[1])
        return F.relu((costs + scores - own).topk(min(3, scores.shape[1])).values.mean(1))

    weight = torch.ones(USERS, len(step.levels))
    found = step.loss(histories, labels, weight, generator())[0]
    torch.testing.assert_close(found, by_hand(step, histories, labels, weight, cost), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("given", "width"), [({}, 6), ({"train_beam": 3}, 3)])
def test_train_beam_may_differ_from_the_search_beam(given, width):
    step = TrainStep(plan("otm", beam=6, **given), small_index(40))
    assert step.sampler.beam == width
    histories, labels = batch(40)
    sampled = step._sample(step.index.tree.leaves(labels), _States(step, histories), generator())
    assert sampled.reached[:, 0].all()  # the first trained level is complete
    assert (
        sampled.valid[:, 0, 1:].sum(1).tolist() == [step.index.tree.shape.sizes[step.levels[0]] - 1] * USERS
    )
