"""`shortlist simulate`: a folder with a data set and a log, whole or not at all."""

import json

from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.data import open_dataset
from shortlist.feedback import inspect_log

TINY = ("--size", "tiny", "--requests", "70", "--set", "capacities=[60, 20, 8, 3]")


def simulate(*arguments):
    return CliRunner().invoke(app, ["simulate", *map(str, arguments)])


def test_data_and_log_are_written_and_a_second_run_is_refused(tmp_path):
    out = tmp_path / "sim"
    answer = simulate("short-video", "--out", out, *TINY, "--json")
    assert answer.exit_code == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert (found["requests"], found["log"]) == (70, str(out / "log"))
    assert len(open_dataset(out / "data").events)
    assert inspect_log(out / "log").requests == 70
    again = simulate("short-video", "--out", out, *TINY)
    assert (again.exit_code, "choose another folder" in again.stderr) == (2, True)


def test_wrong_setting_leaves_nothing(tmp_path):
    answer = simulate("short-video", "--out", tmp_path / "sim", "--set", "viws=1")
    assert (answer.exit_code, "unknown key 'viws'" in answer.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []
