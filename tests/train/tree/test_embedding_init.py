from dataclasses import replace

import pytest
import torch

from shortlist.data import Interactions
from shortlist.errors import ArtifactError
from shortlist.index.tree import TreeIndex, grow, n_rows
from shortlist.models.nodes import ScorerConfig, make_scorer
from shortlist.train.tree.embedding_init import init_embeddings, item_vectors, standardise
from tests.train.tree.small import cyclic_events, training, training_set


def index_of(n=40, width=4, branch=2, spare=0.0, **given):
    tree = grow(torch.randperm(n, generator=torch.Generator().manual_seed(1)), n, branch, spare)
    kind = given.pop("leaf_vectors", "item")
    config = ScorerConfig(
        n_rows(tree.shape, n, kind), n_items=n, kind="mlp", width=width, windows=(2, 1), **given
    )
    return TreeIndex(tree, make_scorer(config, 0), kind)


def test_items_of_the_same_users_start_with_similar_vectors():
    """Four groups of users cycle through a quarter of the items each."""
    vectors = torch.nn.functional.normalize(item_vectors(cyclic_events(), 6, 0), dim=1)
    like = vectors @ vectors.T
    quarter = torch.arange(40) // 10
    same = quarter[:, None] == quarter
    same.fill_diagonal_(False)
    assert like[same].mean() > like[~same].mean() + 0.5


def test_every_column_is_standardised():
    vectors = item_vectors(cyclic_events(), 6, 0)
    assert vectors.shape == (40, 6)
    torch.testing.assert_close(vectors.mean(0), torch.zeros(6), rtol=0, atol=1e-5)
    torch.testing.assert_close(vectors.square().mean(0), torch.ones(6), rtol=0, atol=1e-4)


def test_the_same_seed_gives_the_same_vectors():
    assert torch.equal(item_vectors(cyclic_events(), 6, 3), item_vectors(cyclic_events(), 6, 3))


def test_items_without_events_and_columns_beyond_the_rank_are_random():
    events = Interactions.of([0, 0, 1, 1], [0, 1, 1, 2], n_items=5)
    vectors = item_vectors(events, 8, 0)
    sampled = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(vectors[3:], sampled[3:])  # without events
    assert torch.equal(
        vectors[:, 1:], sampled[:, 1:]
    )  # two users give two directions, and the first is left out
    assert vectors.isfinite().all()


@pytest.mark.parametrize("n_items", [1, 3])
def test_without_events_all_vectors_are_random(n_items):
    none = Interactions.of([], [], n_items=n_items)
    assert item_vectors(none, 2, 0).shape == (n_items, 2)


@pytest.mark.parametrize("leaf_vectors", ["item", "slot"])
@pytest.mark.parametrize("spare", [0.0, 0.3])
def test_nodes_start_as_the_mean_of_the_items_below(leaf_vectors, spare):
    index = index_of(leaf_vectors=leaf_vectors, spare=spare)
    vectors = torch.randn(40, 4, generator=torch.Generator().manual_seed(5))
    init_embeddings(index, vectors, 0.5)
    shape, of = index.tree.shape, index.tree.item_of_leaf.tolist()
    for level in range(1, shape.height + 1):
        if shape.sizes[level] < 4:
            continue
        below = {}
        for leaf, item in enumerate(of):
            if item >= 0:
                below.setdefault(int(shape.ancestor(torch.tensor(leaf), level)), []).append(item)
        means = torch.stack([vectors[items].mean(0) for items in below.values()])
        found = index.scorer.nodes.weight[index.rows(level, torch.tensor(list(below)))]
        torch.testing.assert_close(found, 0.5 * standardise(means, found), rtol=1e-4, atol=1e-5)


def test_levels_with_few_nodes_keep_random_embeddings():
    index, plain = index_of(), index_of()
    init_embeddings(index, torch.randn(40, 4, generator=torch.Generator().manual_seed(5)), 0.5)
    few, many = index.level_rows(1), index.level_rows(3)
    assert torch.equal(index.scorer.nodes.weight[few], plain.scorer.nodes.weight[few])
    assert not torch.equal(index.scorer.nodes.weight[many], plain.scorer.nodes.weight[many])


def test_the_item_table_starts_with_the_item_vectors():
    index = index_of(history="item")
    vectors = torch.randn(40, 4, generator=torch.Generator().manual_seed(5))
    init_embeddings(index, vectors, 0.5)
    torch.testing.assert_close(index.scorer.items.weight, 0.5 * standardise(vectors, vectors))


def test_a_constant_column_is_taken_from_the_fallback():
    sampled = torch.tensor([[7.0, 8.0], [9.0, 10.0]])
    assert standardise(torch.tensor([[1.0, 2.0], [3.0, 2.0]]), sampled).tolist() == [[-1.0, 8.0], [1.0, 10.0]]
    assert standardise(torch.zeros(2, 2), sampled).tolist() == sampled.tolist()


def groups(n_items=36, users=60):
    """Three groups of users with the same items: the matrix has rank three."""
    pairs = [(user, item) for user in range(users) for item in range(user % 3, n_items, 3)]
    return Interactions.of(*zip(*pairs, strict=True), n_items=n_items)


def test_columns_beyond_the_rank_are_random_not_zero():
    """A linear scorer has zero gradient where both embeddings are zero."""
    vectors = item_vectors(groups(), 8, 0)
    sampled = torch.randn(36, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(vectors[:, 2:], sampled[:, 2:])
    assert not torch.equal(vectors[:, :2], sampled[:, :2])
    one = training(
        data=replace(training_set(), events=groups(), valid=None, categories=None), scorer="linear"
    )
    assert (one.state.index.scorer.nodes.weight.std(0) > 0.01).all()


def test_items_without_events_start_with_the_same_variance():
    few = cyclic_events(40)
    events = Interactions.of(few.users, few.items, n_items=400)
    vectors = item_vectors(events, 6, 0)
    torch.testing.assert_close(vectors[:40].square().mean(0), torch.ones(6), rtol=0, atol=1e-3)
    assert 0.8 < vectors[40:].std() < 1.2


def test_training_starts_from_pifa_unless_random_is_set():
    pifa, random = (training(embedding_init=name).state.index for name in ("pifa", "random"))
    assert not torch.equal(pifa.scorer.nodes.weight, random.scorer.nodes.weight)
    assert torch.equal(pifa.scorer.nodes.weight, index_weights(pifa))


def index_weights(index):
    """The node table of `init_embeddings` from the same seed."""
    other = TreeIndex(index.tree, make_scorer(index.scorer.config, 0), index.leaf_vectors, index.first)
    init_embeddings(
        other, item_vectors(training_set().events, index.scorer.config.width, 0), index.scorer.config.spread
    )
    return other.scorer.nodes.weight


def test_training_starts_from_given_weights():
    first = training()
    weights = {name: one.clone() for name, one in first.run().scorer.state_dict().items()}
    order = first.state.index.tree.item_of_leaf.long()
    second = training(data=training_set(weights=weights, order=order))
    assert torch.equal(second.state.index.scorer.nodes.weight, weights["nodes.weight"])


def test_weights_of_another_shape_are_refused():
    weights = training(width=4).state.index.scorer.state_dict()
    with pytest.raises(ArtifactError, match="do not fit the settings of the node scorer"):
        training(data=training_set(weights=weights))
