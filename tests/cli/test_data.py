"""`shortlist data`: the verbs parse, call the library and print."""

import inspect
import json

import pytest
from typer.testing import CliRunner

import shortlist
from shortlist.cli.data import app, prepare_command
from shortlist.cli.data_append import append_command
from shortlist.data import append, load_dataset

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
        (
            ["--option", "shape=round"],
            "tabular: expected --option of file_format, names, unit, time_format, got 'shape'",
        ),
        (["--bad-lines", "drop"], "--bad-lines: expected refuse or skip, got 'drop'"),
        (["--split", "by-luck"], "--split: expected one of auto"),
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


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_append_adds_events_and_renews_the_report(log, tmp_path):
    out, new = tmp_path / "out", tmp_path / "new.csv"
    assert call("prepare", "tabular", log, "--out", out, "--user", "uid").exit_code == 0
    before = json.loads((out / "report.json").read_text())
    new.write_text("uid,item,time,weight\nnobody,10,1700000000,2\n")
    answer = call("append", out, new, "--json")
    assert answer.exit_code == 0, answer.stderr
    report = json.loads(answer.stdout)
    assert report["rows"]["kept"] == before["rows"]["kept"] + 1
    assert report["users"] == before["users"] + 1
    assert report.pop("added") == {"events": 1, "users": 1, "items": 0, "repeated": 0}
    assert json.loads((out / "report.json").read_text()) == {k: v for k, v in report.items() if k != "out"}
    assert load_dataset(out).facts.appended == ("new.csv",)


def test_append_says_first_what_it_added(log, tmp_path):
    out, new = tmp_path / "out", tmp_path / "new.csv"
    assert call("prepare", "tabular", log, "--out", out, "--user", "uid").exit_code == 0
    new.write_text("uid,item,time,weight\nnobody,10,1700000000,2\n")
    first, second = call("append", out, new).stderr, call("append", out, new).stderr
    assert first.startswith("1 event added, 1 new user, 0 new items, 0 already there.\n")
    assert second.startswith("0 events added, 0 new users, 0 new items, 1 already there.\n")


def test_skipped_lines_of_all_files_stay_in_one_file(log, tmp_path):
    out, new = tmp_path / "out", tmp_path / "new.csv"
    log.write_text(LOG + "first bad line\n")
    assert (
        call("prepare", "tabular", log, "--out", out, "--user", "uid", "--bad-lines", "skip").exit_code == 0
    )
    for text in ("second bad line", "third bad line"):
        new.write_text(f"uid,item,time,weight\n7,10,9,2\n{text}\n")
        assert call("append", out, new).exit_code == 0
    lines = (out / "rejects.csv").read_text().splitlines()
    assert [line.rpartition(",")[2] for line in lines] == [
        "text",
        "first bad line",
        "second bad line",
        "third bad line",
    ]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("uid,item,time,weight\n1,10\n", "new.csv:2: expected 4 fields"),
        ("customer,item,time,weight\n1,10,1700000000,1\n", "expected a column 'uid'"),
        ("uid,item,weight\n1,10,1\n", "has no times, and the data set log has times"),
    ],
)
def test_append_of_bad_input_leaves_every_byte_of_the_data_set(log, tmp_path, rows, message):
    out, new = tmp_path / "out", tmp_path / "new.csv"
    assert call("prepare", "tabular", log, "--out", out, "--user", "uid").exit_code == 0
    before = bytes_of(out)
    new.write_text(rows)
    answer = call("append", out, new)
    assert answer.exit_code == 2
    assert message in answer.stderr
    assert bytes_of(out) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv", "new.csv", "out"]


def test_append_has_the_options_and_defaults_of_the_function():
    verb, function = (inspect.signature(one).parameters for one in (append_command, append))
    own = {name: one.default for name, one in verb.items() if name not in ("json", "seed")}
    assert own == {name: one.default for name, one in function.items()}


def test_report_begins_with_the_verdict_and_shows_the_first_events(log, tmp_path):
    answer = call("prepare", "tabular", log, "--out", tmp_path / "out", "--user", "uid")
    first = answer.stderr.splitlines()[0]
    assert "events of" in first
    assert "users with" in first
    assert "first events" in answer.stderr


def test_prepare_reads_several_files_and_standard_input(log, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text("uid;item;time;weight\n7;10;9;4,5\n")
    answer = call("prepare", "csv", log, other, "--out", tmp_path / "both", "--user", "uid", "--json")
    assert json.loads(answer.stdout)["rows"]["read"] == 5
    piped = CliRunner().invoke(
        app, ["prepare", "csv", "-", "--out", str(tmp_path / "piped"), "--user", "uid", "--json"], input=LOG
    )
    assert json.loads(piped.stdout)["rows"]["read"] == 4


def test_skipped_lines_are_part_of_the_data_set(log, tmp_path):
    log.write_text(LOG + "broken\n")
    arguments = ("prepare", "csv", log, "--out", tmp_path / "out", "--user", "uid")
    assert call(*arguments).exit_code == 2
    report = json.loads(call(*arguments, "--bad-lines", "skip", "--json").stdout)
    assert report["rejects"] == str(tmp_path / "out" / "rejects.csv")
    assert (tmp_path / "out" / "rejects.csv").read_text().splitlines()[1].startswith("log.csv,6,")
    log.write_text(LOG)
    assert "rejects" not in json.loads(call(*arguments, "--bad-lines", "skip", "--force", "--json").stdout)
    assert not (tmp_path / "out" / "rejects.csv").exists()


def test_format_of_a_table_may_be_left_out(log, tmp_path):
    answer = call("prepare", log, "--out", tmp_path / "out", "--user", "uid")
    assert answer.exit_code == 0, answer.stderr
    assert load_dataset(tmp_path / "out").facts.format == "tabular"


def test_path_that_is_missing_is_named(log, tmp_path):
    assert "expected a path after the format" in call("prepare", "csv", "--out", tmp_path / "out").stderr
    assert "nosuch.csv" in call("prepare", "nosuch.csv", "--out", tmp_path / "out").stderr
    assert "format: expected one of" in call("prepare", "cvs", log, "--out", tmp_path / "out").stderr
