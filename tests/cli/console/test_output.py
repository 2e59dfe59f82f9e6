"""Text is printed as it is: markup stays text, and nothing in a title controls the terminal."""

import ast
import io
import json
import time
from pathlib import Path

import pytest

from shortlist.cli.console import frame
from shortlist.cli.console.output import Console, Table, echo
from shortlist.errors import visible

FOLDER = Path(frame.__file__).parents[1]
HOSTILE = "[red]x[/] [link=http://a]b[/link] :tada: \x1b[31mred\x1b]8;;http://a\x07link \x9bJ \u202eback\nerror: no\tx"
SHOWN = r"[red]x[/] [link=http://a]b[/link] :tada: \x1b[31mred\x1b]8;;http://a\x07link \x9bJ \u202eback\nerror: no\tx"


def printed(*objects: object) -> str:
    out = io.StringIO()
    Console(file=out, width=200, force_terminal=True, color_system=None).print(*objects)
    return out.getvalue()


def test_control_characters_become_escapes_and_other_scripts_stay():
    assert visible(HOSTILE) == SHOWN
    titles = "Amélie 千と千尋の神隠し می‌خواهم 👩‍👩‍👧 שלום"
    assert visible(titles) == titles
    assert visible("\ud800") == r"\ud800"


def test_line_is_printed_without_markup(capsys):
    assert printed(HOSTILE) == SHOWN + "\n"
    echo(HOSTILE)
    assert capsys.readouterr().out == SHOWN + "\n"


def test_table_prints_cells_headers_titles_and_captions_without_markup():
    table = Table("plain\nheader", "[bold]header\x1b", title="[/] title \x1b", caption="[red] caption \x1b")
    table.add_row(HOSTILE, "[/]")
    text = printed(table)
    for expected in (SHOWN, "[/] title \\x1b", "[red] caption \\x1b", r"[bold]header\x1b"):
        assert expected in text
    assert "\x1b" not in text.replace("\x1b[0m", "")


def test_json_holds_hostile_text_without_raw_control_characters(capsys):
    frame.emit({"title": HOSTILE})
    line = capsys.readouterr().out
    assert json.loads(line) == {"title": HOSTILE}
    assert visible(line, keep="\n") == line


def test_progress_bar_prints_descriptions_without_markup():
    out = io.StringIO()
    with frame.bars(
        Console(file=out, force_terminal=True, width=200, color_system=None), delay=0.0
    ) as update:
        update("read [/] \x07", 1, 3)
        for _ in range(500):
            if "read" in out.getvalue():
                break
            time.sleep(0.01)
    assert r"read [/] \x07" in out.getvalue()


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.name)
def test_verb_prints_only_through_output(path: Path):
    """`typer.echo`, `print` and Rich itself would interpret what a title contains."""
    if path.name in ("output.py", "__init__.py"):  # the latter prints the version
        return
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("rich.console", "rich.table", "rich"):
            assert path.name == "frame.py", (
                f"line {node.lineno}: import Console and Table from shortlist.cli.console.output"
            )
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in ("print", "typer.echo", "typer.secho", "click.echo", "rich.print"), (
                node.lineno
            )


def test_long_id_is_printed_whole_in_a_narrow_table():
    table, text = Table(), io.StringIO()
    for name in ("item", "score"):
        table.add_column(name)
    table.add_row("x" * 60, "0.5")
    Console(file=text, width=30).print(table)
    assert text.getvalue().count("x") == 60
