from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from shortlist.data import Catalog, Interactions, Vocabulary
from shortlist.diagnose.segments import Pairs, by_segment, many_note, segments_of
from shortlist.errors import DataError
from shortlist.evaluate.losses import StageTrace


def learned_of(counts, users=None):
    items = np.repeat(np.arange(len(counts)), counts)
    return Interactions.of(np.arange(len(items)) % 7 if users is None else users, items, n_items=len(counts))


def catalog_of(names):
    ids = Vocabulary.of([f"i{row}" for row in range(len(names))])
    return Catalog(ids, pa.table({"category": names}))


def pairs_of(items, users=None, seen=None, place=None):
    items = np.asarray(items)
    count = np.arange(len(items))
    given = (users, seen, place)
    users, seen, place = (np.asarray(one) if one is not None else count for one in given)
    return Pairs(users, items, seen, place)


def names_of(pairs, learned, catalog, kind):
    """The name of each pair's segment of a kind."""
    found = segments_of(pairs, learned, catalog)
    masks = {name: mask for (one, name), mask in found.items() if one == kind}
    assert (sum(mask.astype(int) for mask in masks.values()) == 1).all()
    return [next(name for name, mask in masks.items() if mask[at]) for at in range(len(pairs))]


def test_losses_of_a_segment_are_those_of_its_pairs_counted_one_by_one():
    rng = np.random.default_rng(0)
    count, counts = 600, [500, 200, 100, 60, 30, 20, 6, 6, 4, 0]
    pairs = pairs_of(rng.integers(0, 10, count), rng.integers(0, 80, count), rng.integers(1, 90, count))
    alive = np.cumprod(rng.random((count, 3)) < 0.7, axis=1).astype(bool)
    trace = StageTrace(alive, ("pool", "rank", "slate"), pairs.user)
    catalog = catalog_of([f"c{row % 3}" for row in range(10)])
    told = by_segment(trace, pairs, learned_of(counts), catalog)
    masks = segments_of(pairs, learned_of(counts), catalog)
    assert [(one["kind"], one["name"]) for one in told] == list(masks)
    for one, mask in zip(told, masks.values(), strict=True):
        rows = [at for at in range(count) if mask[at]]
        first = Counter(next((s for s in range(3) if not alive[at, s]), 3) for at in rows)
        assert one["wanted"] == len(rows)
        assert one["users"] == len({pairs.user[at] for at in rows})
        assert one["lost"] == pytest.approx([first[s] / len(rows) for s in range(3)])
        assert one["recall"]["mean"] == pytest.approx(first[3] / len(rows)) == 1 - sum(one["lost"])
        assert one["few"] == (one["users"] < 30) == (one["recall"]["low"] is None)
        assert one["few"] or one["recall"]["low"] <= one["recall"]["mean"] <= one["recall"]["high"]


def test_the_first_item_is_counted_over_the_requests_of_a_segments_users():
    rng = np.random.default_rng(1)
    pairs = pairs_of(
        rng.integers(0, 4, 300), np.repeat(np.arange(100), 3), np.repeat(rng.integers(1, 60, 100), 3)
    )
    asked, first = np.repeat(np.arange(100), 2), rng.random(200) < 0.3
    trace = StageTrace(np.ones((300, 1), bool), ("pool",), pairs.user)
    told = by_segment(trace, pairs, learned_of([9] * 4), catalog_of(["a", "b"] * 2), 0, (asked, first))
    masks = segments_of(pairs, learned_of([9] * 4), catalog_of(["a", "b"] * 2))
    for one, mask in zip(told, masks.values(), strict=True):
        if one["kind"] != "users":
            assert "precision_at_1" not in one
            continue
        users = set(pairs.user[mask].tolist())
        hits = [bool(first[at]) for at in range(200) if asked[at] in users]
        assert one["precision_at_1"]["mean"] == pytest.approx(sum(hits) / len(hits))
        assert (one["precision_at_1"]["low"] is None) == one["few"]


def test_items_go_by_how_often_training_saw_them():
    counts = [50, 20, 20, 6, 4, 0]  # half: item 0; up to nine tenths: 1, 2; the rest: 3; new: 4, 5
    expected = ["head: half of all events", "middle", "middle", "tail: the last tenth"]
    new = ["new: fewer than 5 events"] * 3  # and what is outside the catalogue
    pairs = pairs_of([0, 1, 2, 3, 4, 5, 99])
    assert names_of(pairs, learned_of(counts), catalog_of(["a"] * 6), "items") == expected + new


def test_users_go_by_the_events_they_bring():
    seen = [*range(11, 21), *range(21, 31), 40]
    pairs = pairs_of(
        [0] * 21, users=[*range(20), 0], seen=seen
    )  # user 0 is seen twice and counts with the more
    names = names_of(pairs, learned_of([99], np.arange(99)), catalog_of(["a"]), "users")
    assert names[0] == names[20] == "most events"
    assert names[1:10] == ["new: 20 events or fewer"] * 9
    assert Counter(names[10:20]) == {"few events": 4, "some events": 4, "most events": 2}


def test_users_training_never_saw_are_told_apart_where_there_are_others():
    pairs = pairs_of([0, 0, 0], users=[0, 1, 50])
    learned = learned_of([7], np.arange(7))
    found = segments_of(pairs, learned, catalog_of(["a"]))
    assert found["users", "unknown to training"].tolist() == [False, False, True]
    alone = segments_of(pairs_of([0], users=[50]), learned, catalog_of(["a"]))
    assert ("users", "unknown to training") not in alone


def test_the_largest_categories_stand_alone_and_the_rest_together():
    names = [f"c{row}" for row in range(12)]
    items = [row for row in range(12) for _ in range(12 - row)]
    found = names_of(pairs_of(items), learned_of([9] * 12), catalog_of(names), "category")
    assert found == [f"c{row}" if row < 8 else "other categories" for row in items]
    none = segments_of(pairs_of([0]), learned_of([9]), catalog_of(["a"]))
    assert not [name for kind, name in none if kind == "category"]


def test_pairs_follow_the_order_in_which_items_were_met(world):
    cases = world.split().test
    pairs = Pairs.of(cases)
    expected = [
        (int(user), item, int(seen), place)
        for user, seen, row in zip(cases.users, cases.history_lengths(), cases.relevant().tolist(), strict=True)
        for place, item in enumerate(one for one in row if one >= 0)
    ]
    assert list(zip(*(a.tolist() for a in vars(pairs).values()), strict=True)) == expected
    names = names_of(pairs, world.split().train, world.catalog, "recency")
    assert names.count("what came next") == len(cases)


def test_a_trace_of_other_pairs_is_refused():
    trace = StageTrace(np.ones((2, 1), bool), ("pool",), np.arange(2))
    with pytest.raises(DataError, match="expected the pairs of the trace"):
        by_segment(trace, pairs_of([0, 0, 0]), learned_of([9]), catalog_of(["a"]))


def test_many_segments_come_with_a_warning():
    assert many_note(17).startswith("17 segments")
