"""Two commands that write to one folder: the second is refused at once, and the first finishes."""

import os
import subprocess
import sys

from shortlist.artifact.lock import only_writer
from shortlist.artifact.store import load
from tests.conftest import TINY

SHORTLIST = [sys.executable, "-m", "shortlist"]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*SHORTLIST, *map(str, arguments)], capture_output=True, text=True, check=False)


def test_second_training_into_one_folder_is_refused_before_it_trains(data_folder, tmp_path):
    recipe, out = tmp_path / "tiny.toml", tmp_path / "out"
    recipe.write_text(TINY.replace("epochs = 8", "epochs = 1"))
    command = [*SHORTLIST, "train", recipe, "--data", data_folder, "--out", out]
    processes = [
        subprocess.Popen(
            [str(part) for part in command], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        for _ in range(2)
    ]
    errors = [process.communicate()[1] for process in processes]
    codes = [process.returncode for process in processes]
    assert sorted(codes) == [0, 2]
    refused, other = codes.index(2), codes.index(0)
    assert f"out: process {processes[other].pid} (" in errors[refused] or "already holds" in errors[refused]
    assert load(out).kind == "recommender"


def test_second_training_with_the_same_checkpoints_is_refused_before_it_trains(data_folder, tmp_path):
    recipe, saved = tmp_path / "tiny.toml", tmp_path / "saved"
    recipe.write_text(TINY)
    with only_writer(saved, inside=True):
        options = ("--data", data_folder, "--out", tmp_path / "deep" / "out", "--checkpoint-dir", saved)
        refused = run("train", recipe, *options)
    assert refused.returncode == 2
    assert f"saved: process {os.getpid()} (" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.toml"]


def test_append_to_a_mistyped_folder_leaves_nothing_behind(tmp_path):
    refused = run("data", "append", tmp_path / "no" / "data", tmp_path / "new.csv")
    assert refused.returncode == 2
    assert "manifest.json: not found" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_data_is_not_prepared_twice_into_one_folder(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("user,item,time\n" + "".join(f"u{n % 30},i{n % 7},{n}\n" for n in range(600)))
    command = ("data", "prepare", "csv", log, "--out", tmp_path / "data")
    with only_writer(tmp_path / "data"):
        refused = run(*command)
    assert refused.returncode == 2
    assert "data: process" in refused.stderr
    assert run(*command).returncode == 0
