import errno
import io
import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
import typer
from rich.console import Console

from shortlist.cli.console.frame import bars, check_file, emit, errors_to_exit_codes, progress, resumable
from shortlist.cli.console.progress_lines import ProgressLines
from shortlist.errors import ConfigError, DataError
from shortlist.progress import silent


def test_error_becomes_one_sentence_on_stderr_and_exit_code_2(capsys):
    with pytest.raises(typer.Exit) as exit_, errors_to_exit_codes():
        raise DataError("log.csv:3: expected 4 fields,\n got 2")
    assert exit_.value.exit_code == 2
    assert capsys.readouterr() == ("", "error: log.csv:3: expected 4 fields, got 2\n")


def test_interrupt_says_that_nothing_was_written(capsys):
    @errors_to_exit_codes()
    def verb():
        raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as exit_:
        verb()
    assert exit_.value.exit_code == 130
    assert capsys.readouterr().err == "stopped; no partial file was left\n"


def test_decorated_verb_keeps_its_return_value():
    @errors_to_exit_codes()
    def verb(number: int) -> int:
        return number + 1

    assert verb(2) == 3


def test_emit_prints_one_json_object_with_null_for_nan_and_infinity(capsys):
    emit({"a": float("nan"), "b": [np.float32("inf"), np.int64(3)], "c": np.array([1, 2]), "d": ("x",)})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [None, 3], "c": [1, 2], "d": ["x"]}


def test_progress_is_written_in_lines_without_a_terminal_and_silent_on_request(monkeypatch):
    with progress() as update:
        assert isinstance(update, ProgressLines)
    monkeypatch.setenv("SHORTLIST_QUIET", "1")
    with progress() as update:
        assert update is silent


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "No space left on device; free space on this disk, or choose a path on another one"),
        (errno.EROFS, "Read-only file system; the disk is read-only"),
        (errno.EACCES, "Permission denied; choose a path for which you have the permission"),
        (errno.EISDIR, "Is a directory; choose a path that can be read and written"),
    ],
)
def test_error_of_the_operating_system_says_what_to_do(capsys, number, advice):
    with pytest.raises(typer.Exit), errors_to_exit_codes():
        raise OSError(number, os.strerror(number), "my/bundle")
    assert capsys.readouterr().err.startswith(f"error: my/bundle: {advice}")


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        (None, "start with: shortlist train 'my recipe' --checkpoint-dir FOLDER"),
        (
            Path("absent"),
            "nothing was saved yet; start again with the same command: shortlist train 'my recipe'",
        ),
        (Path("saved"), "continue from saved with the same command: shortlist train 'my recipe'"),
    ],
)
def test_interrupt_says_which_command_continues(capsys, monkeypatch, tmp_path, folder, message):
    monkeypatch.chdir(tmp_path)
    Path("saved").mkdir()
    monkeypatch.setattr("sys.argv", ["/bin/shortlist", "train", "my recipe"])
    with pytest.raises(typer.Exit), errors_to_exit_codes(), resumable(folder):
        raise KeyboardInterrupt
    assert capsys.readouterr().err.splitlines()[0] == "stopped; no partial file was left"
    with pytest.raises(typer.Exit), errors_to_exit_codes(), resumable(folder):
        raise KeyboardInterrupt
    assert message in capsys.readouterr().err


def test_bar_appears_after_a_delay():
    quick, slow = io.StringIO(), io.StringIO()
    with bars(Console(file=quick, force_terminal=True), delay=60.0) as update:
        update("reading", 1, 3)
    assert quick.getvalue() == ""
    with bars(Console(file=slow, force_terminal=True), delay=0.0) as update:
        update("reading", 1, 3)
        for _ in range(500):  # one long step that reports nothing more
            if "reading" in slow.getvalue():
                break
            time.sleep(0.01)
    assert "reading" in slow.getvalue()


def test_unwritable_path_is_reported_in_one_sentence():
    @errors_to_exit_codes()
    def verb() -> None:
        Path("/proc/nowhere/x").mkdir(parents=True)

    with pytest.raises(typer.Exit) as stopped:
        verb()
    assert stopped.value.exit_code == 2


def test_file_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    check_file(None, "--report")
    check_file(tmp_path / "deep" / "page.html", "--report")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError, match="--report: expected a file to write to, got the folder"):
        check_file(tmp_path, "--report")
    with pytest.raises(OSError, match="No such file") as refused:
        check_file(Path("/proc/nowhere/page.html"), "--report")
    assert refused.value.filename == "/proc/nowhere/page.html"
