import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import DataError
from shortlist.index.tree import local_search
from shortlist.index.tree.assign import balanced_assign
from shortlist.index.tree.local_search import improve
from tests.index.tree.test_assign import heavy_tailed, optimum, total

worlds = st.tuples(
    st.integers(0, 2**31), st.integers(1, 40), st.integers(1, 6), st.integers(0, 5), st.booleans()
)


def draw(world):
    """Scores, some with many ties, capacities with free places, a valid assignment, and a mask of seen items."""
    seed, n, c, spare, ties = world
    random = np.random.default_rng(seed)
    capacity = np.bincount(random.integers(0, c, n + spare), minlength=c)
    scores = random.normal(size=(n, c)) * random.pareto(1.0, (n, 1))
    scores = random.integers(-3, 3, (n, c)) if ties else scores
    chosen = random.permutation(np.repeat(np.arange(c), capacity))[:n]
    return scores.astype(np.float32), chosen, capacity, random.random(n) < 0.8


def exchanges_that_gain(scores, chosen, capacity, seen):
    """Moves into free places, and exchanges of two or three items."""
    worth, c = np.where(seen[:, None], scores, 0.0).astype(float), len(capacity)
    free = np.repeat(np.arange(c), capacity - np.bincount(chosen, minlength=c))
    worth = np.concatenate([worth, np.zeros((len(free), c))])
    chosen = np.concatenate([chosen, free])
    gain = worth[:, chosen] - worth[np.arange(len(worth)), chosen][:, None]  # [n, n]: i to the place of j
    two = gain + gain.T
    three = gain[:, :, None] + gain[None, :, :] + gain.T[:, None, :]  # i to j, j to k, k to i
    return (two > 1e-5).sum() + (three > 1e-5).sum()


def fitted(n, c, seed):
    """Scores fitted to an assignment, and that assignment; some nodes score slightly higher for all items."""
    random = np.random.default_rng(seed)
    counts = random.integers(1, 4, n)
    chosen = random.permutation(np.arange(n) % c)
    logits = 0.8 * random.normal(size=(n, c))
    logits[np.arange(n), chosen] += 3.0
    logits[:, : c // 8] += 3.0
    logits -= np.log(np.exp(logits).sum(1, keepdims=True))
    return (logits * counts[:, None]).astype(np.float32), chosen, np.bincount(chosen, minlength=c), counts


@given(worlds)
@settings(max_examples=200, deadline=None)
def test_t22_t24_the_score_never_falls_capacities_hold_and_no_exchange_gains(world):
    scores, chosen, capacity, seen = draw(world)
    better = improve(scores, chosen, capacity, seen=seen)
    assert (np.bincount(better, minlength=len(capacity)) <= capacity).all()
    worth = np.where(seen[:, None], scores, 0.0).astype(float)
    assert total(worth, better) >= total(worth, chosen) - 1e-6
    assert exchanges_that_gain(scores, better, capacity, seen) == 0
    np.testing.assert_array_equal(improve(scores, better, capacity, seen=seen), better)


def plain_pairs(scores, seen, held, first):
    """For every two candidates: swap the items with the largest gains of leaving on both sides."""
    worth = np.where(seen[:, None], np.maximum(scores.astype(float), local_search.MIN_SCORE), 0.0)
    places = [range(first[node], first[node + 1]) for node in range(len(first) - 1)]

    def gain(place, here, there):
        return 0.0 if held[place] < 0 else worth[held[place], there] - worth[held[place], here]

    for _ in range(local_search.SWEEPS):
        before = held.copy()
        for one in range(len(places)):
            for two in range(one + 1, len(places)):
                out = sorted(places[one], key=lambda place: -gain(place, one, two))
                back = sorted(places[two], key=lambda place: -gain(place, two, one))
                worthwhile = [
                    (a, b)
                    for a, b in zip(out, back, strict=False)
                    if gain(a, one, two) + gain(b, two, one) > 0
                ]
                for a, b in worthwhile:
                    held[a], held[b] = held[b], held[a]
        if (held == before).all():
            return


@given(worlds)
@settings(max_examples=200, deadline=None)
def test_tracked_pairs_equal_untracked_ones(world):
    """The slow form recomputes every changed pair, the fast one tracks the best moves."""
    scores, chosen, capacity, seen = draw(world)
    scores[::7, 0] = -np.inf
    held, first = local_search._hold(np.arange(len(scores)), chosen, np.minimum(capacity, len(scores)))
    plain, slow, fast = held.copy(), held.copy(), held.copy()
    plain_pairs(scores, seen, plain, first)
    local_search._divide_pairs(scores, seen, slow, first, local_search.SWEEPS)
    local_search._divide_pairs_tracked(scores, seen, fast, first, local_search.SWEEPS)
    np.testing.assert_array_equal(slow, plain)
    np.testing.assert_array_equal(fast, plain)


@pytest.mark.parametrize("cores", [1, 2, 3, 16])
def test_the_result_does_not_depend_on_the_number_of_cores(cores, monkeypatch):
    monkeypatch.setattr(local_search, "cores", lambda: cores)
    monkeypatch.setattr(local_search, "MIN_SCORES_FOR_THREADS", 1)
    random = np.random.default_rng(3)
    group = np.sort(random.integers(0, 7, 300))
    scores, seen = random.normal(size=(300, 60)).astype(np.float32), random.random(300) < 0.7
    chosen = np.concatenate([np.arange(count) % 60 for count in np.bincount(group, minlength=7)])
    room = np.full((9, 60), 2)  # two groups without items
    fast = improve(scores, chosen, room, group, seen)
    np.testing.assert_array_equal(fast, improve(scores, chosen, room, group, seen, slow=True))
    assert (fast != chosen).any()


def test_an_error_on_one_core_is_raised(monkeypatch):
    def broken(*_):
        raise MemoryError("no room")

    monkeypatch.setattr(local_search, "cores", lambda: 2)
    monkeypatch.setattr(local_search, "MIN_SCORES_FOR_THREADS", 1)
    monkeypatch.setattr(local_search, "_improve", broken)
    with pytest.raises(MemoryError, match="no room"):
        improve(np.zeros((4, 2)), np.array([0, 1, 0, 1]), np.ones((2, 2)), np.array([0, 0, 1, 1]))


def test_infinite_scores_are_refused():
    with pytest.raises(DataError, match="below infinity"):
        improve(np.array([[np.inf, 0.0]]), np.array([0]), np.array([1, 1]))


@given(worlds, st.integers(1, 5))
@settings(max_examples=100, deadline=None)
def test_groups_are_independent(world, groups):
    scores, chosen, _, seen = draw(world)
    random = np.random.default_rng(world[0])
    group = random.integers(0, groups, len(scores))
    c = scores.shape[1]
    capacity = random.integers(0, 3, (groups, c))
    capacity += np.bincount(group * c + chosen, minlength=groups * c).reshape(groups, c)
    together = improve(scores, chosen, capacity, group, seen)
    for one in range(groups):
        mine = group == one
        alone = improve(scores[mine], chosen[mine], capacity[one], seen=seen[mine])
        np.testing.assert_array_equal(together[mine], alone)


@pytest.mark.parametrize("seed", range(10))
def test_t24_the_gap_to_the_optimum_is_below_a_tenth_of_a_percent(seed):
    """384 items with Pareto many instances on 16 nodes: measured 0.01 %, and 0.02 % at most."""
    scores, counts, capacity = heavy_tailed(seed)
    best = optimum(scores, capacity)
    old = np.random.default_rng(seed).permutation(np.repeat(np.arange(16), capacity))
    for start in (old, balanced_assign(scores, capacity, counts)):
        found = total(scores, improve(scores, start, capacity))
        assert best - 0.001 * abs(best) <= found <= best + 1e-6 * abs(best)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("n", "c"), [(200, 8), (120, 40), (96, 96)])
def test_t24_the_gap_to_the_optimum_is_small_from_any_start(seed, n, c):
    """Measured 0.005 %, 1.7 % and 17 % at most: nodes with fewer items need longer cycles."""
    left = {8: 0.001, 40: 0.05, 96: 0.25}[c]
    random = np.random.default_rng(seed)
    counts = np.ceil(random.pareto(1.0, n) * 3).clip(1, 2000)
    scores = -random.exponential(size=(n, c)) * counts[:, None]
    capacity = np.bincount(np.arange(n) % c, minlength=c)
    start = random.permutation(np.arange(n) % c)
    best, found = optimum(scores, capacity), total(scores, improve(scores, start, capacity))
    assert best - left * abs(best) <= found <= best + 1e-9 * abs(best)


@pytest.mark.parametrize("seed", range(5))
def test_t24_a_fitted_assignment_improves_where_serial_choice_makes_it_worse(seed):
    scores, old, capacity, counts = fitted(500, 32, seed)
    served = total(scores, balanced_assign(scores, capacity, counts))
    better = improve(scores, old, capacity)
    assert served < total(scores, old) < total(scores, better)
    assert (better != old).mean() < (balanced_assign(scores, capacity, counts) != old).mean()
    best = optimum(scores, capacity)
    assert total(scores, better) >= best - 0.02 * abs(best)


def test_items_without_a_gain_stay():
    chosen = np.array([1, 0, 1, 0])
    np.testing.assert_array_equal(improve(np.zeros((4, 2)), chosen, np.array([2, 2])), chosen)
    np.testing.assert_array_equal(improve(np.eye(4), np.arange(4), np.ones(4, int)), np.arange(4))


def test_free_places_are_used_before_unseen_items_move():
    scores = np.array([[5.0, 0.0], [0.0, 1.0], [9.0, 0.0]])
    seen = np.array([False, True, True])
    assert improve(scores, np.array([1, 0, 0]), np.array([2, 2]), seen=seen).tolist() == [1, 1, 0]
    assert improve(scores, np.array([1, 0, 0]), np.array([2, 1]), seen=seen).tolist() == [0, 1, 0]


def test_a_cycle_of_three_is_rotated_where_no_pair_gains():
    scores = np.array([[0.0, 3.0, -9.0], [-9.0, 0.0, 3.0], [3.0, -9.0, 0.0]])
    assert improve(scores, np.arange(3), np.ones(3, int)).tolist() == [1, 2, 0]


def test_items_leave_a_score_of_minus_infinity_where_possible():
    scores = np.array([[-np.inf, 0.0], [0.0, -5.0]], np.float32)
    assert improve(scores, np.array([0, 1]), np.ones(2, int)).tolist() == [1, 0]
    lost = np.full((3, 2), -np.inf, np.float32)
    assert improve(lost, np.array([0, 1, 1]), np.array([1, 2])).tolist() == [0, 1, 1]


def test_without_sweeps_or_items_nothing_changes():
    scores = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert improve(scores, np.arange(2), np.ones(2, int), sweeps=0).tolist() == [0, 1]
    assert improve(np.empty((0, 3)), np.empty(0), np.ones(3, int)).tolist() == []


def test_an_invalid_assignment_is_refused():
    scores = np.zeros((3, 2))
    with pytest.raises(DataError, match="candidate 0 of group 0 holds 2, has a capacity of 1"):
        improve(scores, np.array([0, 0, 1]), np.array([1, 2]))
    with pytest.raises(DataError, match=r"expected a candidate 0\.\.1 per item"):
        improve(scores, np.array([0, 2, 1]), np.array([2, 2]))
    with pytest.raises(DataError, match="has the model diverged"):
        improve(scores * np.nan, np.array([0, 0, 1]), np.array([2, 2]))


def test_a_large_catalogue_is_improved_in_many_groups():
    random = np.random.default_rng(0)
    scores = random.random((20_000, 32), np.float32)
    group, chosen = np.repeat(np.arange(10), 2000), np.tile(np.arange(2000) % 32, 10)
    capacity = np.full((10, 32), 63)
    better = improve(scores, chosen, capacity, group)
    assert (np.bincount(group * 32 + better, minlength=320) <= 63).all()
    assert total(scores, better) > 0.9 * len(scores)
