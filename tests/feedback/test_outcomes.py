"""Labels against a slow loop over all events, and the rules one by one."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import ConfigError, DataError
from shortlist.feedback.events.append import append_events, watermark
from shortlist.feedback.manifest import read_manifest
from shortlist.feedback.outcomes import DAY_MS, MINUTE_MS, WINDOWS, LabelRules, labels_of
from shortlist.feedback.record import logged_requests
from shortlist.feedback.schema import EVENTS

HALF_HOUR = 30 * MINUTE_MS
LATER = 10 * DAY_MS
LIKES = LabelRules(positive=("play", "like"), least_play_ms=100)


def served(n_requests=3, n_items=2, dropped=2, text=False):
    """Requests 10, 11, ... at times 0, 1000, ...; items 0 and 1 are served, further ones are not."""
    size = n_items + dropped
    stage = np.tile([2] * n_items + [1] * dropped, n_requests)
    position = np.tile([*range(1, n_items + 1)] + [0] * dropped, n_requests)
    items = np.tile(np.arange(size), n_requests)
    return logged_requests(
        np.arange(n_requests) + 10,
        np.arange(n_requests) * 1000,
        np.zeros(n_requests, np.int64),
        np.arange(n_requests + 1) * size,
        items.astype(str).astype(object) if text else items,
        stage,
        np.tile([size, n_items], (n_requests, 1)),
        position=position.astype(np.int16),
        incl_prob=np.ones(len(stage), np.float32),
    )


def events_table(rows):
    """Events from tuples (request, item, name, time, value)."""
    columns = [*zip(*rows, strict=True)] if rows else [[], [], [], [], []]
    return pa.table(
        {
            "request_id": pa.array(columns[0], pa.int64()),
            "item_id": pa.array(columns[1]) if rows else pa.array([], pa.int64()),
            "event": pa.array([EVENTS.index(name) for name in columns[2]], pa.int8()),
            "event_ts_ms": pa.array(columns[3], pa.int64()),
            "value": pa.array(columns[4], pa.float32()),
        }
    )


def labels(*rows, rules=None, at=LATER, record=None, late=(), **options):
    tables = [(events_table(list(some)), flag) for some, flag in ((rows, False), (late, True)) if some]
    table, counts = labels_of(record or served(), tables, rules or LabelRules(), at, **options)
    found = {(row["request_id"], row["item_id"]): row for row in table.to_pylist()}
    return found, Counter({name: count for name, count in counts.items() if count})


def slow_labels(record, rows, rules, at):
    """The definition of spec 1.6, read aloud."""
    result = {}
    for number, request in enumerate(record.request_id.tolist()):
        ts = int(record.ts_ms[number])
        for place in range(record.offsets[number], record.offsets[number + 1]):
            if record.position[place] == 0:
                continue
            item = int(record.item_id[place])
            mine = {(name, when, value) for r, i, name, when, value in rows if (r, i) == (request, item)}
            inside = [one for one in mine if 0 <= one[1] - ts <= rules.windows[one[0]]]
            positive = any(
                name in rules.positive and (name != "play" or value >= rules.least_play_ms)
                for name, _, value in inside
            )
            shown = any(name == "impression" for name, _, _ in inside)
            if ts + rules.window > at:
                result[request, item] = None
            else:
                result[request, item] = 1 if positive else 0 if shown else None
    return result


event_rows = st.tuples(
    st.integers(9, 14),
    st.integers(0, 4),
    st.sampled_from(EVENTS),
    st.one_of(st.integers(-500, 5000), st.sampled_from([HALF_HOUR + d for d in (-1, 0, 1, 999, 1001)])),
    st.sampled_from([0.0, 99.0, 100.0, 5000.0]),
)


def one_value_per_event(rows):
    """Equal events have equal values: then the slow version need not say which one counts."""
    return list({row[:4]: row for row in rows}.values())


@settings(max_examples=200, deadline=None)
@given(
    st.lists(event_rows, max_size=40).map(one_value_per_event),
    st.sampled_from([LabelRules(), LIKES]),
    st.sampled_from([LATER, HALF_HOUR + 1000, DAY_MS + 500, 0]),
    st.randoms(),
)
def test_labels_are_those_of_the_definition(rows, rules, at, shuffle):
    repeated = rows + rows[: len(rows) // 2]
    shuffle.shuffle(repeated)
    found, counts = labels(*repeated, rules=rules, at=at)
    assert {key: row["y"] for key, row in found.items()} == slow_labels(served(), rows, rules, at)
    known = [row for row in repeated if row[0] in (10, 11, 12)]
    assert counts["events"] == len(known)
    assert counts["item_not_served"] == sum(row[1] > 1 for row in known)
    assert counts["duplicate_events"] == sum(row[1] <= 1 for row in known) - len(
        {r[:4] for r in known if r[1] <= 1}
    )


def test_label_is_closed_when_its_window_is_behind_the_watermark():
    rows = [(10, 0, "impression", 5, 0.0), (10, 0, "play", 9, 700.0)]
    assert labels(*rows, at=HALF_HOUR - 1)[0][10, 0]["y"] is None
    closed = labels(*rows, at=HALF_HOUR)[0][10, 0]
    assert (closed["y"], closed["closed_at_ms"], closed["play_ms"]) == (1, HALF_HOUR, 700.0)


def test_not_shown_is_not_a_negative():
    found, _ = labels((10, 0, "impression", 5, 0.0))
    assert (found[10, 0]["y"], found[10, 1]["y"]) == (0, None)
    assert found[10, 1]["closed_at_ms"] is not None


def test_events_of_other_kinds_have_their_own_windows():
    rows = [
        (10, 0, "impression", 5, 0.0),
        (10, 0, "like", HALF_HOUR + 5, 0.0),
        (10, 0, "hide", DAY_MS + 1, 0.0),
    ]
    found, counts = labels(*rows)
    multi = found[10, 0]["y_multi"]
    assert (found[10, 0]["y"], multi["like"], multi["hide"], multi["follow"]) == (0, 1, 0, 0)
    assert counts["after_the_window"] == 1
    early = labels(*rows, at=HALF_HOUR)[0][10, 0]["y_multi"]
    assert (early["play"], early["like"]) == (0, None)


def test_event_before_its_request_is_counted_and_not_used():
    found, counts = labels((11, 0, "impression", 999, 0.0), (11, 0, "play", 998, 1.0))
    assert found[11, 0]["y"] is None
    assert counts["before_the_request"] == 2


def test_positive_event_without_an_impression_counts_as_shown_and_is_counted():
    found, counts = labels((10, 0, "play", 5, 1.0))
    assert found[10, 0]["y"] == 1
    assert counts["positive_without_impression"] == 1


def test_watch_ratio_needs_the_duration_of_the_item():
    row = labels((10, 0, "play", 5, 500.0), (10, 1, "play", 5, 500.0), durations={0: 2000.0})[0]
    assert (row[10, 0]["watch_ratio"], row[10, 1]["watch_ratio"]) == (0.25, None)


def test_text_ids_and_whole_numbers_find_each_other():
    rows = [(10, "0", "impression", 5, 0.0)]
    assert labels(*rows)[0][10, 0]["y"] == 0
    assert labels(*rows, record=served(text=True))[0][10, "0"]["y"] == 0
    assert labels((10, 0, "impression", 5, 0.0), record=served(text=True))[0][10, "0"]["y"] == 0


def test_corrections_are_used_and_the_labels_they_change_are_counted():
    found, counts = labels(
        (10, 0, "impression", 5, 0.0), late=[(10, 0, "play", 50, 1.0), (10, 1, "like", 50, 1.0)]
    )
    assert found[10, 0]["y"] == 1
    assert counts["corrections"] == 2
    assert counts["labels_changed_by_corrections"] == 2  # y of one, y_multi of the other


def test_request_without_served_candidates_has_no_labels():
    record = replace(served(), position=np.zeros(12, np.int16))
    assert labels((10, 0, "play", 5, 1.0), record=record)[0] == {}


def test_version_of_rules_changes_with_every_rule():
    rules = [
        LabelRules(),
        LIKES,
        LabelRules(least_play_ms=1),
        LabelRules(windows=WINDOWS | {"like": 5}),
        LabelRules(allowed_lateness_ms=1),
    ]
    assert len({one.version for one in rules}) == 5
    assert LabelRules().version == LabelRules().version < 1 << 31


@pytest.mark.parametrize("wrong", [{"positive": ("watch",)}, {"positive": ()}, {"windows": {"play": 5}}])
def test_rules_about_unknown_events_are_refused(wrong):
    with pytest.raises(ConfigError, match="label rules: expected"):
        LabelRules(**wrong)


# Events on disk.

EVENTS_FILE = {
    "request_id": [10, 11, None, 12, 13, 14],
    "item_id": [0, 1, 2, 3, 4, 5],
    "event": ["play", "impression", "play", "stare", "like", "like"],
    "event_ts_ms": [1000, 2000, 3000, 4000, -5, 10**9],
    "value": [1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
}


def test_rows_that_are_no_events_are_counted_and_explained(tmp_path):
    done = append_events(tmp_path, EVENTS_FILE, ingest_ts_ms=5000)
    assert done.written == 2
    assert done.problems.counts == {"bad_ids": 1, "unknown_events": 1, "bad_times": 1, "from_the_future": 1}
    assert "row 4" in done.problems.examples["unknown_events"][0]
    assert "check the clock of the client" in done.problems.examples["from_the_future"][0]
    assert sum(part.rejected_events for part in read_manifest(tmp_path).parts) == 4
    assert watermark(tmp_path, 500) == 1500  # the event of the future does not move it


def test_events_behind_the_watermark_are_corrections(tmp_path):
    columns = {"request_id": [1], "item_id": [1], "event": [1], "value": [0.0]}
    append_events(tmp_path, columns | {"event_ts_ms": [10**7]}, ingest_ts_ms=10**7, lateness_ms=1000)
    for when, late in ((10**7 - 1000, 0), (10**7 - 1001, 1)):
        done = append_events(
            tmp_path, columns | {"event_ts_ms": [when]}, ingest_ts_ms=10**7, lateness_ms=1000
        )
        assert done.corrections == late
    assert [part.rows for part in read_manifest(tmp_path).of("corrections")] == [1]


def test_events_of_text_columns_are_read(tmp_path):
    text = {
        "request_id": ["10"],
        "item_id": ["a"],
        "event": ["like"],
        "event_ts_ms": ["7"],
        "ingest_ts_ms": [9.0],
    }
    assert append_events(tmp_path, text).written == 1


def test_events_without_a_needed_column_are_refused(tmp_path):
    with pytest.raises(DataError, match="expected the columns request_id, item_id"):
        append_events(tmp_path, {"request_id": [1]}, ingest_ts_ms=1)
    with pytest.raises(DataError, match="ingest_ts_ms"):
        append_events(tmp_path, EVENTS_FILE)


def test_a_click_is_positive_by_default_and_a_purchase_where_the_rule_says_so():
    rows = [(10, 0, "impression", 5, 0.0), (10, 0, "click", 9, 0.0), (11, 0, "impression", 1005, 0.0)]
    rows += [(11, 0, "purchase", HALF_HOUR + 2000, 20.0)]
    found, _ = labels(*rows)
    assert (found[10, 0]["y"], found[11, 0]["y"]) == (1, 0)
    bought, _ = labels(*rows, rules=LabelRules(("purchase",)))
    assert (bought[10, 0]["y"], bought[11, 0]["y"]) == (0, 1)
