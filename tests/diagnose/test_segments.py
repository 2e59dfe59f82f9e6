from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pytest

from shortlist.data import Catalog, Interactions, Vocabulary
from shortlist.diagnose.segments import Pairs, by_segment, segments_of
from shortlist.errors import DataError
from shortlist.evaluate.losses import StageTrace


def train_of(counts, users=None):
    items = np.repeat(np.arange(len(counts)), counts)
    return Interactions.of(np.arange(len(items)) % 7 if users is None else users, items, n_items=len(counts))


def catalog_of(names):
    ids = Vocabulary.of([f"i{row}" for row in range(len(names))])
    return Catalog(ids, pa.table({"category": names}))


def pairs_of(items, users=None, lengths=None, place=None):
    items = np.asarray(items)
    count = np.arange(len(items))
    given = (users, lengths, place)
    users, lengths, place = (np.asarray(one) if one is not None else count for one in given)
    return Pairs(users, users, items, lengths, place)


def names_of(pairs, train, catalog, kind):
    """The name of each pair's segment of a kind."""
    found = segments_of(pairs, train, catalog)
    masks = {name: mask for (one, name), mask in found.items() if one == kind}
    assert (sum(mask.astype(int) for mask in masks.values()) == 1).all()
    return [next(name for name, mask in masks.items() if mask[at]) for at in range(len(pairs))]


def test_recall_and_losses_of_a_segment_equal_a_count_pair_by_pair():
    rng = np.random.default_rng(0)
    count, counts = 600, [500, 200, 100, 60, 30, 20, 6, 6, 4, 0]
    pairs = pairs_of(rng.integers(0, 10, count), rng.integers(0, 80, count), rng.integers(1, 90, count))
    alive = np.cumprod(rng.random((count, 3)) < 0.7, axis=1).astype(bool)
    trace = StageTrace(alive, ("pool", "rank", "slate"), pairs.user)
    catalog = catalog_of([f"c{row % 3}" for row in range(10)])
    found = by_segment(trace, pairs, train_of(counts), catalog)
    masks = segments_of(pairs, train_of(counts), catalog)
    assert [(one.kind, one.name) for one in found] == list(masks)
    for one, mask in zip(found, masks.values(), strict=True):
        rows = [at for at in range(count) if mask[at]]
        first = Counter(next((s for s in range(3) if not alive[at, s]), 3) for at in rows)
        hits = defaultdict(list)
        for at in rows:
            hits[pairs.user[at]].append(alive[at, -1])
        assert one.relevant == len(rows)
        assert one.users == len(hits)
        assert one.lost == pytest.approx([first[s] / len(rows) for s in range(3)])
        assert one.recall.mean == pytest.approx(np.mean([np.mean(own) for own in hits.values()]))
        assert one.few == (one.users < 30) == (one.recall.low is None)
        assert one.few or one.recall.low <= one.recall.mean <= one.recall.high


def test_precision_at_1_counts_the_requests_of_a_segments_users():
    rng = np.random.default_rng(1)
    pairs = pairs_of(
        rng.integers(0, 4, 300), np.repeat(np.arange(100), 3), np.repeat(rng.integers(1, 60, 100), 3)
    )
    users, first = np.repeat(np.arange(100), 2), rng.random(200) < 0.3
    trace = StageTrace(np.ones((300, 1), bool), ("pool",), pairs.user)
    found = by_segment(trace, pairs, train_of([9] * 4), catalog_of(["a", "b"] * 2), 0, (users, first))
    masks = segments_of(pairs, train_of([9] * 4), catalog_of(["a", "b"] * 2))
    for one, mask in zip(found, masks.values(), strict=True):
        if one.kind != "users":
            assert one.precision_at_1 is None
            continue
        own = set(pairs.user[mask].tolist())
        hits = [bool(first[at]) for at in range(200) if users[at] in own]
        assert one.precision_at_1.mean == pytest.approx(sum(hits) / len(hits))
        assert (one.precision_at_1.low is None) == one.few


def test_items_are_segmented_by_their_training_events():
    counts = [50, 20, 20, 6, 4, 0]  # half: item 0; up to nine tenths: 1, 2; the rest: 3; new: 4, 5
    expected = ["head: half of all events", "middle", "middle", "tail: the last tenth"]
    new = ["new: fewer than 5 events"] * 3  # and items outside the catalogue
    pairs = pairs_of([0, 1, 2, 3, 4, 5, 99])
    assert names_of(pairs, train_of(counts), catalog_of(["a"] * 6), "items") == expected + new


def test_users_are_segmented_by_their_longest_history():
    lengths = [*range(11, 21), *range(21, 31), 40]
    pairs = pairs_of([0] * 21, users=[*range(20), 0], lengths=lengths)  # user 0 has two requests
    names = names_of(pairs, train_of([99], np.arange(99)), catalog_of(["a"]), "users")
    assert names[0] == names[20] == "most events"
    assert names[1:10] == ["new: 20 events or fewer"] * 9
    assert Counter(names[10:20]) == {"few events": 4, "some events": 4, "most events": 2}


def test_users_without_training_events_are_a_segment_if_there_are_others():
    pairs = pairs_of([0, 0, 0], users=[0, 1, 50])
    train = train_of([7], np.arange(7))
    found = segments_of(pairs, train, catalog_of(["a"]))
    assert found["users", "not in training"].tolist() == [False, False, True]
    alone = segments_of(pairs_of([0], users=[50]), train, catalog_of(["a"]))
    assert ("users", "not in training") not in alone


def test_largest_categories_are_segments_and_the_rest_is_one():
    names = [f"c{row}" for row in range(12)]
    items = [row for row in range(12) for _ in range(12 - row)]
    found = names_of(pairs_of(items), train_of([9] * 12), catalog_of(names), "category")
    assert found == [f"c{row}" if row < 8 else "other categories" for row in items]
    none = segments_of(pairs_of([0]), train_of([9]), catalog_of(["a"]))
    assert not [name for kind, name in none if kind == "category"]


def test_item_with_several_categories_is_in_the_segment_of_each():
    catalog = catalog_of([["a", "b"], ["b"], None])
    found = segments_of(pairs_of([0, 1, 2, 0]), train_of([9] * 3), catalog)
    masks = {name: mask.tolist() for (kind, name), mask in found.items() if kind == "category"}
    assert masks == {
        "a": [True, False, False, True],
        "b": [True, True, False, True],
        "without category": [False, False, True, False],
    }


def test_pairs_follow_the_order_of_the_events(world):
    held_out = world.split().test
    pairs = Pairs.of(held_out)
    rows = zip(held_out.users, held_out.history_lengths(), held_out.relevant().tolist(), strict=True)
    expected = [
        (request, int(user), item, int(length), place)
        for request, (user, length, row) in enumerate(rows)
        for place, item in enumerate(item for item in row if item >= 0)
    ]
    assert list(zip(*(column.tolist() for column in vars(pairs).values()), strict=True)) == expected
    names = names_of(pairs, world.split().train, world.catalog, "recency")
    assert names.count("next item") == len(held_out)


def test_trace_of_other_pairs_is_refused():
    trace = StageTrace(np.ones((2, 1), bool), ("pool",), np.arange(2))
    with pytest.raises(DataError, match="expected the pairs of the trace"):
        by_segment(trace, pairs_of([0, 0, 0]), train_of([9]), catalog_of(["a"]))
