"""PathLoss: worked out by hand, every leaf of an item taught, drawn nodes that stand for the rest."""

import math
from dataclasses import replace

import pytest
import torch

from shortlist.train.jtr.loss import PathLoss, level_of, narrow_loss, whole_loss
from tests.index.jtr.groves import grove, shared, uneven, vectors_of


def never(count, below):
    raise AssertionError("small fronts need no draw")


def always(count, below):
    return torch.arange(count) % below


def plain_loss(tree, queries, items, nodes):
    """The slow, obvious way: every positive node of every leaf of the item against all that is not positive."""
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
    assert first.wanted.tolist() == [[0, -1], [1, -1], [1, -1], [1, -1], [0, -1], [1, 0], [1, -1]]
    assert second.front.tolist() == [1, 3, 4]
    assert second.wanted[5].tolist() == [1, 0]
    assert second.place.tolist() == [-1, 0, -1, 1, 2, -1]


def test_leaves_below_one_node_make_it_wanted_once():
    tree = replace(uneven(), leaf=8)
    items, leaves = torch.tensor([*range(7), 1]), torch.tensor([1, 3, 4, 3, 1, 3, 4, 4])
    level = level_of(tree.filled(items, leaves), 1)
    assert level.wanted[1].tolist() == [1, -1]


@pytest.mark.parametrize("copies", [1, 3])
def test_it_is_the_mean_over_depths_of_the_mean_over_positives(copies):
    index, vectors = grove(60, 3, 7)
    index = shared(index, vectors, copies)
    queries, items = vectors_of(15, seed=3), torch.arange(15) * 4
    loss = PathLoss(index.tree, negatives=100)(queries, items, index.nodes, never)
    assert float(loss) == pytest.approx(plain_loss(index.tree, queries, items, index.nodes), rel=1e-5)


def test_every_leaf_of_a_copied_item_is_taught():
    """The published code teaches only the last leaf of a document."""
    index, vectors = grove(60, 3, 7)
    index = shared(index, vectors, 2)
    tree, query = index.tree, torch.ones(1, 8)
    item = int((tree.homes >= 0).all(1).nonzero()[0])
    for negatives in (100, 2):
        nodes = index.nodes.clone().requires_grad_()
        PathLoss(tree, negatives, beam=2)(query, torch.tensor([item]), nodes, always).backward()
        drawn_to = -(nodes.grad @ query[0])
        above = tree.paths[tree.homes[item]].flatten().unique()[1:]  # both paths without the root
        assert (drawn_to[above] > 0).all()
        assert (drawn_to[[node for node in range(1, tree.n_nodes) if node not in above.tolist()]] <= 0).all()


def test_drawing_every_node_once_is_the_whole_softmax():
    front, queries = vectors_of(30, seed=1), vectors_of(12, seed=2)
    wanted = torch.stack([torch.arange(12), torch.arange(12) + 5]).T
    wanted[::3, 1] = -1
    taken = torch.stack([torch.arange(12) + 1, torch.arange(12) + 5, torch.full((12,), -1)]).T
    drawn = torch.randperm(30, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        narrow_loss(queries, front, wanted, taken, drawn), whole_loss(queries, front, wanted)
    )


def test_drawn_nodes_stand_for_the_rest_without_bias():
    front, query = vectors_of(40, seed=1), vectors_of(1, seed=2)
    wanted, taken = torch.tensor([[3]]), torch.tensor([[7, 3, 9]])
    own, whole = query @ front[3], (query @ front.T).exp()
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(0, 40, (4000, 10), generator=generator)
    losses = torch.stack([narrow_loss(query, front, wanted, taken, one) for one in drawn])
    below = (losses + own).exp()  # the sum below the fraction
    assert float(below.mean()) == pytest.approx(float(whole.sum()), rel=0.02)
    assert float(below.std()) > 0


def test_a_choice_without_rivals_costs_nothing_and_teaches_nothing():
    front = vectors_of(2).requires_grad_()
    loss = whole_loss(vectors_of(1, seed=1), front, torch.tensor([[0, 1]]))
    loss.backward()
    assert loss.item() == 0
    assert front.grad.tolist() == torch.zeros(2, 8).tolist()
    narrow = narrow_loss(
        vectors_of(1), front, torch.tensor([[0, 1]]), torch.tensor([[1, 0]]), torch.tensor([0])
    )
    narrow.backward()
    assert narrow.item() == 0
    assert front.grad.isfinite().all()


def test_beams_are_walked_in_parts_alike(monkeypatch):
    index, _ = grove()
    paths, queries = PathLoss(index.tree, beam=3), vectors_of(9, seed=4)
    whole = paths.beams(queries, index.nodes)
    monkeypatch.setattr("shortlist.train.jtr.loss.CHUNK", 1)
    for one, two in zip(whole, paths.beams(queries, index.nodes), strict=True):
        assert torch.equal(one, two)


def test_better_vectors_never_cost_more():
    index, _ = grove(60, 3, 7)
    item = torch.tensor([11])
    path = index.tree.paths[index.tree.homes[11, 0]]
    query = vectors_of(1, seed=6)
    losses = []
    for push in (0.0, 0.5, 2.0):
        nodes = index.nodes.clone()
        nodes[path] += push * query[0]
        losses.append(float(PathLoss(index.tree, 100)(query, item, nodes, never)))
    assert losses[0] > losses[1] > losses[2]
