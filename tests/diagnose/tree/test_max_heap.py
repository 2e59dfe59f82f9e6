import pytest
import torch

from shortlist.diagnose.tree.max_heap import (
    comparison_nodes,
    level_scores,
    order_violations,
    subtree_max,
    tree_sampler_kl,
    uniform_kl,
)
from shortlist.errors import DataError
from shortlist.index.tree import TreeIndex, search
from tests.diagnose.tree.small_trees import NOTHING, below, max_heap_index
from tests.index.tree.tabular import Rows, no_histories, random_rows

TREES = [(5, 13, 2, 0.0), (4, 30, 3, 0.0), (3, 10, 2, 0.5), (2, 1, 2, 0.0)]


def by_hand(values, peaks, best, others):
    """All pairs, one by one."""
    wrong = pairs = 0.0
    for value, peak in zip(values.tolist(), peaks.tolist(), strict=True):
        top = sorted(range(len(peak)), key=lambda node, peak=peak: -peak[node])[:best]
        for a in top:
            for b in others.tolist():
                if NOTHING in (peak[a], peak[b]) or peak[a] == peak[b]:
                    continue
                pairs += 1
                right, actual = peak[a] > peak[b], value[a] > value[b]
                wrong += 0.5 if value[a] == value[b] else float(right != actual)
    return wrong, pairs


@pytest.mark.parametrize(("users", "n", "branch", "spare"), TREES)
def test_level_scores_and_subtree_max_match_every_single_node(users, n, branch, spare):
    index = random_rows(users, n, branch, seed=3, spare=spare)
    shape, values = index.tree.shape, level_scores(index, no_histories(users))
    peaks = subtree_max(shape, values[-1])
    for level, size in enumerate(shape.sizes):
        for node in range(size):
            live = any(index.tree.item_of_leaf[leaf] >= 0 for leaf in below(shape, level, node))
            score = index.scorer.table[:, shape.offsets[level] + node]
            assert torch.equal(values[level][:, node], score if live else torch.full((users,), NOTHING))
            assert torch.equal(peaks[level][:, node], values[-1][:, below(shape, level, node)].amax(1))


def test_path_products_match_those_of_the_search():
    index = random_rows(4, 23, 3, seed=1, spare=0.3)
    values = level_scores(index, no_histories(4), product=True)
    beams = search(index, no_histories(4), 5, beam=99, path=True, trace=True).beams
    assert [beam.level for beam in beams] == [1, 2, 3, 4][: len(beams)]
    for beam in beams:
        expected = values[beam.level].gather(1, beam.nodes.clamp(min=0))
        assert torch.allclose(torch.where(beam.nodes >= 0, expected, NOTHING), beam.scores)


@pytest.mark.parametrize(("users", "n", "branch", "spare"), TREES)
@pytest.mark.parametrize("best", [1, 3, 99])
def test_order_violations_match_counting_one_by_one(users, n, branch, spare, best):
    index = random_rows(users, n, branch, seed=7, spare=spare)
    values = level_scores(index, no_histories(users))
    peaks = subtree_max(index.tree.shape, values[-1])
    for value, peak in zip(values, peaks, strict=True):
        others = comparison_nodes(value.shape[1], torch.Generator().manual_seed(0), most=6)
        counted = tuple(float(one) for one in order_violations(value, peak, best, others))
        assert counted == by_hand(value, peak, best, others)


def test_equal_scores_count_half_and_equal_leaves_do_not_count():
    values, peaks = torch.tensor([[1.0, 1.0, 0.0]]), torch.tensor([[3.0, 2.0, 2.0]])
    wrong, pairs = order_violations(values, peaks, best=1, others=torch.arange(3))
    assert (float(wrong), float(pairs)) == (0.5, 2.0)


@pytest.mark.parametrize("branch", [2, 3])
def test_max_heap_scores_have_no_violation(branch):
    index = max_heap_index(4, 30, branch, spare=0.2)
    values = level_scores(index, no_histories(4))
    for value, peak in zip(values, subtree_max(index.tree.shape, values[-1]), strict=True):
        assert float(order_violations(value, peak, 5, torch.arange(value.shape[1]))[0]) == 0


def test_comparison_nodes_are_sampled_without_replacement_in_order():
    sampled = comparison_nodes(1000, torch.Generator().manual_seed(0), most=100)
    assert len(sampled.unique()) == 100
    assert torch.equal(sampled, sampled.sort().values)


def test_kl_matches_enumerated_paths():
    index = random_rows(3, 10, 2, seed=2, spare=0.5)
    shape, values = index.tree.shape, level_scores(index, no_histories(3))
    found = tree_sampler_kl(shape, values, 1)
    for user in range(3):
        prob = {(1, node): p for node, p in enumerate(values[1][user].double().softmax(0).tolist())}
        for level in range(1, shape.height + 1):
            live = values[level][user] > NOTHING
            p = values[level][user].double().softmax(0)
            q = torch.tensor([prob[level, node] for node in range(shape.sizes[level])], dtype=torch.float64)
            assert float(q.sum()) == pytest.approx(1)
            expected = float((q[live] * (q[live] / p[live]).log()).sum())
            assert float(found[level][user]) == pytest.approx(expected, abs=1e-9)
            uniform = torch.full_like(p[live], 1 / int(live.sum()))
            expected = float((uniform * (uniform / p[live]).log()).sum())
            assert float(uniform_kl(values[level])[user]) == pytest.approx(expected)
            for node in range(shape.sizes[level]):
                children = list(shape.children(level, node))
                if children and live[node]:
                    probs = values[level + 1][user, children].double().softmax(0).tolist()
                else:
                    probs = [0.0] * len(children)
                prob |= {(level + 1, c): prob[level, node] * s for c, s in zip(children, probs, strict=True)}


def test_tree_based_sampling_of_additive_scores_is_the_model():
    index = random_rows(2, 16, seed=5)
    leaves = level_scores(index, no_histories(2))[-1].double()
    levels = [leaves]
    while levels[0].shape[1] > 1:
        levels.insert(0, levels[0].view(2, -1, 2).logsumexp(2))
    for found in tree_sampler_kl(index.tree.shape, tuple(levels), 1).values():
        assert torch.allclose(found, torch.zeros_like(found), atol=1e-12)


def test_a_nan_score_is_reported_with_level_and_user():
    index = random_rows(3, 8)
    table = index.scorer.table.clone()
    table[1, index.tree.shape.offsets[2]] = torch.nan
    with pytest.raises(DataError, match=r"level 2 .* user 1"):
        level_scores(TreeIndex(index.tree, Rows(table)), no_histories(3))
