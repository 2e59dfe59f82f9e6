"""What a data set looks like, in numbers that fit on a page."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shortlist.data.catalog import Catalog
from shortlist.data.cleaning import duplicates
from shortlist.data.dataset import Dataset
from shortlist.data.interactions import Interactions

FEW = 5  # events below which a user or an item counts as cold
LATE = 0.1  # the last part of the time in which a first event makes an item new
TOP_CATEGORIES = 20


def summarise(dataset: Dataset) -> dict[str, Any]:
    """The data report: rows, sizes, time, repeats, histories, popularity, cold shares and categories."""
    events = dataset.events
    return {
        "name": dataset.name,
        "fingerprint": dataset.fingerprint,
        "rows": _rows(dataset),
        "users": events.n_users,
        "items": events.n_items,
        "density": _share(_pairs(events), events.n_users * events.n_items),
        "time": _time(dataset),
        "repeats": _repeats(dataset),
        "histories": distribution(events.lengths),
        "popularity": {**distribution(events.popularity), **concentration(events.popularity)},
        "cold": _cold(dataset),
        "categories": _categories(dataset.catalog, events.popularity),
        "split": dict(dataset.split_settings),
    }


def as_json(summary: Mapping[str, Any]) -> str:
    """The report as the text of a file."""
    return json.dumps(summary, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def distribution(counts: NDArray[np.int64]) -> dict[str, Any]:
    """How counts spread: the usual marks, and a histogram whose steps double."""
    marks = np.percentile(counts, [0, 25, 50, 75, 90, 99, 100]) if len(counts) else np.zeros(7)
    names = ("min", "p25", "median", "p75", "p90", "p99", "max")
    found: dict[str, Any] = {name: float(mark) for name, mark in zip(names, marks, strict=True)}
    return {**found, "mean": float(counts.mean()) if len(counts) else 0.0, "histogram": histogram(counts)}


def histogram(counts: NDArray[np.int64]) -> list[dict[str, int]]:
    """How many counts lie in 0, 1, 2-3, 4-7, 8-15, ...; `to` belongs to the step."""
    steps = np.bincount(np.frexp(counts)[1])  # n lies in step k when 2^(k-1) <= n < 2^k
    edges = [(0, 0)] + [(1 << (step - 1), (1 << step) - 1) for step in range(1, len(steps))]
    first = int(np.flatnonzero(steps)[0]) if len(counts) else 0
    told = zip(edges[first:], steps[first:], strict=True) if len(counts) else ()
    return [{"from": low, "to": high, "count": int(count)} for (low, high), count in told]


def concentration(popularity: NDArray[np.int64]) -> dict[str, float]:
    """The share of events the most popular items have, and the Gini coefficient (1: one has all)."""
    ordered, total = np.sort(popularity)[::-1], int(popularity.sum())
    tops = {part: int(ordered[: max(1, len(ordered) * part // 100)].sum()) for part in (1, 10)}
    shares = {f"top_{part}_percent": _share(top, total) for part, top in tops.items()}
    return {**shares, "gini": gini(popularity)}


def gini(counts: NDArray[np.int64]) -> float:
    """2 sum(i x_i) / (n sum x) - (n + 1) / n over x in rising order."""
    rising = np.sort(counts).astype(np.float64)
    count, total = len(rising), float(rising.sum())
    if not total:
        return 0.0
    return float(2 * (np.arange(1, count + 1) @ rising) / (count * total) - (count + 1) / count)


def _rows(dataset: Dataset) -> dict[str, Any]:
    kept = len(dataset.events)
    facts = dataset.facts
    return {"read": facts.get("read", kept), "kept": kept, "dropped": dict(facts.get("dropped", {}))}


def _pairs(events: Interactions) -> int:
    """Distinct (user, item) pairs; the events are sorted by user, so the keys are sorted but for ties."""
    keys = events.users.astype(np.int64) * max(events.n_items, 1) + events.items
    keys.sort()
    return int(np.count_nonzero(keys[1:] != keys[:-1])) + bool(len(keys))


def _time(dataset: Dataset) -> dict[str, Any]:
    if dataset.clock != "ms" or not len(dataset.events):
        return {"clock": dataset.clock, "first": None, "last": None, "days": None}
    first, last = int(dataset.events.times.min()), int(dataset.events.times.max())
    return {"clock": "ms", "first": iso(first), "last": iso(last), "days": (last - first) / 86_400_000}


def iso(milliseconds: int) -> str:
    """A time as ISO 8601 in UTC, or the number itself where no calendar reaches."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"


def _repeats(dataset: Dataset) -> dict[str, int]:
    events = dataset.events
    exact = int(np.count_nonzero(duplicates(events))) if dataset.clock == "ms" else 0
    return {"pairs": len(events) - _pairs(events), "exact": exact}


def _cold(dataset: Dataset) -> dict[str, Any]:
    events = dataset.events
    return {
        "few": FEW,
        "users": _share(int(np.count_nonzero(events.lengths < FEW)), events.n_users),
        "items": _share(int(np.count_nonzero(events.popularity < FEW)), events.n_items),
        "new_items": _new_items(events) if dataset.clock == "ms" else None,
    }


def _new_items(events: Interactions) -> float:
    """The share of items whose first event lies in the last tenth of the time."""
    if not len(events):
        return 0.0
    firsts = np.full(events.n_items, np.iinfo(np.int64).max)
    np.minimum.at(firsts, events.items, events.times)
    start, stop = int(events.times.min()), int(events.times.max())
    late = firsts > stop - LATE * (stop - start)
    return _share(int(np.count_nonzero(late & (events.popularity > 0))), events.n_items)


def _categories(catalog: Catalog, popularity: NDArray[np.int64]) -> dict[str, Any]:
    if "category" not in catalog.table.column_names:
        return {"count": 0, "top": []}
    rows, count = catalog.category_rows, len(catalog.categories)
    events = np.bincount(rows, weights=popularity, minlength=count).astype(np.int64)
    items = np.bincount(rows, minlength=count)
    top = np.lexsort((np.arange(count), -events))[:TOP_CATEGORIES]
    told = [
        {"category": str(catalog.categories.id(row)), "items": int(items[row]), "events": int(events[row])}
        for row in top.tolist()
    ]
    return {"count": count, "top": told}


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
