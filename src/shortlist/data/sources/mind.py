"""MIND: clicked news before the log (history), and shown news, clicked or not (impressions)."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shortlist.data.raw_events import RawEvents
from shortlist.data.tables.delimited import read_delimited
from shortlist.data.tables.files import find_file, require_file
from shortlist.data.tables.layout import Layout
from shortlist.data.tables.parsed import ParsedTable, expanded
from shortlist.data.tables.to_events import attribute_table, to_events

BEHAVIOURS = {"impression": "text", "user": "id", "time": "time", "history": "text", "shown": "clicks"}
NEWS = ("item", "category", "subcategory", "title", "abstract", "url", "title_entities", "abstract_entities")
CLOCK = "%m/%d/%Y %I:%M:%S %p"

Numbers = NDArray[np.int64]


def read_mind(path: Path | str, bad_lines: str = "refuse") -> RawEvents:
    """Read clicks at their time, and each user's history once, as events just before the first impression.

    The log has no times for the history: its items get the milliseconds before the user's first impression.
    Impressions without click and repetitions of the history are counted as dropped rows.
    """
    layout = Layout(tuple(BEHAVIOURS), BEHAVIOURS, "\t", time_format=CLOCK)
    found = read_delimited(require_file(path, ("behaviors.tsv",)), layout, bad_lines)
    raw = _events(found)
    news = find_file(path, "news.tsv")
    if news is None:
        return raw
    table = read_delimited(news, Layout(NEWS, dict.fromkeys(NEWS[:4], "text"), "\t"))
    columns = {name: name for name in ("title", "category", "subcategory")}
    return replace(raw, item_table=attribute_table(table, "item", "item", columns, raw.items))


def _events(found: ParsedTable) -> RawEvents:
    times = _milliseconds(found)
    past, past_lines, repeated = _histories(found, times)
    shown, shown_lines, clicked = _impressions(found)
    lines = np.concatenate([past_lines, shown_lines])
    table = pa.table(
        {
            "user": found.table["user"].combine_chunks().take(pa.array(lines)),
            "item": pa.concat_arrays([past, shown]),
            "time": np.concatenate([_before(times, past_lines), times[shown_lines]]),
        }
    )
    events = expanded(found, table, lines)
    unclicked = {"not clicked": np.append(np.zeros(len(past), bool), ~clicked)}
    raw = to_events(events, user="user", item="item", time="time", unit="ms", dropped=unclicked)
    dropped = {**raw.dropped, **({"repeated history": repeated} if repeated else {})}
    return replace(raw, read=raw.read + repeated, dropped=dropped)


def _milliseconds(found: ParsedTable) -> Numbers:
    times: Numbers = pc.cast(found.table["time"], pa.timestamp("ms")).to_numpy().astype(np.int64)
    return times


def _histories(found: ParsedTable, times: Numbers) -> tuple[pa.Array, Numbers, int]:
    """The history of each user's first impression, the line of every item, and the number of repeated items."""
    text = pc.utf8_trim_whitespace(found.table["history"].combine_chunks())
    words = pc.utf8_split_whitespace(text)
    counts = np.where(np.asarray(pc.equal(text, "")), 0, np.asarray(pc.list_value_length(words))).astype(
        np.int64
    )
    lines = _first_lines(found, times)
    kept = words.take(pa.array(lines[counts[lines] > 0]))
    return kept.flatten(), np.repeat(lines, counts[lines]), int(counts.sum() - counts[lines].sum())


def _first_lines(found: ParsedTable, times: Numbers) -> Numbers:
    coded = found.table["user"].unify_dictionaries().combine_chunks()
    users = np.asarray(coded.indices)
    order = np.lexsort((np.arange(len(users)), times, users))
    first = np.append(True, users[order][1:] != users[order][:-1])[: len(order)]
    return np.sort(order[first])


def _impressions(found: ParsedTable) -> tuple[pa.Array, Numbers, NDArray[np.bool_]]:
    words = pc.split_pattern(found.table["shown"].combine_chunks(), " ")
    flat = words.flatten()
    lines = np.repeat(np.arange(len(words)), np.asarray(pc.list_value_length(words)))
    return pc.utf8_slice_codeunits(flat, 0, -2), lines, np.asarray(pc.ends_with(flat, "-1"))


def _before(times: Numbers, lines: Numbers) -> Numbers:
    """Times of history items: consecutive milliseconds before the first impression."""
    place = np.arange(len(lines)) - np.searchsorted(lines, lines)
    left = np.searchsorted(lines, lines, side="right") - np.searchsorted(lines, lines) - place
    return times[lines] - left
