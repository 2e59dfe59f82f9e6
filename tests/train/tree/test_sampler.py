import math

import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.index.tree.shape import TreeShape
from shortlist.index.tree.tree import grow
from shortlist.train.tree.samplers.sampler import (
    AllSampler,
    SiblingSampler,
    UniformSampler,
    all_others,
    depth_aware,
    only_live,
    path,
)

SHAPE = TreeShape(100, 3)  # sizes 1, 2, 4, 12, 34, 100
LEVELS = (1, 2, 3, 4, 5)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def sample(sampler, leaves, seed=0, shape=SHAPE, levels=LEVELS):
    return sampler.sample(shape, levels, leaves, seeded(seed))


def check(sampled, leaves, shape=SHAPE, levels=LEVELS):
    """Invariants of every sample."""
    sizes = torch.tensor([shape.sizes[level] for level in levels])[:, None]
    assert torch.equal(sampled.nodes[:, :, 0], path(shape, levels, leaves))
    assert sampled.valid[:, :, 0].all()
    assert (sampled.logw[:, :, 0] == 0).all()
    assert (sampled.logw[~sampled.valid] == 0).all()
    assert ((sampled.nodes >= 0) & (sampled.nodes < sizes)).all()
    against = sampled.valid[:, :, 1:] & (sampled.nodes[:, :, 1:] == sampled.nodes[:, :, :1])
    assert not against.any()
    assert torch.equal(sampled.skip, sampled.valid.sum(2) == 1)
    assert sampled.nodes.dtype == torch.int64
    assert sampled.logw.dtype == torch.float32


def test_the_path_is_the_ancestors_of_the_leaf():
    leaves = torch.arange(100)
    expected = [[SHAPE.ancestor(leaf, level) for level in LEVELS] for leaf in range(100)]
    assert path(SHAPE, LEVELS, leaves).tolist() == expected
    assert path(SHAPE, LEVELS, leaves.int()).tolist() == expected


def test_all_takes_every_other_node_once_without_correction():
    leaves = torch.arange(100)
    sampled = sample(AllSampler(), leaves)
    check(sampled, leaves)
    for row, column in ((0, 0), (99, 2), (50, 4)):
        kept = sampled.nodes[row, column][sampled.valid[row, column]]
        assert sorted(kept.tolist()) == list(range(SHAPE.sizes[LEVELS[column]]))
    assert (sampled.logw == 0).all()


def test_all_others_can_be_padded_to_more_columns():
    sampled = all_others(SHAPE, (1, 2), torch.tensor([99]), columns=9)
    assert sampled.nodes.shape == (1, 2, 9)
    assert sampled.valid.sum(2).tolist() == [[2, 4]]
    check(sampled, torch.tensor([99]), levels=(1, 2))


def test_t19_uniform_never_returns_the_positive():
    leaves = torch.randint(0, 100, (2000,), generator=seeded(1))
    sampled = sample(UniformSampler(7), leaves)
    check(sampled, leaves)
    assert (sampled.nodes[:, 2:, 1:] != sampled.nodes[:, 2:, :1]).all()  # levels with more than 8 nodes


def test_uniform_takes_all_of_a_small_level_and_corrects_a_large_one():
    leaves = torch.tensor([0, 99])
    sampled = sample(UniformSampler(7), leaves)
    assert sampled.nodes.shape == (2, 5, 8)
    assert sampled.nodes[1, :2].tolist() == [[1, 0, 1, 1, 1, 1, 1, 1], [3, 0, 1, 2, 3, 3, 3, 3]]
    assert sampled.valid.sum(2).tolist() == [[2, 4, 8, 8, 8]] * 2
    expected = [0.0, 0.0, math.log(7 / 11), math.log(7 / 33), math.log(7 / 99)]
    assert torch.allclose(sampled.logw[0, :, 1], torch.tensor(expected))
    assert not sampled.skip.any()


def test_a_level_with_one_more_node_than_negatives_is_complete():
    sampled = sample(UniformSampler(11), torch.tensor([50]))
    assert sorted(sampled.nodes[0, 2].tolist()) == list(range(12))
    assert sampled.logw[0, 2].tolist() == [0.0] * 12


def test_uniform_can_sample_a_different_number_per_level():
    leaves = torch.tensor([3, 40])
    sampled = sample(UniformSampler((1, 2, 3, 4, 5)), leaves)
    check(sampled, leaves)
    assert sampled.valid.sum(2).tolist() == [[2, 3, 4, 5, 6]] * 2
    assert sampled.logw[0, 4, 1].item() == pytest.approx(math.log(5 / 99))


def test_t17_uniform_samples_every_other_node_equally_often():
    leaves = torch.full((20_000,), 17)
    sampled = sample(UniformSampler(5), leaves, seed=3, levels=(4, 5))
    for column, level in ((0, 4), (1, 5)):
        counts = torch.bincount(sampled.nodes[:, column, 1:].flatten(), minlength=SHAPE.sizes[level]).double()
        positive = SHAPE.ancestor(17, level)
        assert counts[positive] == 0
        others = torch.cat([counts[:positive], counts[positive + 1 :]])
        expected = 100_000 / len(others)
        chi = ((others - expected) ** 2 / expected).sum().item()
        free = len(others) - 1
        assert abs(chi - free) < 4 * math.sqrt(2 * free)


def test_t16_uniform_weights_give_an_unbiased_partition_function():
    scores = torch.randn(100, generator=seeded(5))
    sampled = sample(UniformSampler(6), torch.full((20_000,), 30), levels=(5,))
    found = (scores[sampled.nodes[:, 0, 1:]] - sampled.logw[:, 0, 1:]).exp().sum(1)
    expected = scores.exp().sum() - scores[30].exp()
    assert found.mean().item() == pytest.approx(expected.item(), rel=0.01)


def test_the_same_seed_samples_the_same_nodes():
    leaves = torch.arange(50)
    assert torch.equal(sample(UniformSampler(6), leaves, 4).nodes, sample(UniformSampler(6), leaves, 4).nodes)
    assert not torch.equal(
        sample(UniformSampler(6), leaves, 4).nodes, sample(UniformSampler(6), leaves, 5).nodes
    )


@pytest.mark.parametrize(("n", "branch"), [(100, 3), (7, 2), (64, 4), (10, 8)])
def test_siblings_are_the_other_children_of_the_parent(n, branch):
    shape = TreeShape(n, branch)
    levels = tuple(range(1, shape.height + 1))
    leaves = torch.arange(n)
    sampled = sample(SiblingSampler(), leaves, shape=shape, levels=levels)
    check(sampled, leaves, shape, levels)
    for leaf in range(n):
        for column, level in enumerate(levels):
            expected = shape.children(level - 1, shape.ancestor(leaf, level - 1))
            kept = sampled.nodes[leaf, column][sampled.valid[leaf, column]]
            assert sorted(kept.tolist()) == list(expected)
    assert (sampled.logw == 0).all()


def test_only_nodes_with_items_below_are_kept():
    tree = grow(torch.arange(40), 40, 3, spare=1.5)
    leaves = tree.leaves(torch.arange(40))
    sampled = only_live(sample(AllSampler(), leaves, shape=tree.shape, levels=(3, 4)), (3, 4), tree)
    check(sampled, leaves, tree.shape, (3, 4))
    for column, level in enumerate((3, 4)):
        expected = tree.live(level).nonzero()[:, 0].tolist()
        for user in (0, 17, 39):
            assert sorted(sampled.nodes[user, column][sampled.valid[user, column]].tolist()) == expected


def test_without_free_slots_the_partition_function_stays_unbiased():
    tree = grow(torch.arange(40), 40, 3, spare=1.5)
    level = tree.shape.height
    scores = torch.randn(tree.shape.n, generator=seeded(5))
    leaves = tree.leaves(torch.full((30_000,), 12))
    sampled = only_live(sample(UniformSampler(6), leaves, shape=tree.shape, levels=(level,)), (level,), tree)
    found = ((scores[sampled.nodes] - sampled.logw).exp() * sampled.valid)[:, 0, 1:].sum(1)
    expected = scores[tree.live(level)].exp().sum() - scores[leaves[0]].exp()
    assert found.mean().item() == pytest.approx(expected.item(), rel=0.02)


def test_a_tree_without_free_slots_changes_nothing():
    tree = grow(torch.arange(100), 100, 3)
    sampled = sample(UniformSampler(6), torch.arange(100))
    assert only_live(sampled, LEVELS, tree) is sampled


def test_depth_aware_without_emphasis_is_equal():
    assert depth_aware(70, range(1, 14), 0.0) == (70,) * 13


@pytest.mark.parametrize("alpha", [0.2, 0.4, 0.6, 0.8, 1.0, 30.0])
def test_depth_aware_keeps_the_budget_and_grows_with_depth(alpha):
    sizes = depth_aware(70, range(1, 14), alpha)
    assert sum(sizes) == 70 * 13
    assert list(sizes) == sorted(sizes)
    total = sum(1 + alpha * level for level in range(1, 14))
    for level, size in zip(range(1, 14), sizes, strict=True):
        assert abs(size - 70 * 13 * (1 + alpha * level) / total) < 1


def test_depth_aware_gives_every_level_at_least_one_negative():
    assert depth_aware(1, (1, 2, 20), 10.0) == (1, 1, 1)


def test_wrong_settings_are_refused():
    leaves = torch.tensor([0])
    for levels in ((), (0, 1), (2, 1), (1, 6)):
        with pytest.raises(ConfigError, match="ascending, from 1 to 5"):
            sample(AllSampler(), leaves, levels=levels)
    for negatives in (0, (1, 2), (1, 2, 0, 4, 5)):
        with pytest.raises(ConfigError, match="negatives must be"):
            sample(UniformSampler(negatives), leaves)
    with pytest.raises(ConfigError, match="alpha"):
        depth_aware(70, (1, 2), -1.0)
