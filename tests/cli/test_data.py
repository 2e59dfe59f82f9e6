import json

import pytest
from typer.testing import CliRunner

from shortlist.cli.data import app
from shortlist.data import load_dataset

LOG = "uid,item,time,weight\n1,10,5,5\n1,10,5,5\n2,11,6,1\n2,12,8,4\n"


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    return path


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_prepare_writes_a_whole_folder_and_answers_with_one_json_object(log, tmp_path):
    out = tmp_path / "out"
    answer = call(
        "prepare", "tabular", log, "--out", out, "--column", "user=uid", "--min-weight", 2, "--json"
    )
    assert answer.exit_code == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found["rows"] == {"read": 4, "kept": 2, "dropped": {"exact duplicate": 1, "weight below 2": 1}}
    assert answer.stderr == ""
    dataset = load_dataset(out)
    assert len(dataset.events) == 2
    assert dataset.split_settings == {"protocol": "half-history", "seed": 0}
    assert (out / "report.html").read_text().startswith("<!doctype html>")
    assert json.loads((out / "report.json").read_text())["rows"] == found["rows"]


def test_prepare_tells_a_person_on_stderr(log, tmp_path):
    answer = call("prepare", "tabular", log, "--out", tmp_path / "out", "--column", "user=uid")
    assert answer.stdout == ""
    assert "left out: exact duplicate" in answer.stderr


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
    ("words", "told"),
    [
        (["--strict"], "rows would be left out (1 exact duplicate)"),
        (["--option", "unit"], "--option: expected key=value, got 'unit'"),
        (["--option", "shape=round"], "tabular: expected an option of"),
        (["--bad-lines", "drop"], "bad_lines: expected 'refuse' or 'skip', got 'drop'"),
        (["--split", "by-luck"], "split: expected a protocol of"),
    ],
)
def test_what_cannot_be_done_is_said(log, tmp_path, words, told):
    answer = call("prepare", "tabular", log, "--out", tmp_path / "out", "--column", "user=uid", *words)
    assert answer.exit_code == 2
    assert told in answer.stderr


def test_columns_cannot_be_named_where_they_are_known(log, tmp_path):
    answer = call("prepare", "movielens", log, "--out", tmp_path / "out", "--column", "user=uid")
    assert "its columns are known and cannot be named" in answer.stderr


def test_a_folder_is_written_over_only_by_force(log, tmp_path):
    words = ("prepare", "tabular", log, "--out", tmp_path / "out", "--column", "user=uid")
    assert call(*words).exit_code == 0
    assert call(*words).exit_code == 2
    assert call(*words, "--force", "--split", "leave-last-out").exit_code == 0
    assert load_dataset(tmp_path / "out").split_settings == {"protocol": "leave-last-out"}


def test_report_says_what_a_folder_holds(log, tmp_path):
    call("prepare", "tabular", log, "--out", tmp_path / "out", "--column", "user=uid")
    page = tmp_path / "page.html"
    answer = call("report", tmp_path / "out", "--json", "--out", page, "--seed", 3)
    assert json.loads(answer.stdout)["rows"]["read"] == 4
    assert page.read_text() == (tmp_path / "out" / "report.html").read_text()
    assert "rows read" in call("report", tmp_path / "out").stderr
    assert call("report", tmp_path / "nothing").exit_code == 2
