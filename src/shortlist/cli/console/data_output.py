"""What the verbs of `shortlist data` write and print: the data set with its report, verdict, sizes, first events."""

import json as json_text
from pathlib import Path

from shortlist import __version__
from shortlist.artifact.as_json import as_json
from shortlist.cli.console.frame import emit
from shortlist.cli.console.output import Console, Table
from shortlist.data.append import Added
from shortlist.data.dataset import Dataset, save_dataset
from shortlist.data.raw_events import REJECTS, rejects_csv
from shortlist.data.report import DataReport, data_report
from shortlist.report.data import data_page


def save_with_report(dataset: Dataset, out: Path, force: bool, append: bool = False) -> DataReport:
    """Write the data set, `report.json` and `report.html` as one folder; `append` keeps the rejects of the old one."""
    report = data_report(dataset)
    text = json_text.dumps(as_json(report), indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    extra = {"report.json": text, "report.html": data_page(report)}
    if append and (rejects := _rejects(out)):
        new = rejects_csv(dataset.rejects).partition("\n")[2]  # without the header
        extra[REJECTS] = rejects.read_text("utf-8") + new
    save_dataset(dataset, out, f"shortlist {__version__}", extra, overwrite=force)
    return report


def print_report(report: DataReport, out: Path | None, json: bool, added: Added | None = None) -> None:
    """One JSON object, or what was added, the verdict and two tables."""
    if json:
        paths = {"out": out, "rejects": _rejects(out)}
        more = {"added": as_json(added)} if added else {}
        emit({**as_json(report), **more, **{name: str(path) for name, path in paths.items() if path}})
        return
    console = Console(stderr=True)
    if added:
        console.print(added.sentence)
    for sentence in report.verdict:
        console.print(sentence)
    for warning in filter(None, (*report.warnings, report.split_warning)):
        console.print(f"warning: {warning}")
    console.print(_sizes(report, out))
    console.print(_sample(report))


def _rejects(out: Path | None) -> Path | None:
    """The file of skipped lines in a data set; None if there are none."""
    return out / REJECTS if out and (out / REJECTS).is_file() else None


def _sizes(report: DataReport, out: Path | None) -> Table:
    rows, time = report.rows, report.time
    table = Table(title=report.name, show_header=False)
    for label, value in (
        ("rows read", f"{rows.read:,}"),
        *((f"dropped: {reason}", f"{count:,}") for reason, count in rows.dropped.items()),
        ("events", f"{rows.kept:,}"),
        ("users", f"{report.users:,}"),
        ("items", f"{report.items:,}"),
        ("density", f"{report.density:.4%}"),
        ("time", f"{time.first} to {time.last}" if time.clock == "ms" else "no times"),
        ("split", str(report.split["protocol"])),
        *([("weights", report.weights)] if report.weights else []),
        *([("written to", str(out))] if out else []),
        *([("skipped lines", str(rejects))] if (rejects := _rejects(out)) else []),
    ):
        table.add_row(label, value)
    return table


def _sample(report: DataReport) -> Table:
    table = Table("user", "item", "title", "categories", "time", "weight", title="first events")
    for one in report.sample:
        cells = (
            one.user,
            one.item,
            one.title,
            ", ".join(one.categories),
            (one.time or "")[:16].replace("T", " "),
            f"{one.weight:g}",
        )
        table.add_row(*map(str, cells))
    return table
