"""The page of a data report."""

from shortlist.data.report import DataReport, Distribution
from shortlist.report.page import Section, facts, figure, page, table
from shortlist.report.plots import bars, histogram


def data_page(report: DataReport) -> str:
    """One HTML document: the verdict, the pictures, then tables."""
    sections = [_verdict(report), _pictures(report), _sample(report), _overview(report), _rows(report)]
    categories = [_categories(report)] if report.categories.top else []
    return page(f"Data: {report.name}", [*sections, _quantiles(report), _cold(report), *categories])


def _verdict(report: DataReport) -> Section:
    warned = [*report.warnings, *([report.split_warning] if report.split_warning else [])]
    return Section("Verdict", [*report.verdict, *(f"Warning: {one}" for one in warned)])


def _pictures(report: DataReport) -> Section:
    users = histogram(_bins(report.histories), "events of a user", "users")
    items = histogram(_bins(report.popularity), "events of an item", "items")
    drawings = [figure(users, "Users by number of events."), figure(items, "Items by number of events.")]
    return Section("Histories and popularity", drawings)


def _sample(report: DataReport) -> Section:
    """The first events; columns that say nothing are left out, so that the table fits a narrow screen."""
    columns = {
        "user": [str(one.user) for one in report.sample],
        "item": [str(one.item) for one in report.sample],
        "title": [one.title if one.title != str(one.item) else "" for one in report.sample],
        "categories": [", ".join(one.categories) for one in report.sample],
        "time": [(one.time or "")[:16].replace("T", " ") for one in report.sample],
        "weight": [f"{one.weight:g}" for one in report.sample if report.weights],
    }
    shown = {name: values for name, values in columns.items() if any(values)}
    return Section("First events", [table(list(shown), zip(*shown.values(), strict=True))])


def _overview(report: DataReport) -> Section:
    values = {
        "events": report.rows.kept,
        "users": report.users,
        "items": report.items,
        "items with a description": report.described,
        "density": f"{report.density:.4%}",
        "from": (report.time.first or "no times")[:10],
        "to": (report.time.last or "no times")[:10],
        "split": report.split.get("protocol"),
        "fingerprint": report.fingerprint,
    }
    return Section("Overview", [facts(values)])


def _rows(report: DataReport) -> Section:
    rows, repeats = report.rows, report.repeats
    lines = [("read", rows.read)]
    lines += [(f"dropped: {reason}", count) for reason, count in rows.dropped.items()]
    lines += [("kept", rows.kept), ("of these, repeated (user, item) pairs", repeats.pairs)]
    lines += [("of these, exact duplicates", repeats.exact)]
    return Section("Rows", [table(("rows", "count"), lines)])


def _quantiles(report: DataReport) -> Section:
    """Quantiles as rows, so that the table fits a narrow screen."""
    users, items = report.histories, report.popularity
    names = ("min", "p25", "median", "p75", "p90", "p99", "max", "mean")
    lines = [(name, getattr(users, name), getattr(items, name)) for name in names]
    shares = {
        "events of the top 1% of items": f"{report.concentration.top_1_percent:.1%}",
        "events of the top 10% of items": f"{report.concentration.top_10_percent:.1%}",
        "Gini coefficient": f"{report.concentration.gini:.3f}",
    }
    return Section("Events per user and per item", [table(("", "user", "item"), lines), facts(shares)])


def _cold(report: DataReport) -> Section:
    cold = report.cold
    values = {
        f"users with fewer than {cold.few} events": f"{cold.users:.1%}",
        f"items with fewer than {cold.few} events": f"{cold.items:.1%}",
        "items new in the last tenth of the time": _percent(cold.new_items),
    }
    return Section("Cold start", [facts(values)])


def _categories(report: DataReport) -> Section:
    top = report.categories.top
    drawing = bars([(one.category or "(none)", one.events) for one in top], "events")
    caption = f"The {len(top)} largest of {report.categories.count:,} categories."
    lines = [(one.category or "(none)", one.items, one.events) for one in top]
    return Section("Categories", [figure(drawing, caption), table(("category", "items", "events"), lines)])


def _bins(counts: Distribution) -> list[tuple[str, float]]:
    return [(_range(one.low, one.high), one.count) for one in counts.histogram]


def _range(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _percent(share: float | None) -> str:
    return "no times" if share is None else f"{share:.1%}"
