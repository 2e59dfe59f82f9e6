"""Every row of the table in docs/guide/input-oddities.md is run: its files, its options, what it says happens."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shortlist.cli.data import app
from shortlist.data import load_dataset
from tests.data.sources.oddities import CASES

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "input-oddities.md"


def table():
    """The rows of the page: oddity -> (options, what happens)."""
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    cells = [
        [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines
    ]
    rows = [row for row in cells if row[0] != "input"]
    assert len(rows) == len({name for name, *_ in rows})
    return {name: (options.strip("`"), outcome) for name, options, outcome in rows}


TABLE = table()


def test_every_row_has_a_case_and_every_case_a_row():
    assert set(TABLE) == set(CASES)
    assert len(TABLE) >= 25


def events(folder):
    """Events as (user, item, time, weight) in the order of the vocabulary, None where the log has none."""
    dataset = load_dataset(folder)
    log = dataset.events
    users, items = dataset.users.ids_of(log.users), dataset.items.ids_of(log.items)
    return list(zip(users, items, log.times.tolist(), log.weights.tolist(), strict=True))


def expected_events(given):
    """The same form: without times the order counts, without weights they are 1."""
    dated = [(u, i, at if t is None else t, 1.0 if w is None else w) for at, (u, i, t, w) in enumerate(given)]
    return sorted((str(u), str(i), t, w) for u, i, t, w in dated)


@pytest.mark.parametrize("name", CASES)
def test_an_odd_input_does_what_the_page_says(name, tmp_path, monkeypatch):
    files, found = CASES[name]
    options, outcome = TABLE[name]
    monkeypatch.chdir(tmp_path)
    for file, content in files.items():
        Path("in").mkdir(exist_ok=True)
        Path("in", file).write_bytes(content.encode() if isinstance(content, str) else content)
    source = "in" if len(files) > 1 and "in/items.csv" not in options else f"in/{next(iter(files))}"
    answer = CliRunner().invoke(app, ["prepare", "tabular", source, "--out", "out", *shlex.split(options)])
    if found is None:
        message = answer.stderr.removeprefix("error: ").strip().replace("in/", "")
        assert (answer.exit_code, f"refused: `{message}`") == (2, outcome)
    else:
        assert answer.exit_code == 0, answer.stderr
        assert outcome.startswith("read")
        assert sorted((str(u), str(i), t, w) for u, i, t, w in events("out")) == expected_events(found)


def test_the_skipped_lines_are_written_with_file_line_and_reason(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text(CASES["bad lines, skipped"][0]["log.csv"])
    answer = CliRunner().invoke(app, ["prepare", "csv", "log.csv", "--out", "out", "--bad-lines", "skip"])
    assert answer.exit_code == 0
    rows = Path("out/rejects.csv").read_text().splitlines()
    assert rows[0] == "file,line,reason,text"
    assert sorted(int(row.split(",")[1]) for row in rows[1:]) == [4, 5, 6, 7, 8, 9]
    assert '''log.csv,4,"expected 4 fields (user,item,time,weight), got 2","bob,3"''' in rows
    assert '''log.csv,7,empty id,",4,1700000000,1"''' in rows


def test_categories_with_a_separator_are_lists(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file, content in CASES["several categories in one field"][0].items():
        Path(file).write_text(content)
    CliRunner().invoke(app, ["prepare", "csv", "log.csv", "--items", "items.csv", "--out", "out"])
    assert load_dataset("out").catalog.table["category"].to_pylist() == [["Action", "Comedy"]]
