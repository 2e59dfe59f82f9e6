import numpy as np

from shortlist.lab.experiments.trees.tree_speed import QUICK, _claims, random_events, seconds_of, tree_speed
from tests.lab.experiments.results import check_result


def test_training_search_and_updates_are_timed(monkeypatch):
    small = {"items": 60, "users": 6, "batches": (8,), "repeats": 1, "answers": (1, 4)}
    for name, value in small.items():
        monkeypatch.setitem(QUICK, name, value)
    result = tree_speed(None, "quick", [0, 1])
    check_result(result, "tree-speed-h200")
    assert result.seeds == (0,)
    assert {one.method for one in result.rows} == {"dtr-u", "dtr-t", "search", "update"}
    assert all(value > 0 for one in result.rows for value in one.values)
    assert result.claims == ()


def test_random_events_have_popular_items():
    events = random_events(50, 20, 0, length=30)
    assert len(events) == 600
    assert set(events.lengths) == {30}
    counts = np.bincount(events.items, minlength=50)
    assert counts[:10].sum() > counts[-10:].sum()
    assert np.array_equal(events.items, random_events(50, 20, 0, length=30).items)


def test_repeats_are_timed_after_a_warm_up():
    calls: list[int] = []
    times = seconds_of(lambda: calls.append(1), 4)
    assert (len(times), len(calls)) == (4, 7)
    assert all(one >= 0 for one in times)


def test_claims_take_the_best_median():
    found = {
        ("dtr-u", "batch 1"): [10.0, 50_000.0, 60_000.0],
        ("dtr-u", "batch 2"): [1.0],
        ("dtr-u", "batch 1, all levels"): [41_000.0],
        ("dtr-t", "batch 1"): [20_000.0],
        ("dtr-t", "batch 1, all levels"): [90_000.0, 24_000.0, 1.0],
        ("search", "batch 1"): [30_000.0],
        ("update", "seconds from 20,000 instances"): [0.5, 0.6, 9.0],
    }
    assert [(one.estimate, one.holds) for one in _claims(found)] == [
        (50_000.0, True),
        (41_000.0, True),
        (20_000.0, False),
        (24_000.0, False),
        (30_000.0, True),
        (0.6, True),
    ]
