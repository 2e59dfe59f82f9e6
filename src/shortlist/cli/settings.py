"""shortlist settings: every stage type with its settings."""

from typing import Annotated

import typer

from shortlist.cli.console.frame import Json, emit, errors_to_exit_codes
from shortlist.cli.console.output import Console, Table
from shortlist.train.type_settings import TypeSettings, describe_type, describe_types, shown


@errors_to_exit_codes()
def settings(
    type_: Annotated[
        str, typer.Argument(metavar="[TYPE]", help="A stage type such as sasrec; all types without it.")
    ] = "",
    json: Json = False,
) -> None:
    """Every stage type with its settings, defaults, ranges and meanings."""
    types = (describe_type(type_),) if type_ else describe_types()
    if json:
        emit({"types": types})
    elif type_:
        _print_settings(types[0])
    else:
        _print_types(types)


def _print_types(types: tuple[TypeSettings, ...]) -> None:
    table = Table("type", "kind", "settings", "meaning", title="Stage types", title_justify="left")
    for one in types:
        table.add_row(one.type, one.kind, str(len(one.settings)), one.meaning)
    console = Console()
    console.print(table)
    console.print("shortlist settings TYPE shows the settings of one type")


def _print_settings(one: TypeSettings) -> None:
    console = Console()
    console.print(f"{one.type} ({one.kind}): {one.meaning}")
    for header, key in (("[stages.NAME]", "type"), ("[stages.NAME.train]", "")):
        rows = [setting for setting in one.settings if setting.table == header]
        if not rows and not key:
            continue
        table = Table("setting", "default", "range", "meaning", title=header, title_justify="left")
        if key:
            table.add_row(key, shown(one.type), "", "The stage type.")
        for setting in rows:
            default = "required" if setting.required else shown(setting.default)
            table.add_row(setting.name, default, setting.range, setting.meaning)
        console.print(table)
