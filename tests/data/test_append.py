"""Appending events: rows stay, duplicates are counted, and the result is that of one file with all rows."""

import numpy as np
import pyarrow as pa
import pytest

import shortlist
from shortlist.data import load_dataset, save_dataset
from shortlist.data.read import read
from shortlist.data.vocabulary import Vocabulary
from shortlist.errors import ConfigError, DataError

HEADER = "uid,sku,at,stars\n"
OLD = [
    f"u{user},{item},{1_700_000_000 + 100 * user + item},{1 + item}"
    for user in range(4)
    for item in (1, 2, 3)
]
NEW = ["u9,2,1700000500,5", "u1,7,1700000501,4", "a0,1,1600000000,3", "u1,0,1700000102,2"]
NAMES = {"user": "uid", "item": "sku", "time": "at", "weight": "stars"}


def text(*rows):
    return HEADER + "\n".join(rows) + "\n"


@pytest.fixture
def old(put):
    return read(put("old.csv", text(*OLD)), **NAMES)


def events_of(dataset):
    """Every event with the ids of the file, in the order of the data set's users by id."""
    rows = dataset.events
    ids = zip(dataset.users.ids_of(rows.users), dataset.items.ids_of(rows.items), strict=True)
    return sorted(zip(ids, rows.times.tolist(), rows.weights.tolist(), strict=True))


def test_appended_file_gives_the_events_of_one_file_with_all_rows(old, put):
    merged = shortlist.append(old, put("new.csv", text(*NEW)))
    assert events_of(merged) == events_of(read(put("all.csv", text(*OLD, *NEW)), **NAMES))
    assert merged.facts.kept == len(merged.events) == 16
    assert (merged.facts.read, merged.facts.appended) == (16, ("new.csv",))
    assert merged.facts.weights.startswith("2 to 5, used")
    assert merged.facts.split_reason.endswith(": it was chosen when the data set was prepared")
    assert bool((np.diff(merged.events.times)[np.diff(merged.events.users) == 0] >= 0).all()), (
        "sorted by time"
    )


def test_columns_of_an_item_table_are_asked_for_only_with_the_table(put):
    items = put("items.csv", "sku,name\n1,One\n2,Two\n3,Three\n7,Seven\n")
    named = {"columns": {"item.title": "name"}, "items": items}
    old, new = read(put("old.csv", text(*OLD)), **NAMES, **named), put("new.csv", text(*NEW))
    assert shortlist.append(old, new).catalog.table["title"].to_pylist() == [
        "One",
        "Two",
        "Three",
        None,
        None,
    ]
    described = shortlist.append(old, new, items=items).catalog.table["title"].to_pylist()
    assert described == ["One", "Two", "Three", None, "Seven"]
    with pytest.raises(ConfigError, match="needs a table of items"):
        shortlist.append(old, new, columns={"item.title": "name"})


def test_known_ids_keep_their_rows_and_new_ids_follow(old, put):
    merged = shortlist.append(old, put("new.csv", text(*NEW)))
    assert merged.users.ids.to_pylist() == ["u0", "u1", "u2", "u3", "a0", "u9"]
    assert merged.items.ids.to_pylist() == [1, 2, 3, 0, 7]
    assert merged.split_settings == old.split_settings


def test_events_that_are_already_there_are_counted_and_dropped_or_kept(old, put):
    again = put("again.csv", text(*OLD[:5], *NEW))
    merged = shortlist.append(old, again)
    assert merged.facts.dropped == {"already in the data set": 5}
    assert events_of(merged) == events_of(shortlist.append(old, put("new.csv", text(*NEW))))
    assert merged.facts.read == merged.facts.kept + 5
    assert len(shortlist.append(old, again, duplicates="keep").events) == len(merged.events) + 5
    with pytest.raises(DataError, match=r"5 events are already in the data set; drop --strict"):
        shortlist.append(old, again, strict=True)
    with pytest.raises(ConfigError, match="--duplicates: expected drop or keep, got 'some'"):
        shortlist.append(old, again, duplicates="some")


def test_append_twice_is_append_of_both(old, put):
    one, other = put("one.csv", text(*NEW[:2])), put("other.csv", text(*NEW[2:]))
    twice = shortlist.append(shortlist.append(old, one), other)
    assert events_of(twice) == events_of(shortlist.append(old, put("new.csv", text(*NEW))))
    assert twice.facts.appended == ("one.csv", "other.csv")


def test_text_ids_turn_integers_into_text_without_a_change_of_rows(old, put):
    merged = shortlist.append(old, put("new.csv", text("u1,blue,1700000600,3", "u1,010,1700000601,3")))
    assert merged.items.ids.to_pylist() == ["1", "2", "3", "010", "blue"]
    assert merged.items.row(2) == 1
    assert Vocabulary.of(["x"]).extended(Vocabulary.of([7])).ids.to_pylist() == ["x", "7"]


def test_options_of_prepare_are_repeated_and_can_be_changed(put, tmp_path):
    old = read(put("old.csv", text(*OLD)), **NAMES, min_weight=3, bad_lines="skip")
    save_dataset(old, tmp_path / "data", "test")
    stored = load_dataset(tmp_path / "data")
    assert stored.facts == old.facts
    merged = shortlist.append(tmp_path / "data", put("new.csv", text(*NEW, "broken")))
    assert merged.facts.dropped == {"weight below 3": 5, "unparsable line": 1}
    other = put("other.csv", "customer,sku,at,stars\nu1,7,1700000501,4\n")
    assert len(shortlist.append(stored, other, user="customer").events) == len(old.events) + 1
    with pytest.raises(DataError, match="expected a column 'uid'"):
        shortlist.append(stored, other)


def test_hashed_ties_of_the_data_set_are_kept(put):
    rows = [f"u1,{item},1700000000" for item in range(8)]
    header = "uid,sku,at"
    names = {"user": "uid", "item": "sku", "time": "at", "ties": "hash"}
    files = [
        put(f"{at}.csv", "\n".join([header, *part]) + "\n")
        for at, part in enumerate((rows[:4], rows[4:], rows))
    ]
    merged, whole = shortlist.append(read(files[0], **names), files[1]), read(files[2], **names)
    unhashed = read(files[2], **{**names, "ties": "file"})
    orders = [one.items.ids_of(one.events.items) for one in (merged, whole, unhashed)]
    assert list(orders[0]) == list(orders[1]) != list(orders[2])


def test_minimum_counts_are_refused_with_the_reason(put):
    old = read(put("old.csv", text(*OLD)), **NAMES, min_user_events=2)
    with pytest.raises(
        DataError, match="old: was prepared with --min-user-events, and the events it dropped"
    ):
        shortlist.append(old, put("new.csv", text(*NEW)))


def test_without_times_new_events_follow_the_old_ones(put):
    old = read(put("old.csv", "user,item\n1,10\n2,10\n1,11\n"))
    merged = shortlist.append(old, put("new.csv", "user,item\n1,10\n2,12\n"))
    histories = [merged.items.ids_of(merged.events.items[merged.events.of_user(row)]) for row in range(2)]
    assert histories == [[10, 11, 10], [10, 12]], "an equal pair is another event"
    with pytest.raises(DataError, match=r"timed.csv: has times, and the data set old has no times"):
        shortlist.append(old, put("timed.csv", "user,item,time\n1,10,1700000000\n"))


def test_descriptions_stay_and_gaps_are_filled(put):
    head = "item,title,category\n"
    first = put("items.csv", head + "10,Ten,Drama\n")
    more = put("more.csv", head + "10,Tenth,War\n11,Eleven,War|Drama\n12,Twelve,\n")
    old = read(put("old.csv", "user,item\n1,10\n2,11\n"), options={"items": str(first)})
    new = put("new.csv", "user,item\n1,12\n1,11\n")
    merged = shortlist.append(old, new, options={"items": str(more)})
    assert merged.items.ids.to_pylist() == [10, 11, 12]
    assert merged.catalog.table["title"].to_pylist() == ["Ten", "Eleven", "Twelve"]
    assert merged.catalog.table["category"].type == pa.list_(pa.string())
    assert [merged.catalog.categories_of(row) for row in range(3)] == [("Drama",), ("War", "Drama"), ()]
    bare = shortlist.append(old, put("new.csv", "user,item\n1,12\n"))
    assert bare.catalog.table["title"].to_pylist() == ["Ten", None, None]


def test_event_columns_must_be_the_same(put):
    old = read(put("old.csv", "user,item,device\n1,10,tv\n2,11,web\n"), columns={"device": "device"})
    merged = shortlist.append(old, put("new.csv", "user,item,device\n1,12,app\n"))
    assert merged.events.columns["device"].tolist() == ["tv", "app", "web"]
    assert set(merged.events.columns) == {"device"}
    other = read(put("bare.csv", "user,item\n1,10\n"))
    with pytest.raises(
        DataError, match=r"new.csv: expected the event columns of the data set bare \(none\), got device"
    ):
        shortlist.append(other, put("new.csv", "user,item,device\n1,12,app\n"), columns={"device": "device"})


def test_a_simulated_data_set_needs_a_format(world, put):
    with pytest.raises(ConfigError, match="name the format of the new one with --format"):
        shortlist.append(world, put("new.csv", "user,item\n1,12\n"))


def test_a_file_without_the_weights_of_the_data_set_is_refused(put):
    old = read(put("old.csv", "user,item,weight\n1,10,2\n1,11,5\n"))
    with pytest.raises(DataError, match="expected a column 'weight'"):
        shortlist.append(old, put("new.csv", "user,item\n1,12\n"))


def test_another_format_is_read_with_the_weights_of_the_data_set(put):
    old = read(put("ml/u.data", "1\t10\t5\t978300760\n2\t20\t3\t978300761\n").parent, "movielens")
    new = put("new.csv", "user,item,time,weight\n1,30,978300770,4\n")
    merged = shortlist.append(old, new, "csv")
    assert merged.events.weights.tolist() == [1, 1, 1]
    assert merged.items.ids.to_pylist() == [10, 20, 30]


def test_weighted_events_are_refused_for_a_log_without_weights(put):
    plain = read(put("old.csv", "user,item,time\nu1,1,1700000000\nu1,2,1700000001\n"))
    new = put("new.csv", "user,item,time,weight\nu1,3,1700000002,4\nu2,3,1700000003,5\n")
    with pytest.raises(
        DataError, match=r"new.csv: has weights of 4 to 5, and .* old have none; prepare all files"
    ):
        shortlist.append(plain, new)
