"""The data report: verdict, sample, sizes, time span, repeats, distributions and cold start of a data set."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from shortlist.data.catalog import Catalog
from shortlist.data.cleaning import duplicates
from shortlist.data.dataset import Dataset
from shortlist.data.interactions import Interactions
from shortlist.data.split import Split, SplitSettings
from shortlist.data.verdict import FEW, verdict, warnings
from shortlist.errors import DataError

LATE = 0.1  # an item whose first event lies in this last share of the time counts as new
TOP_CATEGORIES = 20
SAMPLE = 5  # events that are shown

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class RowCounts:
    """Rows of the log: read, kept, and dropped by reason."""

    read: int
    kept: int
    dropped: Mapping[str, int]


@dataclass(frozen=True)
class TimeSpan:
    """First and last event as ISO 8601 in UTC; None if the log has no times (clock "order")."""

    clock: str
    first: str | None = None
    last: str | None = None
    days: float | None = None


@dataclass(frozen=True)
class Repeats:
    """Events whose user interacted with the item before, and those that are exact duplicates."""

    pairs: int
    exact: int


@dataclass(frozen=True)
class Bin:
    """Number of values from `low` to `high`, both included."""

    low: int
    high: int
    count: int


@dataclass(frozen=True)
class Distribution:
    """Quantiles and mean of counts, and a histogram whose bins double in width."""

    min: float
    p25: float
    median: float
    p75: float
    p90: float
    p99: float
    max: float
    mean: float
    histogram: tuple[Bin, ...]


@dataclass(frozen=True)
class Concentration:
    """Share of the events on the most popular items, and the Gini coefficient (1: one item has all)."""

    top_1_percent: float
    top_10_percent: float
    gini: float


@dataclass(frozen=True)
class ColdStart:
    """Share of users and items with fewer than `few` events, and of items new in the last tenth of the time."""

    few: int
    users: float
    items: float
    new_items: float | None  # None if the log has no times


@dataclass(frozen=True)
class CategoryCount:
    """Items and events of one category; an item with several categories counts in each."""

    category: str
    items: int
    events: int


@dataclass(frozen=True)
class Categories:
    """Number of categories, and the largest ones by events."""

    count: int
    top: tuple[CategoryCount, ...]


@dataclass(frozen=True)
class SampleEvent:
    """One event as the log has it."""

    user: int | str
    item: int | str
    title: str
    categories: tuple[str, ...]
    time: str | None  # ISO 8601 in UTC; None if the log has no times
    weight: float


@dataclass(frozen=True)
class DataReport:
    """What `shortlist data report` shows."""

    name: str
    fingerprint: str
    verdict: tuple[str, ...]  # sizes, histories, split; a sentence each
    warnings: tuple[str, ...]  # of the item table; that of the split is `split_warning`
    sample: tuple[SampleEvent, ...]  # the first events
    rows: RowCounts
    users: int
    items: int
    described: int  # items with a title, a category or another column
    density: float  # share of (user, item) pairs with an event
    time: TimeSpan
    repeats: Repeats
    histories: Distribution  # events per user
    popularity: Distribution  # events per item
    concentration: Concentration
    cold: ColdStart
    categories: Categories
    split: SplitSettings
    weights: str  # how the weights of the log are used; empty: all are 1
    split_reason: str  # why the protocol was chosen, if it was not given
    split_warning: str  # what the split leaves out, if that is much, or why it is impossible


def data_report(dataset: Dataset) -> DataReport:
    """The report of a data set."""
    events = dataset.events
    split, split_warning = _split(dataset)
    return DataReport(
        name=dataset.name,
        fingerprint=dataset.fingerprint,
        verdict=verdict(dataset, split),
        warnings=warnings(dataset),
        sample=tuple(_sample(dataset, at) for at in range(min(SAMPLE, len(events)))),
        rows=_rows(dataset),
        users=events.n_users,
        items=events.n_items,
        described=dataset.catalog.described,
        density=_share(_pairs(events), events.n_users * events.n_items),
        time=_time(dataset),
        repeats=_repeats(dataset),
        histories=distribution(events.lengths),
        popularity=distribution(events.popularity),
        concentration=concentration(events.popularity),
        cold=_cold(dataset),
        categories=_categories(dataset.catalog, events.popularity),
        split=dict(dataset.split_settings),
        weights=dataset.facts.weights,
        split_reason=dataset.facts.split_reason,
        split_warning=split_warning,
    )


def _split(dataset: Dataset) -> tuple[Split | None, str]:
    """The split and what it leaves out, or why it is impossible."""
    try:
        split = dataset.split()
    except DataError as error:
        return None, str(error)
    return split, split.warning


def distribution(counts: Counts) -> Distribution:
    """Quantiles, mean and histogram; zeros if there are no counts."""
    if not len(counts):
        return Distribution(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, ())
    low, p25, median, p75, p90, p99, high = map(float, np.percentile(counts, [0, 25, 50, 75, 90, 99, 100]))
    return Distribution(low, p25, median, p75, p90, p99, high, float(counts.mean()), histogram(counts))


def histogram(counts: Counts) -> tuple[Bin, ...]:
    """Bins 0, 1, 2-3, 4-7, 8-15, ..., from the first that is not empty."""
    if not len(counts):
        return ()
    sizes = np.bincount(np.frexp(counts)[1])  # n lies in bin k when 2^(k-1) <= n < 2^k
    edges = [(0, 0)] + [(1 << (step - 1), (1 << step) - 1) for step in range(1, len(sizes))]
    bins = [Bin(low, high, int(size)) for (low, high), size in zip(edges, sizes, strict=True)]
    return tuple(bins[int(np.flatnonzero(sizes)[0]) :])


def concentration(popularity: Counts) -> Concentration:
    """How unevenly events are distributed over items."""
    ordered, total = np.sort(popularity)[::-1], int(popularity.sum())
    top_1, top_10 = (int(ordered[: max(1, len(ordered) * part // 100)].sum()) for part in (1, 10))
    return Concentration(_share(top_1, total), _share(top_10, total), gini(popularity))


def gini(counts: Counts) -> float:
    """2 sum(i x_i) / (n sum x) - (n + 1) / n over x in ascending order."""
    ascending = np.sort(counts).astype(np.float64)
    count, total = len(ascending), float(ascending.sum())
    if not total:
        return 0.0
    return float(2 * (np.arange(1, count + 1) @ ascending) / (count * total) - (count + 1) / count)


def _sample(dataset: Dataset, at: int) -> SampleEvent:
    events, item = dataset.events, int(dataset.events.items[at])
    return SampleEvent(
        dataset.users.id(int(events.users[at])),
        dataset.items.id(item),
        dataset.catalog.title(item),
        dataset.catalog.categories_of(item),
        iso(int(events.times[at])) if dataset.clock == "ms" else None,
        float(events.weights[at]),
    )


def _rows(dataset: Dataset) -> RowCounts:
    kept, facts = len(dataset.events), dataset.facts
    return RowCounts(kept if facts.read is None else facts.read, kept, dict(facts.dropped))


def _pairs(events: Interactions) -> int:
    """Number of distinct (user, item) pairs."""
    keys = events.users.astype(np.int64) * max(events.n_items, 1) + events.items
    keys.sort()
    return int(np.count_nonzero(keys[1:] != keys[:-1])) + bool(len(keys))


def _time(dataset: Dataset) -> TimeSpan:
    if dataset.clock != "ms" or not len(dataset.events):
        return TimeSpan(dataset.clock)
    first, last = int(dataset.events.times.min()), int(dataset.events.times.max())
    return TimeSpan("ms", iso(first), iso(last), (last - first) / 86_400_000)


def iso(milliseconds: int) -> str:
    """A time as ISO 8601 in UTC, or in milliseconds if it is outside the calendar of Python."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"


def _repeats(dataset: Dataset) -> Repeats:
    events = dataset.events
    exact = int(np.count_nonzero(duplicates(events))) if dataset.clock == "ms" else 0
    return Repeats(len(events) - _pairs(events), exact)


def _cold(dataset: Dataset) -> ColdStart:
    events = dataset.events
    return ColdStart(
        FEW,
        _share(int(np.count_nonzero(events.lengths < FEW)), events.n_users),
        _share(int(np.count_nonzero(events.popularity < FEW)), events.n_items),
        _new_items(events) if dataset.clock == "ms" else None,
    )


def _new_items(events: Interactions) -> float:
    """The share of items whose first event lies in the last tenth of the time."""
    if not len(events):
        return 0.0
    firsts = np.full(events.n_items, np.iinfo(np.int64).max)
    np.minimum.at(firsts, events.items, events.times)
    start, stop = int(events.times.min()), int(events.times.max())
    late = firsts > stop - LATE * (stop - start)
    return _share(int(np.count_nonzero(late & (events.popularity > 0))), events.n_items)


def _categories(catalog: Catalog, popularity: Counts) -> Categories:
    if "category" not in catalog.table.column_names:
        return Categories(0, ())
    item, place = np.nonzero(catalog.category_lists >= 0)  # every category of every item
    rows, count = catalog.category_lists[item, place], len(catalog.categories)
    events = np.bincount(rows, weights=popularity[item], minlength=count).astype(np.int64)
    items = np.bincount(rows, minlength=count)
    top = np.lexsort((np.arange(count), -events))[:TOP_CATEGORIES]
    listed = (
        CategoryCount(str(catalog.categories.id(row)), int(items[row]), int(events[row]))
        for row in top.tolist()
    )
    return Categories(count, tuple(listed))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
