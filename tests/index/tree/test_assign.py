import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from shortlist.errors import ConfigError, DataError
from shortlist.index.tree.assign import PRIORITIES, balanced_assign, priority_of


def by_hand(scores, capacity, priority):
    """Textbook deferred acceptance: all free items propose, every node keeps its best, until no item is free."""
    n, c = scores.shape
    ranks = np.broadcast_to(priority[:, None] if priority.ndim == 1 else priority, (n, c))
    wishes = [
        sorted((node for node in range(c) if capacity[node]), key=lambda node, i=i: (-scores[i, node], node))
        for i in range(n)
    ]
    held = {node: [] for node in range(c)}
    free = list(range(n))
    while free:
        for item in free:
            held[wishes[item].pop(0)].append(item)
        free = []
        for node, asking in held.items():
            asking.sort(key=lambda item, node=node: (-ranks[item, node], item))
            free += asking[capacity[node] :]
            held[node] = asking[: capacity[node]]
    chosen = np.empty(n, int)
    for node, items in held.items():
        chosen[items] = node
    return chosen


def blocking_pairs(scores, capacity, priority, chosen):
    """Blocking pairs: an item and a node that prefer each other to their assignment."""
    ranks = np.broadcast_to(priority[:, None] if priority.ndim == 1 else priority, scores.shape)
    pairs = []
    for item, here in enumerate(chosen):
        for node in np.flatnonzero(scores[item] > scores[item, here]):
            there = np.flatnonzero(chosen == node)
            liked_less = [one for one in there if (-ranks[one, node], one) > (-ranks[item, node], item)]
            if capacity[node] and (len(there) < capacity[node] or liked_less):
                pairs.append((item, int(node)))
    return pairs


def heavy_tailed(seed, items=384, nodes=16):
    """The study of finding 3: log-likelihoods summed over Pareto many instances per item."""
    random = np.random.default_rng(seed)
    counts = np.ceil(random.pareto(1.0, items) * 3).astype(int).clip(1, 2000)
    theme = random.normal(size=(items, nodes)) * 1.5
    logits = theme - np.log(np.exp(theme).sum(1, keepdims=True))
    return logits * counts[:, None], counts, np.full(nodes, items // nodes)


def total(scores, chosen):
    return scores[np.arange(len(scores)), chosen].sum()


def optimum(scores, capacity):
    rows, columns = linear_sum_assignment(-np.repeat(scores, capacity, axis=1))
    return total(scores, np.repeat(np.arange(len(capacity)), capacity)[columns[np.argsort(rows)]])


worlds = st.tuples(
    st.integers(0, 2**31), st.integers(1, 30), st.integers(1, 6), st.integers(0, 5), st.booleans()
)


def draw(world):
    """Scores with many ties, capacities with free places, priorities per item or per item and node."""
    seed, n, c, spare, per_node = world
    random = np.random.default_rng(seed)
    capacity = np.bincount(random.integers(0, c, n + spare), minlength=c)
    scores = random.integers(-5, 5, (n, c)).astype(np.float32)
    priority = random.integers(0, 4, (n, c) if per_node else n)
    return scores, capacity, priority


@given(worlds)
@settings(max_examples=200, deadline=None)
def test_t22_t23_every_item_is_assigned_within_capacity_without_blocking_pairs(world):
    scores, capacity, priority = draw(world)
    chosen = balanced_assign(scores, capacity, priority)
    assert (np.bincount(chosen, minlength=len(capacity)) <= capacity).all()
    assert blocking_pairs(scores, capacity, priority, chosen) == []
    np.testing.assert_array_equal(chosen, by_hand(scores, capacity, priority))


@given(worlds, st.integers(1, 5))
@settings(max_examples=100, deadline=None)
def test_groups_are_independent(world, groups):
    scores, _, priority = draw(world)
    random = np.random.default_rng(world[0])
    group = random.integers(0, groups, len(scores))
    capacity = random.integers(0, 3, (groups, scores.shape[1]))
    capacity[:, -1] += np.bincount(group, minlength=groups)  # room for all
    seen = random.random(len(scores)) < 0.8
    together = balanced_assign(scores, capacity, priority, group, seen)
    for one in range(groups):
        mine = group == one
        alone = balanced_assign(scores[mine], capacity[one], priority[mine], seen=seen[mine])
        np.testing.assert_array_equal(together[mine], alone)


def test_one_priority_per_item_equals_serial_choice():
    scores, counts, capacity = heavy_tailed(0)
    wide = np.repeat(counts[:, None], len(capacity), axis=1)
    np.testing.assert_array_equal(
        balanced_assign(scores, capacity, counts), balanced_assign(scores, capacity, wide)
    )


def test_ties_of_scores_go_to_the_lower_candidate_and_of_priorities_to_the_lower_row():
    assert balanced_assign(np.zeros((4, 2)), np.array([2, 2]), np.ones(4)).tolist() == [0, 0, 1, 1]
    assert balanced_assign(np.zeros((4, 2)), np.array([2, 2]), np.ones((4, 2))).tolist() == [0, 0, 1, 1]


def test_unseen_items_fill_the_remaining_places_in_order():
    scores = np.array([[0.0, 9.0, 0.0]] * 5)
    seen = np.array([False, True, False, True, False])
    for priority in (np.ones(5), np.ones((5, 3))):
        chosen = balanced_assign(scores, np.array([2, 2, 1]), priority, seen=seen)
        assert chosen.tolist() == [0, 1, 0, 1, 2]


def test_fig_2_of_the_paper_f_gets_its_second_choice():
    """Items a..h, four nodes of two: b and c hold node 4 (candidate 1), f prefers it too and gets node 5."""
    wish = {"a": 0, "b": 1, "c": 1, "d": 0, "e": 2, "f": 1, "g": 3, "h": 3}
    scores = np.full((8, 4), -5.0)
    scores[range(8), list(wish.values())] = -1.0
    scores[5, 2] = -2.0
    counts = np.array([3, 5, 4, 3, 3, 2, 3, 3])  # f is the rarest
    chosen = balanced_assign(scores, np.full(4, 2), counts)
    assert chosen.tolist() == [0, 1, 1, 0, 2, 2, 3, 3]


@pytest.mark.parametrize("seed", range(3))
def test_t24_no_rule_beats_the_optimum_and_popular_first_is_close(seed):
    scores, counts, capacity = heavy_tailed(seed, items=192, nodes=8)
    best = optimum(scores, capacity)
    for kind in PRIORITIES:
        found = total(scores, balanced_assign(scores, capacity, priority_of(kind, scores, counts, capacity)))
        assert found <= best + 1e-6 * abs(best)
    popular = total(scores, balanced_assign(scores, capacity, counts))
    assert popular >= best - 0.10 * abs(best)


def test_t24_popular_first_beats_any_order_and_the_published_rule():
    gaps = {"count": [], "regret": [], "score": [], "greedy": []}
    for seed in range(10):
        scores, counts, capacity = heavy_tailed(seed)
        best = optimum(scores, capacity)
        rules = {kind: priority_of(kind, scores, counts, capacity) for kind in PRIORITIES}
        rules["greedy"] = np.random.default_rng(seed).random(len(scores))
        for kind, priority in rules.items():
            gaps[kind].append((best - total(scores, balanced_assign(scores, capacity, priority))) / abs(best))
    mean = {kind: float(np.mean(one)) for kind, one in gaps.items()}
    assert mean["count"] < 0.06
    assert mean["regret"] < 0.12
    assert mean["count"] < mean["greedy"] < mean["score"]
    assert mean["score"] > 5 * mean["count"]


def test_regret_and_score_use_existing_candidates_only():
    scores = np.array([[3.0, 1.0, 9.0], [2.0, 2.0, 9.0]])
    capacity = np.array([1, 1, 0])
    assert priority_of("regret", scores, np.ones(2), capacity).tolist() == [2.0, 0.0]
    assert priority_of("score", scores, np.ones(2), capacity).tolist() == [3.0, 2.0]
    assert priority_of("regret", scores[:, :1], np.ones(2), capacity[:1]).tolist() == [0.0, 0.0]


def test_an_empty_assignment_is_valid():
    assert balanced_assign(np.empty((0, 3)), np.ones(3, int), np.empty(0)).tolist() == []


def test_invalid_assignments_are_refused():
    scores = np.zeros((3, 2), np.float32)
    with pytest.raises(DataError, match="group 0 has 1 more items than capacity"):
        balanced_assign(scores, np.array([1, 1]), np.ones(3))
    with pytest.raises(DataError, match="has the model diverged"):
        balanced_assign(scores * np.nan, np.array([2, 1]), np.ones(3))
    with pytest.raises(DataError, match="groups must lie in"):
        balanced_assign(scores, np.array([2, 1]), np.ones(3), np.array([0, 0, 1]))
    with pytest.raises(DataError, match="capacity must be"):
        balanced_assign(scores, np.array([3]), np.ones(3))
    with pytest.raises(DataError, match="priority"):
        balanced_assign(scores, np.array([2, 1]), np.ones(4))
    with pytest.raises(ConfigError, match="priority must be one of count, regret, score"):
        priority_of("fame", scores, np.ones(3), np.array([2, 1]))


def test_a_large_catalogue_is_assigned_in_many_groups():
    random = np.random.default_rng(0)
    scores = random.random((100_000, 32), np.float32)
    group = np.repeat(np.arange(10), 10_000)
    capacity = np.full((10, 32), 313)
    chosen = balanced_assign(scores, capacity, random.random(100_000), group)
    assert (np.bincount(group * 32 + chosen, minlength=320) <= 313).all()
