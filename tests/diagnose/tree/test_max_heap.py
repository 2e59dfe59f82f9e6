import pytest
import torch

from shortlist.diagnose.tree.max_heap import (
    against,
    level_scores,
    opponents,
    subtree_max,
    uniform_kl,
    tree_sampler_kl,
)
from shortlist.errors import DataError
from shortlist.index.tree import TreeIndex, search
from tests.diagnose.tree.small_trees import NOTHING, below, perfect_heap
from tests.index.tree.tabular import Rows, nobody, random_rows

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
                right, told = peak[a] > peak[b], value[a] > value[b]
                wrong += 0.5 if value[a] == value[b] else float(right != told)
    return wrong, pairs


@pytest.mark.parametrize(("users", "n", "branch", "spare"), TREES)
def test_values_and_peaks_are_those_of_every_node_taken_alone(users, n, branch, spare):
    index = random_rows(users, n, branch, seed=3, spare=spare)
    shape, values = index.tree.shape, level_scores(index, nobody(users))
    peaks = subtree_max(shape, values[-1])
    for level, size in enumerate(shape.sizes):
        for node in range(size):
            live = any(index.tree.item_of_leaf[leaf] >= 0 for leaf in below(shape, level, node))
            told = index.scorer.table[:, shape.offsets[level] + node]
            assert torch.equal(values[level][:, node], told if live else torch.full((users,), NOTHING))
            assert torch.equal(peaks[level][:, node], values[-1][:, below(shape, level, node)].amax(1))


def test_path_values_are_those_that_a_search_by_products_reports():
    index = random_rows(4, 23, 3, seed=1, spare=0.3)
    values = level_scores(index, nobody(4), product=True)
    beams = search(index, nobody(4), 5, beam=99, path=True, trace=True).beams
    assert [beam.level for beam in beams] == [1, 2, 3, 4][: len(beams)]
    for beam in beams:
        told = values[beam.level].gather(1, beam.nodes.clamp(min=0))
        assert torch.allclose(torch.where(beam.nodes >= 0, told, NOTHING), beam.scores)


@pytest.mark.parametrize(("users", "n", "branch", "spare"), TREES)
@pytest.mark.parametrize("best", [1, 3, 99])
def test_pairs_in_the_wrong_order_are_those_counted_one_by_one(users, n, branch, spare, best):
    index = random_rows(users, n, branch, seed=7, spare=spare)
    values = level_scores(index, nobody(users))
    peaks = subtree_max(index.tree.shape, values[-1])
    for value, peak in zip(values, peaks, strict=True):
        others = opponents(value.shape[1], torch.Generator().manual_seed(0), most=6)
        told = tuple(float(one) for one in against(value, peak, best, others))
        assert told == by_hand(value, peak, best, others)


def test_equal_values_are_half_wrong_and_equal_leaves_do_not_count():
    values, peaks = torch.tensor([[1.0, 1.0, 0.0]]), torch.tensor([[3.0, 2.0, 2.0]])
    wrong, pairs = against(values, peaks, best=1, others=torch.arange(3))
    assert (float(wrong), float(pairs)) == (0.5, 2.0)


@pytest.mark.parametrize("branch", [2, 3])
def test_a_perfect_heap_has_no_pair_in_the_wrong_order(branch):
    index = perfect_heap(4, 30, branch, spare=0.2)
    values = level_scores(index, nobody(4))
    for value, peak in zip(values, subtree_max(index.tree.shape, values[-1]), strict=True):
        assert float(against(value, peak, 5, torch.arange(value.shape[1]))[0]) == 0


def test_opponents_are_drawn_without_repeats_and_in_order():
    drawn = opponents(1000, torch.Generator().manual_seed(0), most=100)
    assert len(drawn.unique()) == 100
    assert torch.equal(drawn, drawn.sort().values)


def test_divergences_are_those_of_enumerated_walks():
    index = random_rows(3, 10, 2, seed=2, spare=0.5)
    shape, values = index.tree.shape, level_scores(index, nobody(3))
    found = tree_sampler_kl(shape, values, 1)
    for user in range(3):
        chance = {(1, node): p for node, p in enumerate(values[1][user].double().softmax(0).tolist())}
        for level in range(1, shape.height + 1):
            live = values[level][user] > NOTHING
            p = values[level][user].double().softmax(0)
            q = torch.tensor([chance[level, node] for node in range(shape.sizes[level])], dtype=torch.float64)
            assert float(q.sum()) == pytest.approx(1)
            expected = float((q[live] * (q[live] / p[live]).log()).sum())
            assert float(found[level][user]) == pytest.approx(expected, abs=1e-9)
            flat = torch.full_like(p[live], 1 / int(live.sum()))
            expected = float((flat * (flat / p[live]).log()).sum())
            assert float(uniform_kl(values[level])[user]) == pytest.approx(expected)
            for node in range(shape.sizes[level]):
                children = list(shape.children(level, node))
                if children and live[node]:
                    shares = values[level + 1][user, children].double().softmax(0).tolist()
                else:
                    shares = [0.0] * len(children)
                chance |= {
                    (level + 1, c): chance[level, node] * s for c, s in zip(children, shares, strict=True)
                }


def test_walking_down_sums_that_add_up_is_the_model_itself():
    index = random_rows(2, 16, seed=5)
    leaves = level_scores(index, nobody(2))[-1].double()
    levels = [leaves]
    while levels[0].shape[1] > 1:
        levels.insert(0, levels[0].view(2, -1, 2).logsumexp(2))
    for found in tree_sampler_kl(index.tree.shape, tuple(levels), 1).values():
        assert torch.allclose(found, torch.zeros_like(found), atol=1e-12)


def test_a_score_that_is_no_number_is_named_by_level_and_user():
    index = random_rows(3, 8)
    table = index.scorer.table.clone()
    table[1, index.tree.shape.offsets[2]] = torch.nan
    with pytest.raises(DataError, match=r"level 2 .* user 1"):
        level_scores(TreeIndex(index.tree, Rows(table)), nobody(3))
