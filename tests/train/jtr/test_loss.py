"""PathLoss against hand-computed values, with several leaves per item and sampled negatives."""

import math
from dataclasses import replace

import pytest
import torch

from shortlist.train.jtr.loss import PathLoss, full_loss, level_of, sampled_loss
from tests.index.jtr.leaf_trees import grown, shared, uneven, vectors_of


def never(count, below):
    raise AssertionError("small depths are not sampled")


def always(count, below):
    return torch.arange(count) % below


def plain_loss(tree, queries, items, nodes):
    """Reference implementation: every positive node of every leaf of the item against all other nodes."""
    by_depth = []
    for depth in range(1, tree.height + 1):
        front, losses = tree.front(depth).tolist(), []
        for query, item in zip(queries, items.tolist(), strict=True):
            score = {node: float(nodes[node] @ query) for node in front}
            own = {int(tree.paths[leaf, depth]) for leaf in tree.homes[item].tolist() if leaf >= 0}
            others = sum(math.exp(score[node]) for node in front if node not in own)
            losses += [-math.log(math.exp(score[node]) / (math.exp(score[node]) + others)) for node in own]
        by_depth.append(sum(losses) / len(losses))
    return sum(by_depth) / len(by_depth)


def test_a_level_by_hand():
    first, second = (level_of(uneven(), depth) for depth in (1, 2))
    assert first.front.tolist() == [1, 2]
    assert first.positives.tolist() == [[0, -1], [1, -1], [1, -1], [1, -1], [0, -1], [1, 0], [1, -1]]
    assert second.front.tolist() == [1, 3, 4]
    assert second.positives[5].tolist() == [1, 0]
    assert second.position.tolist() == [-1, 0, -1, 1, 2, -1]


def test_a_node_above_two_leaves_of_an_item_is_positive_once():
    tree = replace(uneven(), leaf=8)
    items, leaves = torch.tensor([*range(7), 1]), torch.tensor([1, 3, 4, 3, 1, 3, 4, 4])
    level = level_of(tree.filled(items, leaves), 1)
    assert level.positives[1].tolist() == [1, -1]


@pytest.mark.parametrize("copies", [1, 3])
def test_the_loss_is_the_mean_over_depths_of_the_mean_over_positives(copies):
    index, vectors = grown(60, 3, 7)
    index = shared(index, vectors, copies)
    queries, items = vectors_of(15, seed=3), torch.arange(15) * 4
    loss = PathLoss(index.tree, negatives=100)(queries, items, index.nodes, never)
    assert float(loss) == pytest.approx(plain_loss(index.tree, queries, items, index.nodes), rel=1e-5)


def test_every_leaf_of_an_item_in_several_leaves_is_trained():
    """The published code trains only the last leaf of a document."""
    index, vectors = grown(60, 3, 7)
    index = shared(index, vectors, 2)
    tree, query = index.tree, torch.ones(1, 8)
    item = int((tree.homes >= 0).all(1).nonzero()[0])
    for negatives in (100, 2):
        nodes = index.nodes.clone().requires_grad_()
        PathLoss(tree, negatives, beam=2)(query, torch.tensor([item]), nodes, always).backward()
        pull = -(nodes.grad @ query[0])
        above = tree.paths[tree.homes[item]].flatten().unique()[1:]  # both paths without the root
        assert (pull[above] > 0).all()
        assert (pull[[node for node in range(1, tree.n_nodes) if node not in above.tolist()]] <= 0).all()


def test_sampling_every_node_once_equals_the_full_softmax():
    front, queries = vectors_of(30, seed=1), vectors_of(12, seed=2)
    positives = torch.stack([torch.arange(12), torch.arange(12) + 5]).T
    positives[::3, 1] = -1
    in_beam = torch.stack([torch.arange(12) + 1, torch.arange(12) + 5, torch.full((12,), -1)]).T
    random = torch.randperm(30, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        sampled_loss(queries, front, positives, in_beam, random), full_loss(queries, front, positives)
    )


def test_sampled_nodes_give_an_unbiased_partition_function():
    front, query = vectors_of(40, seed=1), vectors_of(1, seed=2)
    positives, in_beam = torch.tensor([[3]]), torch.tensor([[7, 3, 9]])
    own, full = query @ front[3], (query @ front.T).exp()
    generator = torch.Generator().manual_seed(0)
    random = torch.randint(0, 40, (4000, 10), generator=generator)
    losses = torch.stack([sampled_loss(query, front, positives, in_beam, one) for one in random])
    below = (losses + own).exp()  # the partition function
    assert float(below.mean()) == pytest.approx(float(full.sum()), rel=0.02)
    assert float(below.std()) > 0


def test_without_negatives_loss_and_gradient_are_zero():
    front = vectors_of(2).requires_grad_()
    loss = full_loss(vectors_of(1, seed=1), front, torch.tensor([[0, 1]]))
    loss.backward()
    assert loss.item() == 0
    assert front.grad.tolist() == torch.zeros(2, 8).tolist()
    sampled = sampled_loss(
        vectors_of(1), front, torch.tensor([[0, 1]]), torch.tensor([[1, 0]]), torch.tensor([0])
    )
    sampled.backward()
    assert sampled.item() == 0
    assert front.grad.isfinite().all()


def test_beams_do_not_depend_on_the_chunk_size(monkeypatch):
    index, _ = grown()
    paths, queries = PathLoss(index.tree, beam=3), vectors_of(9, seed=4)
    full = paths.beams(queries, index.nodes)
    monkeypatch.setattr("shortlist.train.jtr.loss.CHUNK", 1)
    for one, two in zip(full, paths.beams(queries, index.nodes), strict=True):
        assert torch.equal(one, two)


def test_better_node_embeddings_lower_the_loss():
    index, _ = grown(60, 3, 7)
    item = torch.tensor([11])
    path = index.tree.paths[index.tree.homes[11, 0]]
    query = vectors_of(1, seed=6)
    losses = []
    for push in (0.0, 0.5, 2.0):
        nodes = index.nodes.clone()
        nodes[path] += push * query[0]
        losses.append(float(PathLoss(index.tree, 100)(query, item, nodes, never)))
    assert losses[0] > losses[1] > losses[2]
