import math
from itertools import product

import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.index.tree.shape import TreeShape
from shortlist.lab.theory.bounds_dtr import corollary1
from shortlist.train.tree.loss import sampled_softmax
from shortlist.train.tree.samplers.sampler import path
from shortlist.train.tree.samplers.tree_sampler import (
    Paths,
    TreeSampler,
    corrected,
    log_one_minus_exp,
    log_proposal,
    proposal_kl,
)
from tests.train.tree.test_sampler import check, seeded


def random_scores(shape, seed=0, users=1, spread=1.0):
    """Scores of all levels, level -> [users, N]."""
    generator = seeded(seed)
    return {
        level: spread * torch.randn(users, size, generator=generator, dtype=torch.float64)
        for level, size in enumerate(shape.sizes)
    }


def heaped(shape, leaves, join):
    """Scores of all levels where a parent's is made of its children's by `join`."""
    scores = {shape.height: leaves}
    for level in range(shape.height - 1, -1, -1):
        families = [scores[level + 1][:, list(shape.children(level, i))] for i in range(shape.sizes[level])]
        scores[level] = torch.stack([join(family) for family in families], 1)
    return scores


def summed(family):
    return family.logsumexp(1)


def largest(family):
    return family.amax(1)


def reader(scores):
    """The scores as a function of (level, nodes), the same for all users when there is but one row."""

    def score(level, nodes):
        return scores[level].expand(len(nodes), -1).gather(1, nodes)

    return score


def slow_proposal(shape, scores, first, level, node):
    """The probability of a node: softmax at `first`, then products of local softmaxes, one node at a time."""
    if level == first:
        return scores[level].softmax(1)[0, node].item()
    parent = node // shape.branch
    family = list(shape.children(level - 1, parent))
    local = scores[level][0, family].softmax(0)[family.index(node)].item()
    return local * slow_proposal(shape, scores, first, level - 1, parent)


SHAPES = [(16, 2), (37, 2), (50, 3), (65, 8), (11, 5)]


@pytest.mark.parametrize(("n", "branch"), SHAPES)
@pytest.mark.parametrize("mix", [0.0, 0.3])
def test_t13_the_probabilities_of_a_level_add_up_to_one(n, branch, mix):
    shape = TreeShape(n, branch)
    scores = random_scores(shape, seed=n, users=3, spread=3.0)
    for first in (0, 1):
        found = log_proposal(shape, scores, first, mix)
        assert sorted(found) == list(range(first, shape.height + 1))
        for logq in found.values():
            assert torch.allclose(logq.exp().sum(1), torch.ones(3, dtype=torch.float64), atol=1e-12)


@pytest.mark.parametrize(("n", "branch"), SHAPES)
def test_the_proposal_is_the_product_of_local_choices(n, branch):
    shape = TreeShape(n, branch)
    scores = random_scores(shape, seed=n)
    found = log_proposal(shape, scores, 1)
    for level in range(1, shape.height + 1):
        expected = [slow_proposal(shape, scores, 1, level, node) for node in range(shape.sizes[level])]
        assert found[level].exp()[0].tolist() == pytest.approx(expected)


def test_t13_the_figure_of_the_paper():
    shape = TreeShape(8, 2)
    scores = random_scores(shape)
    scores[1] = torch.tensor([[0.3, 0.7]]).log()
    scores[2][0, :2] = torch.tensor([0.6, 0.4]).log()
    scores[3][0, :2] = torch.tensor([0.2, 0.8]).log()
    found = log_proposal(shape, scores, 0)
    assert found[2][0, 0].exp().item() == pytest.approx(0.18)
    assert found[3][0, 1].exp().item() == pytest.approx(0.144)


@pytest.mark.parametrize(("n", "branch"), SHAPES)
def test_t14_additive_scores_make_the_proposal_the_softmax(n, branch):
    shape = TreeShape(n, branch)
    scores = heaped(shape, 2 * torch.randn(4, n, generator=seeded(n), dtype=torch.float64), summed)
    for first in (0, 1):
        for level, logq in log_proposal(shape, scores, first).items():
            assert (logq.exp() - scores[level].softmax(1)).abs().max() < 1e-15


@pytest.mark.parametrize("start", ["exact", "root"])
@pytest.mark.parametrize("mix", [0.0, 0.25])
@pytest.mark.parametrize(("n", "branch"), [(300, 2), (300, 3), (1000, 8), (129, 2)])
def test_every_sample_has_the_weight_of_the_proposal(n, branch, mix, start):
    shape = TreeShape(n, branch)
    levels = tuple(range(1, shape.height + 1))
    leaves = torch.randint(0, n, (40,), generator=seeded(2))
    leaves[0], leaves[1] = 0, n - 1
    scores = random_scores(shape, seed=n, users=40, spread=2.0)
    sampler = TreeSampler(9, start, mix)
    sampled = sampler.sample(shape, levels, leaves, seeded(3), reader(scores))
    check(sampled, leaves, shape, levels)
    logq = log_proposal(shape, scores, 0 if start == "root" else shape.start(10), mix)
    for column, level in enumerate(levels):
        nodes, valid = sampled.nodes[:, column], sampled.valid[:, column]
        if shape.sizes[level] <= 10:
            assert valid.sum(1).tolist() == [shape.sizes[level]] * 40
            assert (sampled.logw[:, column] == 0).all()
            continue
        q = logq[level].exp().gather(1, nodes)
        expected = (valid.sum(1, keepdim=True) - 1) * q / (1 - q[:, :1])
        assert torch.allclose(
            sampled.logw[:, column][valid].exp().double(),
            torch.where(torch.arange(valid.shape[1]) == 0, 1.0, expected)[valid],
            rtol=1e-4,
        )


def test_sampled_nodes_of_a_path_are_parent_and_child():
    shape = TreeShape(500, 3)
    levels = tuple(range(4, shape.height + 1))
    sampled = TreeSampler(20).sample(
        shape, levels, torch.arange(30), seeded(), reader(random_scores(shape, users=30))
    )
    for column in range(len(levels) - 1):
        assert torch.equal(sampled.nodes[:, column + 1] // 3, sampled.nodes[:, column])


def test_sampling_may_start_deeper_and_skip_levels():
    shape = TreeShape(400, 2)
    scores = random_scores(shape, seed=1)
    asked = []

    def score(level, nodes):
        asked.append((level, nodes.shape[1]))
        return reader(scores)(level, nodes)

    leaves = torch.arange(400)
    sampled = TreeSampler(5).sample(shape, (6, 9), leaves, seeded(), score)
    check(sampled, leaves, shape, (6, 9))
    assert asked == [(6, shape.sizes[6]), (7, 12), (8, 12), (9, 12)]  # 6 paths with 2 children each
    logq = log_proposal(shape, scores, 6)[9].expand(400, -1)
    q = logq.exp().gather(1, sampled.nodes[:, 1])
    expected = (sampled.valid[:, 1].sum(1, keepdim=True) - 1) * q / (1 - q[:, :1])
    assert torch.allclose(
        sampled.logw[:, 1, 1:].exp()[sampled.valid[:, 1, 1:]].double(),
        expected[:, 1:][sampled.valid[:, 1, 1:]],
        rtol=1e-4,
    )


def test_small_levels_are_scored_once_and_not_per_path():
    shape = TreeShape(64, 2)
    widths = []

    def score(level, nodes):
        widths.append((level, nodes.shape[1]))
        return torch.zeros(nodes.shape)

    TreeSampler(10, "root").sample(shape, (6,), torch.arange(5), seeded(), score)
    assert widths == [(1, 2), (2, 4), (3, 8), (4, 16), (5, 22), (6, 22)]


def test_small_trees_are_complete_without_scores():
    shape = TreeShape(20, 2)
    sampled = TreeSampler(70).sample(shape, (1, 5), torch.arange(20), seeded())
    assert sampled.valid.sum(2).tolist() == [[2, 20]] * 20


@pytest.mark.parametrize("mix", [0.0, 0.4])
@pytest.mark.parametrize("start", ["exact", "root"])
def test_t17_samples_are_as_frequent_as_their_probability(mix, start):
    shape = TreeShape(41, 3)  # sizes 1, 2, 5, 14, 41
    scores = random_scores(shape, seed=8)
    users = 20_000
    leaves = torch.full((users,), 40)
    sampler = TreeSampler(4, start, mix)
    sampled = sampler.sample(shape, (3, 4), leaves, seeded(5), reader(scores))
    logq = log_proposal(shape, scores, 0 if start == "root" else 3, mix)
    for column, level in ((0, 3), (1, 4)):
        counts = torch.bincount(sampled.nodes[:, column, 1:].flatten(), minlength=shape.sizes[level]).double()
        expected = logq[level][0].exp() * users * 4
        chi = ((counts - expected) ** 2 / expected).sum().item()
        free = shape.sizes[level] - 1
        assert abs(chi - free) < 4 * math.sqrt(2 * free)


def enumerated(shape, scores, first, level, positive, mix=0.0):
    """All pairs of sampled nodes of one level with their probabilities."""
    size = shape.sizes[level]
    pairs = torch.tensor(list(product(range(size), repeat=2)))  # [N * N, 2]
    nodes = torch.cat([torch.full((len(pairs), 1), positive), pairs], 1)[:, None]  # [N * N, 1, 3]
    tree = log_proposal(shape, scores, first)[level][0][nodes]
    flat = log_proposal(shape, {j: torch.zeros_like(s) for j, s in scores.items()}, first)[level][0][nodes]
    chance = log_proposal(shape, scores, first, mix)[level][0].exp()[pairs].prod(1)
    return Paths(nodes, tree, flat), chance


@pytest.mark.parametrize("mix", [0.0, 0.2, 0.9])
@pytest.mark.parametrize("positive", [0, 7, 12])
def test_t16_weights_give_an_unbiased_partition_function(mix, positive):
    shape = TreeShape(13, 3)
    scores = random_scores(shape, seed=4, spread=2.0)
    paths, chance = enumerated(shape, scores, 0, 3, positive, mix)
    leaf = scores[3][0]
    expected = leaf.exp().sum() - leaf[positive].exp()
    q = log_proposal(shape, scores, 0, mix)[3][0, positive].exp()
    for correction, factor in (("exact", 1.0), ("released", 1 / (1 - q))):  # finding 2: it counts too much
        sampled = corrected(paths, mix, correction)
        terms = (leaf[sampled.nodes] - sampled.logw).exp() * sampled.valid
        found = terms[:, 0, 1:].sum(1)
        kept = ~sampled.skip[:, 0]
        mean = (found * chance)[kept].sum() / chance[kept].sum()
        assert mean.item() == pytest.approx((factor * expected).item(), rel=1e-5)


@pytest.mark.parametrize("branch", [2, 3, 8])
def test_t15_additive_scores_give_the_full_loss_with_every_sample(branch):
    shape = TreeShape(200, branch)
    levels = tuple(range(1, shape.height + 1))
    leaf_scores = 2 * torch.randn(1, 200, generator=seeded(6), dtype=torch.float64)
    scores = heaped(shape, leaf_scores, summed)
    leaves = torch.full((500,), 117)
    sampled = TreeSampler(6).sample(shape, levels, leaves, seeded(7), reader(scores))
    for column, level in enumerate(levels):
        logits = scores[level][0][sampled.nodes[:, column]]
        found = sampled_softmax(
            logits[:, None],
            sampled.logw[:, column][:, None].double(),
            sampled.valid[:, column][:, None],
            reduction="none",
        )[:, 0]
        expected = -scores[level].log_softmax(1)[0, shape.ancestor(117, level)]
        there = ~sampled.skip[:, column]
        assert there.any()
        assert (found[there] - expected).abs().max() < 1e-5  # zero variance
        assert (found[~there] == 0).all()


def test_t15_the_released_correction_misses_the_full_loss():
    shape = TreeShape(16, 2)
    others = torch.rand(15, generator=seeded(1), dtype=torch.float64)
    chances = torch.cat([torch.tensor([0.153536]).double(), (1 - 0.153536) * others / others.sum()])
    scores = heaped(shape, chances.log()[None], summed)
    found = {}
    for correction in ("exact", "released"):
        sampled = TreeSampler(5, correction=correction).sample(
            shape, (4,), torch.zeros(100, dtype=torch.int64), seeded(), reader(scores)
        )
        losses = sampled_softmax(scores[4][0][sampled.nodes], sampled.logw, sampled.valid, reduction="none")[
            ~sampled.skip
        ]
        assert losses.std() < 1e-6
        found[correction] = losses.mean().item()
    assert found["exact"] == pytest.approx(1.8738, abs=1e-4)
    assert found["released"] == pytest.approx(2.0167, abs=1e-4)


def test_t15_the_mean_gradient_is_the_full_gradient():
    shape = TreeShape(9, 3)
    scores = heaped(shape, torch.randn(1, 9, generator=seeded(2), dtype=torch.float64), summed)
    paths, chance = enumerated(shape, scores, 0, 2, positive=4)
    sampled = corrected(paths, 0.0, "exact")
    leaf = scores[2][0].clone().requires_grad_()
    losses = sampled_softmax(leaf[sampled.nodes], sampled.logw.double(), sampled.valid, reduction="none")[
        :, 0
    ]
    kept = ~sampled.skip[:, 0]
    mean = (losses * chance)[kept].sum() / chance[kept].sum()
    found = torch.autograd.grad(mean, leaf)[0]
    expected = torch.autograd.grad(-leaf.log_softmax(0)[4], leaf)[0]
    assert torch.allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("branch", [2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_t18_max_heap_scores_keep_the_proposal_within_the_bound_of_corollary_1(seed, branch):
    """|log q - log p| <= (j - 1) log(1 / (1 - epsilon)), which a uniform proposal violates."""
    shape = TreeShape(32, branch)
    scores = heaped(shape, 8 * torch.randn(1, 32, generator=seeded(seed), dtype=torch.float64), largest)
    shares = [
        scores[level + 1][0, list(shape.children(level, node))].softmax(0).max().item()
        for level in range(1, shape.height)
        for node in range(shape.sizes[level])
    ]
    uniform_breaks_it = False
    for level, logq in log_proposal(shape, scores, 0).items():
        if level == 0:
            continue
        bound = corollary1(level, 1 - min(shares)).value
        logp = scores[level].log_softmax(1)
        assert (logq - logp).abs().max().item() <= bound + 1e-9
        assert proposal_kl(logq, scores[level]).item() <= bound + 1e-9
        uniform_breaks_it |= (-math.log(shape.sizes[level]) - logp).abs().max().item() > bound
    assert uniform_breaks_it


def test_kl_of_proposals_is_ordered_as_in_the_specification():
    shape = TreeShape(1024, 2)
    loose = random_scores(shape, seed=1, users=8)
    leaves = 1.5 * torch.randn(8, 1024, generator=seeded(2), dtype=torch.float64)
    heap = heaped(shape, leaves, largest)
    noise = seeded(3)  # one generator for all nodes: equal noise on a whole level would cancel in the softmax
    near = heaped(shape, leaves, lambda family: summed(family) + 0.3 * torch.randn(8, generator=noise))
    uniform_logq = torch.full((8, 1024), -math.log(1024), dtype=torch.float64)

    def distances(scores):
        proposals = (uniform_logq, log_proposal(shape, scores, 0)[10], log_proposal(shape, scores, 7)[10])
        return [proposal_kl(logq, scores[10]).mean().item() for logq in proposals]

    uniform, root, exact = distances(loose)  # untrained: uniform is nearest
    assert uniform == pytest.approx(0.50, abs=0.05)
    assert uniform < exact < root
    for scores in (heap, near):  # trained: beginning at an exact level is best
        uniform, root, exact = distances(scores)
        assert exact < root < uniform


def test_a_positive_with_probability_near_one_gives_finite_gradients():
    shape = TreeShape(64, 2)
    leaves = torch.arange(64)
    for lift in (20.0, 50.0, 500.0):
        scores = {j: torch.zeros(64, size) for j, size in enumerate(shape.sizes)}
        for level, table in scores.items():
            table.scatter_(1, shape.ancestor(leaves, level)[:, None], lift)
        sampled = TreeSampler(7).sample(shape, (4, 5, 6), leaves, seeded(), reader(scores))
        assert torch.isfinite(sampled.logw).all()
        assert sampled.skip.float().mean() > 0.9
        logits = torch.stack([reader(scores)(j, sampled.nodes[:, i]) for i, j in enumerate((4, 5, 6))], 1)
        logits.requires_grad_()
        loss = sampled_softmax(logits, sampled.logw, sampled.valid)
        loss.backward()
        assert torch.isfinite(logits.grad).all()
        assert 0 <= loss.item() < 1e-3


def test_a_negative_beside_a_certain_positive_has_a_finite_weight():
    nodes = torch.tensor([[[0, 1, 0]]])
    tree = torch.tensor([[[0.0, -60.0, 0.0]]], dtype=torch.float64)
    sampled = corrected(Paths(nodes, tree, tree), 0.0, "exact")
    assert sampled.logw.tolist() == [[[0.0, 0.0, 0.0]]]
    assert sampled.valid.tolist() == [[[True, True, False]]]


def test_a_mixture_bounds_the_weight_of_nodes_with_low_scores():
    shape = TreeShape(64, 2)
    scores = {j: torch.linspace(0, 60, size)[None] for j, size in enumerate(shape.sizes)}
    sampled = TreeSampler(8, mix=0.2).sample(shape, (6,), torch.full((300,), 60), seeded(), reader(scores))
    count = sampled.valid.sum(2, keepdim=True) - 1
    share = sampled.logw.exp()[sampled.valid] / count.expand_as(sampled.valid)[sampled.valid]
    assert (share >= 0.2 / 64 - 1e-7).all()


def test_log_one_minus_exp_is_exact_at_both_ends():
    x = torch.tensor([-1e-12, -0.1, -1.0, -40.0, 0.0], dtype=torch.float64)
    expected = [
        math.log(1e-12),
        math.log(-math.expm1(-0.1)),
        math.log1p(-math.exp(-1)),
        -math.exp(-40),
        -math.inf,
    ]
    assert log_one_minus_exp(x).tolist() == pytest.approx(expected, rel=1e-9)


def test_the_same_seed_samples_the_same_paths():
    shape = TreeShape(200, 2)
    score = reader(random_scores(shape))
    levels, leaves = (5, 6, 7, 8), torch.arange(100)
    sampler = TreeSampler(9, mix=0.1)
    first, again, other = (sampler.sample(shape, levels, leaves, seeded(s), score) for s in (1, 1, 2))
    assert torch.equal(first.nodes, again.nodes)
    assert torch.equal(first.logw, again.logw)
    assert not torch.equal(first.nodes, other.nodes)
    assert torch.equal(first.nodes[:, :, 0], path(shape, levels, leaves))


def test_wrong_settings_are_refused():
    for wrong in ({"negatives": 0}, {"mix": 1.0}, {"mix": -0.1}, {"start": "top"}, {"correction": "none"}):
        with pytest.raises(ConfigError, match="got"):
            TreeSampler(**wrong)
    with pytest.raises(ConfigError, match="needs scores"):
        TreeSampler(3).sample(TreeShape(64, 2), (6,), torch.tensor([0]), seeded())
