"""shortlist data append: add the events of a file to a data set."""

from pathlib import Path
from typing import Annotated

import typer

from shortlist.artifact.lock import only_writer
from shortlist.cli.console.arguments import pairs, source_of
from shortlist.cli.console.data_output import print_report, save_with_report
from shortlist.cli.console.frame import Json, Seed, errors_to_exit_codes, progress
from shortlist.data.append import DUPLICATES, added_by, append
from shortlist.data.dataset import load_dataset

AS_PREPARED = "Default: as in `data prepare`."


@errors_to_exit_codes()
def append_command(
    *,
    data: Annotated[Path, typer.Argument(help="A folder made by `shortlist data prepare`.")],
    path: Annotated[
        list[str],
        typer.Argument(
            help="Files, folders, zips or quoted patterns with new events; - reads standard input."
        ),
    ],
    format: Annotated[str | None, typer.Option(help=f"Format of the new events. {AS_PREPARED}")] = None,
    user: Annotated[str | None, typer.Option(help=f"Column of user ids. {AS_PREPARED}")] = None,
    item: Annotated[str | None, typer.Option(help=f"Column of item ids. {AS_PREPARED}")] = None,
    time: Annotated[str | None, typer.Option(help=f"Column of times. {AS_PREPARED}")] = None,
    weight: Annotated[str | None, typer.Option(help=f"Column of weights. {AS_PREPARED}")] = None,
    columns: Annotated[
        list[str] | None, typer.Option("--column", help="Further columns as ours=theirs; repeatable.")
    ] = None,
    options: Annotated[
        list[str] | None, typer.Option("--option", help="Option of the reader as key=value; repeatable.")
    ] = None,
    items: Annotated[str | None, typer.Option(help="Table of items; it fills gaps of the data set.")] = None,
    users: Annotated[str | None, typer.Option(help="Table of users; it fills gaps of the data set.")] = None,
    delimiter: Annotated[
        str | None, typer.Option(help=f"Delimiter of a text table, such as ';' or '\\t'. {AS_PREPARED}")
    ] = None,
    encoding: Annotated[str | None, typer.Option(help=f"Encoding of a text table. {AS_PREPARED}")] = None,
    decimal: Annotated[str | None, typer.Option(help=f"Decimal sign, '.' or ','. {AS_PREPARED}")] = None,
    list_separator: Annotated[
        str | None, typer.Option(help=f"Separator of lists in item columns. {AS_PREPARED}")
    ] = None,
    bad_lines: Annotated[
        str | None,
        typer.Option(help=f"refuse bad lines, or skip, count and add them to rejects.csv. {AS_PREPARED}"),
    ] = None,
    duplicates: Annotated[
        str,
        typer.Option(help=f"{' or '.join(DUPLICATES)} events with the user, item and time of another one."),
    ] = DUPLICATES[0],
    strict: Annotated[bool, typer.Option(help="Fail if any row would be dropped.")] = False,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Add events to a data set; its users and items keep their rows, and nothing is written if a line is refused."""
    shown = f"read {Path(path[0]).name}"
    with only_writer(data), progress() as show:
        show(shown, 0, 2)
        old = load_dataset(data)
        dataset = append(
            old,
            source_of(path),
            format,
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
            bad_lines=bad_lines,
            duplicates=duplicates,
            strict=strict,
        )
        show(shown, 1, 2)
        report = save_with_report(dataset, data, force=True, append=True)
        show(shown, 2, 2)
    print_report(report, data, json, added_by(old, dataset))
