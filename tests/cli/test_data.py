"""`shortlist data`: the verbs parse, call the library and print."""

import inspect
import json

import pytest
from typer.testing import CliRunner

import shortlist
from shortlist.cli.data import app, prepare_command
from shortlist.data import load_dataset

LOG = "uid,item,time,weight\n1,10,5,5\n1,10,5,5\n2,11,6,1\n2,12,8,4\n"


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    return path


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_prepare_writes_a_folder_and_prints_one_json_object(log, tmp_path):
    out = tmp_path / "out"
    answer = call(
        "prepare", "tabular", log, "--out", out, "--column", "user=uid", "--min-weight", 2, "--json"
    )
    assert answer.exit_code == 0, answer.stderr
    report = json.loads(answer.stdout)
    assert report["rows"] == {"read": 4, "kept": 2, "dropped": {"exact duplicate": 1, "weight below 2": 1}}
    assert answer.stderr == ""
    dataset = load_dataset(out)
    assert len(dataset.events) == 2
    assert dataset.split_settings == {"protocol": "leave-last-out"}
    assert "nothing can be measured" in report["split_reason"]
    assert (out / "report.html").read_text().startswith("<!doctype html>")
    assert json.loads((out / "report.json").read_text())["rows"] == report["rows"]


def test_prepare_prints_a_table_on_stderr(log, tmp_path):
    answer = call("prepare", "tabular", log, "--out", tmp_path / "out", "--column", "user=uid")
    assert answer.stdout == ""
    assert "dropped: exact duplicate" in answer.stderr


def test_the_same_log_gives_the_same_bytes(log, tmp_path):
    for name in ("one", "two"):
        call("prepare", "tabular", log, "--out", tmp_path / name, "--column", "user=uid")
    for path in sorted((tmp_path / "one").iterdir()):
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_an_error_is_one_sentence_and_nothing_is_written(log, tmp_path):
    out = tmp_path / "out"
    answer = call("prepare", "tabular", log, "--out", out, "--json")
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert answer.stderr.startswith(
        f"error: {log}:1: expected a column 'user', found uid, item, time, weight"
    )
    assert answer.stderr.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--strict"], "rows would be dropped (1 exact duplicate)"),
        (["--option", "unit"], "--option: expected key=value, got 'unit'"),
        (["--option", "shape=round"], "tabular: expected an option of"),
        (["--bad-lines", "drop"], "--bad-lines: expected refuse or skip, got 'drop'"),
        (["--split", "by-luck"], "split: expected one of"),
    ],
)
def test_invalid_options_exit_with_a_message(log, tmp_path, options, message):
    answer = call("prepare", "tabular", log, "--out", tmp_path / "out", "--column", "user=uid", *options)
    assert answer.exit_code == 2
    assert message in answer.stderr


def test_columns_of_a_fixed_format_cannot_be_mapped(log, tmp_path):
    answer = call("prepare", "movielens", log, "--out", tmp_path / "out", "--column", "user=uid")
    assert "its columns are fixed" in answer.stderr


def test_an_existing_folder_is_replaced_only_with_force(log, tmp_path):
    arguments = ("prepare", "tabular", log, "--out", tmp_path / "out", "--column", "user=uid")
    assert call(*arguments).exit_code == 0
    assert call(*arguments).exit_code == 2
    assert call(*arguments, "--force", "--split", "leave-last-out").exit_code == 0
    assert load_dataset(tmp_path / "out").split_settings == {"protocol": "leave-last-out"}


def test_report_shows_the_contents_of_a_folder(log, tmp_path):
    call("prepare", "tabular", log, "--out", tmp_path / "out", "--column", "user=uid")
    page = tmp_path / "page.html"
    answer = call("report", tmp_path / "out", "--json", "--out", page, "--seed", 3)
    assert json.loads(answer.stdout)["rows"]["read"] == 4
    assert page.read_text() == (tmp_path / "out" / "report.html").read_text()
    assert "rows read" in call("report", tmp_path / "out").stderr
    assert call("report", tmp_path / "nothing").exit_code == 2


def test_read_has_the_arguments_and_defaults_of_the_verb():
    verb = inspect.signature(prepare_command).parameters
    library = inspect.signature(shortlist.read).parameters
    assert set(library) == set(verb) - {"out", "force", "json"}
    optional = set(library) - {"path", "format"}
    assert {name: library[name].default for name in optional} == {
        name: verb[name].default for name in optional
    }
