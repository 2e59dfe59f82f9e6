"""Balanced k-means: exact sizes, and assignments compared with the optimum."""

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment

from shortlist.index.tree import TreeShape
from shortlist.index.tree import kmeans as module
from shortlist.index.tree.kmeans import (
    cluster,
    first_centres,
    improve,
    labels,
    means,
    objective,
    split,
    start,
    uniforms,
)

FACTOR = 0.99  # swaps reach at least this share of the best sum


def vectors(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.nn.functional.normalize(torch.randn(*shape, generator=generator), dim=-1)


def draws(groups, count, seed=0):
    return torch.from_numpy(uniforms(seed, np.arange(groups), count))


def optimum(cosines, child):
    """The optimal sum of cosines with exact sizes [s, C], by linear assignment with repeated columns."""
    columns = np.arange(len(cosines)) // child
    spread = cosines.double().numpy()[:, columns]
    rows, places = linear_sum_assignment(spread, maximize=True)
    return spread[rows, places].sum()


@pytest.mark.parametrize(("size", "child"), [(2, 1), (9, 8), (16, 8), (50, 32), (200, 128)])
def test_two_children_divide_their_items_optimally_for_given_centres(size, child):
    cosines = torch.randn(6, size, 2, generator=torch.Generator().manual_seed(size))
    at = improve(cosines, start(cosines, child), child)
    for group in range(6):
        best = optimum(cosines[group], child)
        assert objective(cosines, at, child)[group].item() == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("size", range(2, 12))
def test_i03_two_children_are_optimal_against_all_subsets(size):
    child = (size + 1) // 2
    cosines = torch.randn(1, size, 2, generator=torch.Generator().manual_seed(size))
    left, right = cosines[0].double().T
    subsets = itertools.combinations(range(size), child)
    best = max(left[list(some)].sum() + right.sum() - right[list(some)].sum() for some in subsets)
    at = improve(cosines, start(cosines, child), child)
    assert objective(cosines, at, child).item() == pytest.approx(float(best), abs=1e-6)


@pytest.mark.parametrize(("size", "child"), [(24, 8), (60, 16), (200, 25), (200, 32), (190, 10)])
def test_i04_swaps_end_near_the_optimal_assignment(size, child):
    count = -(-size // child)
    cosines = torch.rand(5, size, count, generator=torch.Generator().manual_seed(child))
    greedy = start(cosines, child)
    at = improve(cosines, greedy, child)
    before, after = objective(cosines, greedy, child), objective(cosines, at, child)
    for group in range(5):
        best = optimum(cosines[group], child)
        assert before[group] - 1e-6 <= after[group] <= best + 1e-4
        assert after[group] >= FACTOR * best


def test_no_swap_of_two_items_gains_after_improving():
    cosines = torch.rand(2, 40, 4, generator=torch.Generator().manual_seed(1))
    at = improve(cosines, start(cosines, 12), 12)
    label = labels(at, 12)
    for group, (i, j) in itertools.product(range(2), itertools.combinations(range(40), 2)):
        a, b = label[group, i], label[group, j]
        now = cosines[group, i, a] + cosines[group, j, b]
        assert cosines[group, i, b] + cosines[group, j, a] <= now + 1e-5


@pytest.mark.parametrize(("size", "child"), [(16, 8), (13, 4), (64, 8), (5, 4), (33, 32)])
def test_i03_children_have_exactly_their_capacity(size, child):
    x = vectors(3, size, 5)
    at = split(x, child, draws(3, -(-size // child)))
    assert torch.equal(at.sort(dim=1).values, torch.arange(size).expand(3, -1))
    sizes = labels(at, child)[0].bincount()
    assert sizes.tolist() == [child] * (size // child) + [size % child] * (size % child > 0)


@pytest.mark.parametrize("child", [8, 16, 32])
def test_no_round_lowers_the_objective(child):
    x = vectors(4, 64, 6)
    values = []
    for rounds in range(1, 8):
        at = split(x, child, draws(4, 64 // child), rounds)
        values.append(objective(x @ means(x, at, child).mT, at, child))
    for one, other in itertools.pairwise(values):
        assert bool((other >= one - 1e-4).all())
    centres = first_centres(x, draws(4, 64 // child))
    cosines = x @ centres.mT
    first = objective(cosines, start(cosines, child), child)
    assert bool((values[-1] >= first).all())


@pytest.mark.parametrize(("count", "each", "branch"), [(2, 8, 2), (4, 16, 4), (8, 8, 8), (4, 8, 2)])
def test_i05_planted_clusters_of_equal_size_are_recovered(count, each, branch):
    centres = torch.eye(count)
    generator = torch.Generator().manual_seed(3)
    x = centres.repeat_interleave(each, 0) + 0.05 * torch.randn(count * each, count, generator=generator)
    x = torch.nn.functional.normalize(x, dim=1)[torch.randperm(count * each, generator=generator)]
    order = cluster(x, TreeShape(count * each, branch), seed=0)
    found = x[order].argmax(1).view(count, each)
    assert bool((found == found[:, :1]).all())


@pytest.mark.parametrize("branch", [2, 3, 8])
def test_the_order_depends_on_the_seed_and_not_on_the_block_size(branch, monkeypatch):
    x = vectors(300, 8)
    shape = TreeShape(300, branch)
    one = cluster(x, shape, seed=5)
    assert torch.equal(cluster(x, shape, seed=5), one)
    assert not torch.equal(cluster(x, shape, seed=6), one)
    monkeypatch.setattr(module, "BLOCK", 1)
    assert torch.equal(cluster(x, shape, seed=5), one)


def test_identical_vectors_are_split():
    x = torch.ones(1, 3) / 3**0.5
    order = cluster(x.expand(37, -1), TreeShape(37, 3), seed=0)
    assert torch.equal(order.sort().values, torch.arange(37))


def test_initial_centres_are_distant_vectors_of_the_group():
    x = torch.eye(4).repeat_interleave(5, 0)[None]  # four directions, five of each
    for seed in range(10):
        centres = first_centres(x, draws(1, 4, seed))
        assert torch.equal(centres[0].sum(0), torch.ones(4))  # one of each


def test_uniform_numbers_depend_on_seed_row_and_column_alone():
    whole = uniforms(3, np.arange(1000), 4)
    assert np.array_equal(uniforms(3, np.arange(500, 600), 4), whole[500:600])
    assert np.array_equal(uniforms(3, np.arange(1000), 2), whole[:, :2])
    assert not np.array_equal(uniforms(4, np.arange(1000), 4), whole)
    assert (whole >= 0).all()
    assert (whole < 1).all()
    assert abs(whole.mean() - 0.5) < 0.02
    assert len(np.unique(whole)) == whole.size
    assert np.isfinite(uniforms(-1, np.arange(3), 2)).all()
