"""shortlist data: import a log and inspect it."""

from pathlib import Path
from typing import Annotated

import typer

from shortlist.artifact.lock import only_writer
from shortlist.artifact.staging import check_target, check_writable, write_whole
from shortlist.cli.console.arguments import pairs, source_of
from shortlist.cli.console.data_output import print_report, save_with_report
from shortlist.cli.console.frame import Json, Seed, errors_to_exit_codes, progress
from shortlist.cli.data_append import append_command
from shortlist.data.catalog import LIST_SEPARATOR
from shortlist.data.choose_split import AUTO
from shortlist.data.dataset import load_dataset
from shortlist.data.read import read
from shortlist.data.report import data_report
from shortlist.data.sources import READERS, TABLE_FORMATS
from shortlist.data.split import PROTOCOLS
from shortlist.errors import ConfigError
from shortlist.report.data import data_page

app = typer.Typer(help="Import a log and inspect it.", no_args_is_help=True)
app.command("append")(append_command)

FORMATS = ", ".join(sorted({*READERS, *TABLE_FORMATS}))


@app.command("prepare")
@errors_to_exit_codes()
def prepare_command(
    *,
    format: Annotated[
        str, typer.Argument(help=f"Format of the log: {FORMATS}; may be left out for a table.")
    ],
    path: Annotated[
        list[str] | None,
        typer.Argument(help="Files, folders, zips or quoted patterns to read; - reads standard input."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the data set.")],
    name: Annotated[str, typer.Option(help="Name of the data set. Default: the file name.")] = "",
    user: Annotated[str | None, typer.Option(help="Column of user ids in a table.")] = None,
    item: Annotated[str | None, typer.Option(help="Column of item ids in a table.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of times in a table.")] = None,
    weight: Annotated[str | None, typer.Option(help="Column of weights in a table.")] = None,
    columns: Annotated[
        list[str] | None, typer.Option("--column", help="Further columns as ours=theirs; repeatable.")
    ] = None,
    options: Annotated[
        list[str] | None, typer.Option("--option", help="Option of the reader as key=value; repeatable.")
    ] = None,
    items: Annotated[str | None, typer.Option(help="Table of items beside the log: title, category.")] = None,
    users: Annotated[str | None, typer.Option(help="Table of users beside the log.")] = None,
    delimiter: Annotated[
        str, typer.Option(help="Delimiter of a text table, such as ';' or '\\t'. Default: detected.")
    ] = "",
    encoding: Annotated[
        str,
        typer.Option(help="Encoding of a text table, such as cp1252. Default: utf-8 or a byte-order mark."),
    ] = "",
    decimal: Annotated[
        str, typer.Option(help="Decimal sign of numbers, '.' or ','. Default: detected.")
    ] = "",
    list_separator: Annotated[
        str,
        typer.Option(
            help="Item columns in which it occurs are lists (Action|Comedy), except titles; '' splits none."
        ),
    ] = LIST_SEPARATOR,
    weights: Annotated[
        str | None,
        typer.Option(
            help="use weights as strengths of events, or implicit: count every event once. Default: use for "
            "tables, implicit for formats that carry ratings."
        ),
    ] = None,
    min_weight: Annotated[float | None, typer.Option(help="Drop events with a lower weight.")] = None,
    min_user_events: Annotated[int, typer.Option(help="Drop users with fewer events.")] = 0,
    min_item_events: Annotated[int, typer.Option(help="Drop items with fewer events.")] = 0,
    core: Annotated[bool, typer.Option(help="Repeat both minimum counts until both hold (k-core).")] = False,
    ties: Annotated[
        str,
        typer.Option(
            help="Order of a user's events of the same time: file, or hash (by a hash of user and item id)."
        ),
    ] = "file",
    bad_lines: Annotated[
        str,
        typer.Option(help="refuse bad lines, or skip them, count them and write them to OUT/rejects.csv."),
    ] = "refuse",
    strict: Annotated[bool, typer.Option(help="Fail if any row would be dropped.")] = False,
    split: Annotated[
        str, typer.Option(help=f"Split protocol: {', '.join(PROTOCOLS)}; auto: the one that fits the log.")
    ] = AUTO,
    min_length: Annotated[
        int | None, typer.Option(help="half-history, leave-last-out: least number of events of a user.")
    ] = None,
    held_out: Annotated[
        float | None, typer.Option(help="half-history: share of users for validation, and for test.")
    ] = None,
    first_halves: Annotated[
        bool | None, typer.Option(help="half-history: train on the first halves of held-out users too.")
    ] = None,
    train_share: Annotated[float | None, typer.Option(help="global-time: share of training events.")] = None,
    valid_share: Annotated[
        float | None, typer.Option(help="global-time: share of validation events.")
    ] = None,
    seed: Seed = 0,
    force: Annotated[bool, typer.Option(help="Replace a data set that exists.")] = False,
    json: Json = False,
) -> None:
    """Read and check a log, and write a data set for the other verbs."""
    check_target(out, force)  # before the work, not after it
    check_writable(out)
    format, path = _format_and_paths(format, path or [])
    shown = f"read {Path(path[0]).name}"
    with only_writer(out), progress() as show:
        show(shown, 0, 2)
        dataset = read(
            source_of(path),
            format,
            name=name,
            user=user,
            item=item,
            time=time,
            weight=weight,
            columns=pairs(columns or [], "--column"),
            options=pairs(options or [], "--option"),
            items=items,
            users=users,
            delimiter=delimiter,
            encoding=encoding,
            decimal=decimal,
            list_separator=list_separator,
            weights=weights,
            min_weight=min_weight,
            min_user_events=min_user_events,
            min_item_events=min_item_events,
            core=core,
            ties=ties,
            bad_lines=bad_lines,
            strict=strict,
            split=split,
            min_length=min_length,
            held_out=held_out,
            first_halves=first_halves,
            train_share=train_share,
            valid_share=valid_share,
            seed=seed,
        )
        show(shown, 1, 2)
        report = save_with_report(dataset, out, force)
        show(shown, 2, 2)
    print_report(report, out, json)


def _format_and_paths(first: str, rest: list[str]) -> tuple[str, list[str]]:
    """The format and the paths; a first argument that is no format is the path of a table."""
    if first in READERS or first in TABLE_FORMATS:
        if not rest:
            raise ConfigError(f"data prepare {first}: expected a path after the format, got none")
        return first, rest
    if not rest or Path(first).exists():
        return "tabular", [first, *rest]
    return first, rest


@app.command("report")
@errors_to_exit_codes()
def report_command(
    folder: Annotated[Path, typer.Argument(help="A folder made by `shortlist data prepare`.")],
    out: Annotated[Path | None, typer.Option(help="Write the HTML page to this file.")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Show what a data set contains; nothing is random, the seed has no effect."""
    report = data_report(load_dataset(folder))
    if out is not None:
        write_whole(out, data_page(report))
    print_report(report, out, json)
