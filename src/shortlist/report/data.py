"""The data report as a page."""

from collections.abc import Mapping
from typing import Any

from shortlist.report.page import Html, Section, facts, figure, page, table
from shortlist.report.plots import bars, histogram

MARKS = ("min", "p25", "median", "p75", "p90", "p99", "max", "mean")


def data_page(summary: Mapping[str, Any]) -> str:
    """One HTML document for what `summarise` found."""
    sections = [_overview(summary), _rows(summary), _histories(summary), _popularity(summary), _cold(summary)]
    categories = [_categories(summary)] if summary["categories"]["top"] else []
    return page(f"Data: {summary['name']}", [*sections, *categories])


def _overview(summary: Mapping[str, Any]) -> Section:
    span = summary["time"]
    told = {
        "events": summary["rows"]["kept"],
        "users": summary["users"],
        "items": summary["items"],
        "density": f"{summary['density']:.4%}",
        "from": (span["first"] or "order only")[:10],
        "to": (span["last"] or "order only")[:10],
        "split": summary["split"].get("protocol"),
        "fingerprint": summary["fingerprint"],
    }
    return Section("Overview", [facts(told)])


def _rows(summary: Mapping[str, Any]) -> Section:
    rows, repeats = summary["rows"], summary["repeats"]
    lines = [("read", rows["read"])]
    lines += [(f"left out: {reason}", count) for reason, count in rows["dropped"].items()]
    lines += [("kept", rows["kept"]), ("of these, a user with an item met before", repeats["pairs"])]
    lines += [("of these, exact duplicates", repeats["exact"])]
    return Section("Rows", [table(("rows", "count"), lines)])


def _histories(summary: Mapping[str, Any]) -> Section:
    found = summary["histories"]
    drawing = histogram(_steps(found), "events of a user", "users")
    return Section("Histories", [_marks(found), figure(drawing, "How many users have how many events.")])


def _popularity(summary: Mapping[str, Any]) -> Section:
    found = summary["popularity"]
    shares = {
        "events of the top 1% of items": f"{found['top_1_percent']:.1%}",
        "events of the top 10% of items": f"{found['top_10_percent']:.1%}",
        "Gini": f"{found['gini']:.3f}",
    }
    drawing = histogram(_steps(found), "events of an item", "items")
    caption = "How many items have how many events."
    return Section("Popularity", [_marks(found), facts(shares), figure(drawing, caption)])


def _cold(summary: Mapping[str, Any]) -> Section:
    cold = summary["cold"]
    told = {
        f"users with fewer than {cold['few']} events": f"{cold['users']:.1%}",
        f"items with fewer than {cold['few']} events": f"{cold['items']:.1%}",
        "items first met in the last tenth of the time": _percent(cold["new_items"]),
    }
    return Section("Cold start", [facts(told)])


def _categories(summary: Mapping[str, Any]) -> Section:
    top = summary["categories"]["top"]
    named = [(one["category"] or "(none)", one["events"]) for one in top]
    caption = f"The {len(top)} largest of {summary['categories']['count']:,} categories."
    lines = [(one["category"] or "(none)", one["items"], one["events"]) for one in top]
    parts = [figure(bars(named, "events"), caption), table(("category", "items", "events"), lines)]
    return Section("Categories", parts)


def _marks(found: Mapping[str, Any]) -> Html:
    return table(MARKS, [[found[mark] for mark in MARKS]])


def _steps(found: Mapping[str, Any]) -> list[tuple[str, float]]:
    return [(_span(step["from"], step["to"]), step["count"]) for step in found["histogram"]]


def _span(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _percent(share: float | None) -> str:
    return "order only" if share is None else f"{share:.1%}"
