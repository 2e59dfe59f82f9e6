"""From served candidates and feedback to labels: a pure function of both and of the rules."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from shortlist.artifact.as_json import as_json
from shortlist.errors import ConfigError
from shortlist.feedback.events.append import LATENESS_MS
from shortlist.feedback.record import MISSING, Array, LoggedRequests
from shortlist.feedback.schema import EVENTS

MINUTE_MS, DAY_MS = 60_000, 86_400_000
WINDOWS: Mapping[str, int] = dict.fromkeys(EVENTS, DAY_MS) | {
    "impression": 30 * MINUTE_MS,
    "play": 30 * MINUTE_MS,
    "click": 30 * MINUTE_MS,
}
"""Milliseconds after the request in which an event counts."""
IMPRESSION, PLAY = EVENTS.index("impression"), EVENTS.index("play")
EVENT_COLUMNS = ("request_id", "item_id", "event", "event_ts_ms", "value")


@dataclass(frozen=True)
class LabelRules:
    """Which events make y = 1, and how long each may take."""

    positive: tuple[str, ...] = ("play", "click")
    least_play_ms: float = 0.0  # a shorter play is not positive
    windows: Mapping[str, int] = field(default_factory=lambda: dict(WINDOWS))
    allowed_lateness_ms: int = LATENESS_MS

    def __post_init__(self) -> None:
        unknown = [name for name in (*self.positive, *self.windows) if name not in EVENTS]
        if unknown or not self.positive or set(self.windows) != set(EVENTS):
            raise ConfigError(
                f"label rules: expected positive events and a window for each of {', '.join(EVENTS)}, got "
                f"{list(self.positive)} and windows for {', '.join(self.windows)}"
            )

    @cached_property
    def version(self) -> int:
        """A number that changes with every rule: 31 bits of a hash."""
        text = json.dumps(as_json(self), sort_keys=True)
        return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) >> 1

    @property
    def window(self) -> int:
        """Milliseconds after which y is closed."""
        return max(self.windows[name] for name in self.positive)

    @property
    def by_number(self) -> Array:
        """The window of each event number."""
        return np.array([self.windows[name] for name in EVENTS], np.int64)


@dataclass(frozen=True, eq=False)
class MatchedEvents:
    """Events of served candidates: the place of the candidate, the number of the event, its time and value."""

    served: Array
    event: Array
    after_ms: Array  # milliseconds after the request
    value: Array
    correction: Array


def labels_of(
    record: LoggedRequests,
    events: Sequence[tuple[pa.Table, bool]],
    rules: LabelRules,
    watermark: int,
    durations: Mapping[Any, float] | None = None,
) -> tuple[pa.Table, Counter[str]]:
    """One label per served candidate of a record, and counts of what was not used.

    Each table of events comes with whether it holds corrections. `durations` are milliseconds by item id.
    """
    served = np.flatnonzero(record.position > 0)
    served = served[np.lexsort((record.position[served], record.request[served]))]
    counts: Counter[str] = Counter()
    matched = _matched(record, served, events, counts)
    inside = _in_window(matched, rules, counts)
    happened, play = _happened(inside, len(served), rules)
    if inside.correction.any():
        before, _ = _happened(_only(inside, ~inside.correction), len(served), rules)
        counts["labels_changed_by_corrections"] += int((before != happened).any(axis=1).sum())
    table = _label_table(record, served, happened, play, rules, watermark, durations)
    shown, positive = happened[:, IMPRESSION], happened[:, -1]
    counts["positive_without_impression"] += int((positive & ~shown).sum())
    if durations is not None:
        no_ratio = table["play_ms"].is_valid().to_numpy() & table["watch_ratio"].is_null().to_numpy()
        counts["plays_without_duration"] += int(no_ratio.sum())
    return table, counts


def _matched(
    record: LoggedRequests, served: Array, events: Sequence[tuple[pa.Table, bool]], counts: Counter[str]
) -> MatchedEvents:
    """Events of these requests that belong to a served candidate, each once."""
    if not events:
        none = np.zeros(0, np.int64)
        return MatchedEvents(none, none, none, none.astype(np.float64), none.astype(bool))
    late = np.repeat([flag for _, flag in events], [len(table) for table, _ in events])
    items = _item_column([table["item_id"] for table, _ in events])
    columns = {name: _joined(events, name) for name in EVENT_COLUMNS if name != "item_id"}
    order = np.argsort(record.request_id, kind="stable")
    row = order[
        np.minimum(np.searchsorted(record.request_id[order], columns["request_id"]), max(len(order) - 1, 0))
    ]
    known = record.request_id[row] == columns["request_id"]
    counts["events"] += int(known.sum())
    place = _places(record, served, row, items)
    found = known & (place >= 0)
    counts["item_not_served"] += int((known & (place < 0)).sum())
    keep = np.flatnonzero(found)
    keep = keep[np.lexsort((late[keep], columns["event_ts_ms"][keep], columns["event"][keep], place[keep]))]
    keep = _distinct(keep, (place, columns["event"], columns["event_ts_ms"]), counts)
    after = columns["event_ts_ms"][keep] - record.ts_ms[row[keep]]
    return MatchedEvents(place[keep], columns["event"][keep], after, columns["value"][keep], late[keep])


def _places(record: LoggedRequests, served: Array, row: Array, items: pa.Array) -> Array:
    """For each event, the place of its candidate among the served ones, -1 if it was not served."""
    own = pa.array(record.item_id[served])
    if own.type != items.type:
        own, items = own.cast(pa.string()), items.cast(pa.string())
    codes = pa.concat_arrays([own, items]).dictionary_encode().indices.to_numpy().astype(np.int64)
    width = int(codes.max(initial=0)) + 1
    keys = record.request[served] * width + codes[: len(served)]
    event_keys = row * width + codes[len(served) :]
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys[order], event_keys), max(len(keys) - 1, 0))
    if not len(keys):
        return np.full(len(row), MISSING, np.int64)
    return np.where(keys[order][at] == event_keys, order[at], MISSING)


def _distinct(keep: Array, keys: Sequence[Array], counts: Counter[str]) -> Array:
    """The first of equal events; `keep` is sorted by the keys."""
    repeated = np.zeros(len(keep), bool)
    if len(keep):
        repeated[1:] = np.all([key[keep][1:] == key[keep][:-1] for key in keys], axis=0)
    counts["duplicate_events"] += int(repeated.sum())
    return keep[~repeated]


def _in_window(matched: MatchedEvents, rules: LabelRules, counts: Counter[str]) -> MatchedEvents:
    before = matched.after_ms < 0
    after = matched.after_ms > rules.by_number[matched.event]
    counts["before_the_request"] += int(before.sum())
    counts["after_the_window"] += int(after.sum())
    counts["corrections"] += int(matched.correction.sum())
    return _only(matched, ~before & ~after)


def _only(matched: MatchedEvents, keep: Array) -> MatchedEvents:
    return MatchedEvents(*(getattr(matched, name)[keep] for name in MatchedEvents.__dataclass_fields__))


def _happened(events: MatchedEvents, count: int, rules: LabelRules) -> tuple[Array, Array]:
    """Whether each event occurred, a last column for positive ones [N, E + 1], and milliseconds of play [N]."""
    happened = np.zeros((count, len(EVENTS) + 1), bool)
    happened[events.served, events.event] = True
    positive = np.isin(events.event, [EVENTS.index(name) for name in rules.positive])
    positive &= (events.event != PLAY) | (events.value >= rules.least_play_ms)
    happened[events.served[positive], -1] = True
    plays = events.event == PLAY
    return happened, np.bincount(events.served[plays], events.value[plays], minlength=count)


def _label_table(
    record: LoggedRequests,
    served: Array,
    happened: Array,
    play: Array,
    rules: LabelRules,
    watermark: int,
    durations: Mapping[Any, float] | None,
) -> pa.Table:
    ts = record.ts_ms[record.request[served]]
    closed = ts + rules.window <= watermark
    shown = happened[:, IMPRESSION]
    multi = {}
    for number, name in enumerate(EVENTS):
        over = ts + rules.windows[name] <= watermark
        multi[name] = _ternary(happened[:, number], shown, over)
    ratio, known = _watch_ratio(record.item_id[served], play, durations)
    return pa.table(
        {
            "request_id": pa.array(record.request_id[record.request[served]]),
            "item_id": pa.array(record.item_id[served]),
            "position": pa.array(record.position[served]),
            "y": _ternary(happened[:, -1], shown, closed),
            "y_multi": pa.StructArray.from_arrays(list(multi.values()), list(multi)),
            "play_ms": pa.array(play.astype(np.float32), mask=~happened[:, PLAY]),
            "watch_ratio": pa.array(ratio, mask=~known | ~happened[:, PLAY]),
            "closed_at_ms": pa.array(ts + rules.window, mask=~closed),
            "rule_version": pa.array(np.full(len(served), rules.version, np.int32)),
        }
    )


def _ternary(happened: Array, shown: Array, closed: Array) -> pa.Array:
    """1 where it happened, 0 where the item was shown and it did not, null before the window is over."""
    return pa.array(happened.astype(np.int8), mask=~closed | ~(happened | shown))


def _watch_ratio(ids: Array, play: Array, durations: Mapping[Any, float] | None) -> tuple[Array, Array]:
    if durations is None:
        return np.zeros(len(ids), np.float32), np.zeros(len(ids), bool)
    length = np.array([durations.get(one, 0.0) for one in ids.tolist()], np.float64)
    known = length > 0
    return (play / np.where(known, length, 1.0)).astype(np.float32), known


def _joined(events: Sequence[tuple[pa.Table, bool]], name: str) -> Array:
    return np.concatenate([table[name].to_numpy() for table, _ in events])


def _item_column(columns: Sequence[Any]) -> pa.Array:
    """Item ids of several tables; text if any of them is text."""
    arrays = [
        column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns
    ]
    kind = pa.int64() if all(pa.types.is_integer(one.type) for one in arrays) else pa.string()
    joined = pa.chunked_array([one.cast(kind) for one in arrays], kind).combine_chunks()
    return joined
