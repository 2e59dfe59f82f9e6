"""Data sets: ids to rows, saved and loaded byte for byte."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from shortlist.artifact.store import load, save
from shortlist.data import RawEvents, build_dataset, load_dataset, save_dataset
from shortlist.data.dataset import Dataset, LogFacts, order_ties
from shortlist.errors import ArtifactError, ConfigError, DataError

FACTS = LogFacts("csv", "log.csv", read=4, kept=3, dropped={"empty id": 1}, settings={"days": 2.5})


def raw(order=slice(None), **changes):
    base = {
        "users": pa.array(np.array(["u2", "u1", "u2", "u3"])[order]),
        "items": pa.array(np.array([20, 10, 30, 10])[order]),
        "times": np.array([5, 6, 4, 7])[order],
        "weights": np.array([1.0, 2.0, 3.0, 4.0], np.float32)[order],
        "columns": {"rating": np.array([1, 2, 3, 4])[order]},
        "item_table": pa.table({"item": [30, 99, 10], "title": ["Thirty", "No event", "Ten"]}),
        "user_table": pa.table({"user": ["u3"], "age": [44]}),
    }
    return RawEvents(**{**base, **changes})


def test_ids_are_encoded_as_sorted_rows_and_tables_are_aligned():
    data = build_dataset(raw(), "toy")
    assert data.users.ids.to_pylist() == ["u1", "u2", "u3"]
    assert data.items.ids.to_pylist() == [10, 20, 30]
    assert data.events.users.tolist() == [0, 1, 1, 2]
    assert data.events.items.tolist() == [0, 2, 1, 0]
    assert data.events.columns["rating"].tolist() == [2, 3, 1, 4]
    assert [data.catalog.title(row) for row in range(3)] == ["Ten", "20", "Thirty"]
    assert data.user_table["age"].to_pylist() == [None, None, 44]
    assert data.clock == "ms"


def test_the_data_set_does_not_depend_on_row_order():
    assert build_dataset(raw([3, 1, 0, 2])).fingerprint == build_dataset(raw()).fingerprint


def test_without_times_the_clock_is_the_order():
    data = build_dataset(raw(times=None, item_table=None, user_table=None))
    assert data.clock == "order"
    assert data.catalog.title(0) == "10"
    assert data.user_table.num_columns == 0


@pytest.mark.parametrize("bare", [False, True])
def test_a_saved_data_set_is_loaded_unchanged(tmp_path, bare):
    settings = {"protocol": "leave-last-out", "min_length": 3}
    events = raw(item_table=None, user_table=None, columns={}) if bare else raw()
    data = build_dataset(events, "toy", split_settings=settings, facts=FACTS)
    save_dataset(data, tmp_path / "d", "1.0", {"notes.txt": "hello"})
    back = load_dataset(tmp_path / "d")
    assert back.fingerprint == data.fingerprint
    assert (back.name, back.clock, back.split_settings, back.facts) == ("toy", "ms", settings, FACTS)
    assert back.catalog.table.equals(data.catalog.table)
    assert back.user_table.equals(data.user_table)
    assert list(back.events.columns) == list(data.events.columns)
    assert back.users == data.users
    assert load(tmp_path / "d").text("notes.txt") == "hello"


def test_the_same_data_set_gives_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        save_dataset(build_dataset(raw(), "toy"), tmp_path / name, "1.0")
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == ["events.parquet", "items.parquet", "manifest.json", "users.parquet"]
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_split_uses_saved_settings_and_another_protocol_uses_its_defaults():
    data = build_dataset(raw(), split_settings={"protocol": "half-history", "min_length": 1, "held_out": 0.4})
    assert data.split().settings["min_length"] == 1
    assert data.split(seed=7).settings["seed"] == 7
    with pytest.raises(DataError, match="leave-last-out: expected users with 3 events"):
        data.split(protocol="leave-last-out")


def test_events_that_do_not_match_the_manifest_are_refused(tmp_path):
    artifact = save_dataset(build_dataset(raw(), "toy"), tmp_path / "d", "1.0")
    manifest = json.loads((artifact.folder / "manifest.json").read_text())
    assert manifest["about"]["fingerprint"] == build_dataset(raw()).fingerprint
    other = build_dataset(raw(times=np.array([5, 6, 4, 8])), "toy")
    parts = {name: artifact.table(name) for name in ("items.parquet", "users.parquet")}
    parts["events.parquet"] = save_dataset(other, tmp_path / "e", "1.0").table("events.parquet")
    from_other = tmp_path / "f"
    save(from_other, "dataset", parts, artifact.lineage, artifact.about)
    with pytest.raises(DataError, match="do not match the fingerprint in its manifest; prepare it again"):
        load_dataset(from_other)


def test_loading_a_data_set_as_another_kind_is_refused(tmp_path):
    save_dataset(build_dataset(raw()), tmp_path / "d", "1.0")
    with pytest.raises(ArtifactError, match="expected kind 'recommender', got 'dataset'"):
        load(tmp_path / "d", "recommender")


def tied() -> Dataset:
    """Six events of one second, one later event and one of another user."""
    users, items, times = [1] * 7 + [2], [10, 11, 12, 13, 14, 15, 9, 10], [5] * 6 + [6, 5]
    return build_dataset(
        RawEvents(pa.array(users), pa.array(items), np.array(times), columns={"place": np.arange(8)})
    )


def test_hashed_ties_reorder_only_events_of_one_user_and_time():
    data = tied()
    hashed = order_ties(data, "hash")
    assert hashed.events.items[:6].tolist() != data.events.items[:6].tolist()
    assert sorted(hashed.events.items[:6]) == sorted(data.events.items[:6])
    for name in ("users", "times"):
        assert getattr(hashed.events, name).tolist() == getattr(data.events, name).tolist()
    assert hashed.events.items[6:].tolist() == data.events.items[6:].tolist()
    places = dict(zip(data.events.items[:7].tolist(), data.events.columns["place"][:7].tolist(), strict=True))
    assert [places[item] for item in hashed.events.items[:7].tolist()] == hashed.events.columns["place"][
        :7
    ].tolist()


def test_hashed_ties_do_not_depend_on_the_order_of_the_file():
    data = tied()
    turned = replace(data, events=data.events.where(np.array([5, 4, 3, 2, 1, 0, 6, 7])))
    assert order_ties(turned, "hash").fingerprint == order_ties(data, "hash").fingerprint
    assert order_ties(data, "file") is data


def test_an_unknown_order_of_ties_is_refused():
    with pytest.raises(ConfigError, match="--ties: expected one of file, hash, got 'random'"):
        order_ties(tied(), "random")
