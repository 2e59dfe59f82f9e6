"""`shortlist data`: bring a log in, and look at what came."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from shortlist import __version__
from shortlist.artifact.staging import check_target
from shortlist.artifact.store import load
from shortlist.cli.frame import Json, Seed, doors, emit, progress, write_whole
from shortlist.data.cleaning import Filters
from shortlist.data.dataset import KIND, Dataset, load_dataset, save_dataset
from shortlist.data.prepare import prepare
from shortlist.data.sources import FORMS, SOURCES, options_of
from shortlist.data.summary import as_json, summarise
from shortlist.errors import ConfigError
from shortlist.report.data import data_page

app = typer.Typer(help="Bring a log in, and look at what came.", no_args_is_help=True)

PAGE, REPORT = "report.html", "report.json"


@app.command("prepare")
@doors()
def prepare_command(
    *,
    source: Annotated[str, typer.Argument(help=f"The format: {', '.join(sorted({*SOURCES, *FORMS}))}.")],
    path: Annotated[Path, typer.Argument(help="The file, folder or zip to read.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    name: Annotated[str, typer.Option(help="What to call the data set.")] = "",
    min_weight: Annotated[float | None, typer.Option(help="Leave out events that weigh less.")] = None,
    min_user_events: Annotated[int, typer.Option(help="Leave out users with fewer events.")] = 0,
    min_item_events: Annotated[int, typer.Option(help="Leave out items with fewer events.")] = 0,
    core: Annotated[bool, typer.Option(help="Repeat the two minima until both hold.")] = False,
    bad_lines: Annotated[str, typer.Option(help="refuse, or skip and count, bad lines.")] = "refuse",
    strict: Annotated[bool, typer.Option(help="Refuse the log if any row would be left out.")] = False,
    split: Annotated[str, typer.Option(help="half-history, global-time or leave-last-out.")] = "half-history",
    column: Annotated[list[str] | None, typer.Option(help="ours=theirs, e.g. user=uid; repeat it.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="key=value for the reader; repeat it.")] = None,
    seed: Seed = 0,
    force: Annotated[bool, typer.Option(help="Write over a data set that is there.")] = False,
    json: Json = False,
) -> None:
    """Read a log, check it, and write a data set that all else starts from."""
    options = _options(source, bad_lines, column or [], option or [])
    check_target(out, force)  # before the work, not after it
    with progress() as tell:
        tell(f"read {path.name}", 0, 2)
        dataset = prepare(
            source,
            path,
            name,
            options=options,
            filters=Filters(True, min_weight, min_user_events, min_item_events, core),
            strict=strict,
            split_settings=_split(split, seed),
        )
        tell(f"read {path.name}", 1, 2)
        summary = _save(dataset, out, force)
        tell(f"read {path.name}", 2, 2)
    _tell({"out": str(out), **summary}, json)


@app.command("report")
@doors()
def report_command(
    folder: Annotated[Path, typer.Argument(help="A folder that `prepare` wrote.")],
    out: Annotated[Path | None, typer.Option(help="Write the page to this file.")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Say what is in a data set; nothing is drawn by lot, so the seed changes nothing."""
    summary = _summary(folder)
    if out is not None:
        write_whole(out, data_page(summary))
    _tell({**summary, **({"out": str(out)} if out else {})}, json)


def _save(dataset: Dataset, out: Path, force: bool) -> dict[str, Any]:
    summary = summarise(dataset)
    extra = {REPORT: as_json(summary), PAGE: data_page(summary)}
    save_dataset(dataset, out, f"shortlist {__version__}", extra, overwrite=force)
    return summary


def _summary(folder: Path) -> dict[str, Any]:
    artifact = load(folder, KIND)
    if REPORT in artifact:
        summary: dict[str, Any] = artifact.json(REPORT)
        return summary
    return summarise(load_dataset(folder))


def _options(source: str, bad_lines: str, columns: list[str], options: list[str]) -> dict[str, Any]:
    given: dict[str, Any] = dict(_pair(text, "--option") for text in options)
    if "columns" in given:
        raise ConfigError("--option: columns are named with --column ours=theirs")
    if bad_lines != "refuse":
        given["bad_lines"] = bad_lines
    if columns:
        given["columns"] = dict(_pair(text, "--column") for text in columns)
    if source in SOURCES and "columns" in given and "columns" not in options_of(source):
        raise ConfigError(f"{source}: its columns are known and cannot be named; leave out --column")
    return given


def _pair(text: str, flag: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise ConfigError(f"{flag}: expected key=value, got {text!r}")
    return key, value


def _split(protocol: str, seed: int) -> dict[str, Any]:
    return {"protocol": protocol, **({"seed": seed} if protocol == "half-history" else {})}


def _tell(summary: Mapping[str, Any], json: bool) -> None:
    if json:
        emit(summary)
        return
    table = Table(title=str(summary["name"]), show_header=False)
    for label, value in _lines(summary):
        table.add_row(label, value)
    Console(stderr=True).print(table)


def _lines(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = summary["rows"]
    dropped = [(f"left out: {reason}", f"{count:,}") for reason, count in rows["dropped"].items()]
    span = summary["time"]
    return [
        ("rows read", f"{rows['read']:,}"),
        *dropped,
        ("events", f"{rows['kept']:,}"),
        ("users", f"{summary['users']:,}"),
        ("items", f"{summary['items']:,}"),
        ("density", f"{summary['density']:.4%}"),
        ("time", f"{span['first']} to {span['last']}" if span["clock"] == "ms" else "order only"),
        *([("written to", str(summary["out"]))] if "out" in summary else []),
    ]
