"""MIND: news that was read before (history), and news that was shown and clicked or not (impressions)."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shortlist.data.raw import Raw
from shortlist.data.sources.delimited import read_delimited
from shortlist.data.sources.door import admit, describe
from shortlist.data.sources.files import find, need
from shortlist.data.sources.found import Found
from shortlist.data.sources.layout import Layout

BEHAVIOURS = {"impression": "text", "user": "id", "time": "time", "history": "text", "shown": "clicks"}
NEWS = ("item", "category", "subcategory", "title", "abstract", "url", "title_entities", "abstract_entities")
CLOCK = "%m/%d/%Y %I:%M:%S %p"

Numbers = NDArray[np.int64]


def read_mind(path: Path | str, bad_lines: str = "refuse") -> Raw:
    """Read clicks at their time, and each user's history once, as events just before the first impression.

    The log gives no times for the history: its items get the milliseconds before the user's first impression.
    What was shown and not clicked, and the history told again, is counted among the rows left out.
    """
    layout = Layout(tuple(BEHAVIOURS), BEHAVIOURS, "\t", time_format=CLOCK)
    found = read_delimited(need(path, ("behaviors.tsv",)), layout, bad_lines)
    raw = _events(found)
    news = find(path, "news.tsv")
    if news is None:
        return raw
    told = read_delimited(news, Layout(NEWS, dict.fromkeys(NEWS[:4], "text"), "\t"))
    columns = {name: name for name in ("title", "category", "subcategory")}
    return replace(raw, described=describe(told, "item", "item", columns, raw.items))


def _events(found: Found) -> Raw:
    times = _milliseconds(found)
    past, past_lines, again = _histories(found, times)
    seen, seen_lines, clicked = _impressions(found)
    lines = np.concatenate([past_lines, seen_lines])
    table = pa.table(
        {
            "user": found.table["user"].combine_chunks().take(pa.array(lines)),
            "item": pa.concat_arrays([past, seen]),
            "time": np.concatenate([_before(times, past_lines), times[seen_lines]]),
        }
    )
    events = Found(table, found.name, lambda row: found.where(int(lines[row])), found.bad)
    refused = {"not clicked": np.append(np.zeros(len(past), bool), ~clicked)}
    raw = admit(events, user="user", item="item", time="time", unit="ms", refused=refused)
    dropped = {**raw.dropped, **({"repeated history": again} if again else {})}
    return replace(raw, read=raw.read + again, dropped=dropped)


def _milliseconds(found: Found) -> Numbers:
    times: Numbers = pc.cast(found.table["time"], pa.timestamp("ms")).to_numpy().astype(np.int64)
    return times


def _histories(found: Found, times: Numbers) -> tuple[pa.Array, Numbers, int]:
    """The history of each user's first impression, the line of every item, and how many were repeats."""
    text = pc.utf8_trim_whitespace(found.table["history"].combine_chunks())
    words = pc.utf8_split_whitespace(text)
    counts = np.where(np.asarray(pc.equal(text, "")), 0, np.asarray(pc.list_value_length(words))).astype(
        np.int64
    )
    lines = _first_lines(found, times)
    kept = words.take(pa.array(lines[counts[lines] > 0]))
    return kept.flatten(), np.repeat(lines, counts[lines]), int(counts.sum() - counts[lines].sum())


def _first_lines(found: Found, times: Numbers) -> Numbers:
    coded = found.table["user"].unify_dictionaries().combine_chunks()
    users = np.asarray(coded.indices)
    order = np.lexsort((np.arange(len(users)), times, users))
    first = np.append(True, users[order][1:] != users[order][:-1])[: len(order)]
    return np.sort(order[first])


def _impressions(found: Found) -> tuple[pa.Array, Numbers, NDArray[np.bool_]]:
    words = pc.split_pattern(found.table["shown"].combine_chunks(), " ")
    flat = words.flatten()
    lines = np.repeat(np.arange(len(words)), np.asarray(pc.list_value_length(words)))
    return pc.utf8_slice_codeunits(flat, 0, -2), lines, np.asarray(pc.ends_with(flat, "-1"))


def _before(times: Numbers, lines: Numbers) -> Numbers:
    """The milliseconds that lead up to the first impression, one per item of the history."""
    place = np.arange(len(lines)) - np.searchsorted(lines, lines)
    left = np.searchsorted(lines, lines, side="right") - np.searchsorted(lines, lines) - place
    return times[lines] - left
