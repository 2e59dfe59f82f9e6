"""One writer per folder: the second process or thread is refused at once, and a dead process holds nothing."""

import errno
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shortlist.artifact.lock import only_writer
from shortlist.artifact.staging import staged
from shortlist.errors import ArtifactError

WRITER = """
import sys
from pathlib import Path
from shortlist.artifact.lock import only_writer
with only_writer(Path(sys.argv[1])):
    print("writing", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def writer(tmp_path):
    """Another process that holds the lock of a folder until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, tmp_path / "out"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "writing\n"
    yield process
    process.kill()
    process.communicate()


def write(folder: Path) -> None:
    with staged(folder) as staging:
        (staging / "x").write_text("mine")


def test_second_process_is_refused_at_once_and_the_first_is_named(writer, tmp_path):
    with pytest.raises(ArtifactError) as refused:
        write(tmp_path / "out")
    message = str(refused.value)
    assert message.startswith(f"{tmp_path / 'out'}: process {writer.pid} (")
    assert "is writing to it; wait until it has ended, or choose another path" in message
    write(tmp_path / "other")


def test_folder_is_free_when_the_writer_has_ended_and_no_lock_file_is_left(writer, tmp_path):
    writer.communicate("")
    write(tmp_path / "out")
    assert os.listdir(tmp_path) == ["out"]


def test_killed_writer_holds_nothing(writer, tmp_path):
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    assert os.listdir(tmp_path) == [".out.lock"]
    write(tmp_path / "out")
    assert os.listdir(tmp_path) == ["out"]


def test_second_thread_is_refused_and_the_same_one_may_write_inside_its_work(tmp_path):
    with only_writer(tmp_path / "out"), ThreadPoolExecutor() as threads:
        with pytest.raises(ArtifactError, match="another thread of this process is writing"):
            threads.submit(write, tmp_path / "out").result()
        write(tmp_path / "out")
    assert os.listdir(tmp_path) == ["out"]


def test_a_folder_reached_by_another_path_has_the_same_lock(writer, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(ArtifactError, match=f"process {writer.pid}"):
        write(tmp_path / "link" / "out")


def test_folders_made_for_a_lock_are_removed_unless_something_was_written(tmp_path):
    with only_writer(tmp_path / "deep" / "er" / "out"):
        assert os.listdir(tmp_path / "deep" / "er") == [".out.lock"]
    assert os.listdir(tmp_path) == []
    write(tmp_path / "deep" / "er" / "out")
    assert os.listdir(tmp_path / "deep" / "er") == ["out"]


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_lock_that_cannot_be_made_is_reported_with_the_folder_that_was_given(tmp_path, monkeypatch, number):
    def refused(path, *_):
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr("shortlist.artifact.lock.os.open", refused)
    with pytest.raises(OSError, match=os.strerror(number)) as raised, only_writer(tmp_path / "out"):
        pass
    assert raised.value.filename == str(tmp_path / "out")


def test_lock_inside_a_folder_refuses_a_second_thread_and_leaves_no_file(tmp_path):
    folder = tmp_path / "checkpoints"

    def second() -> None:
        with only_writer(folder, inside=True):
            pass

    with only_writer(folder, inside=True), ThreadPoolExecutor() as threads:
        assert os.listdir(folder) == [".lock"]
        with pytest.raises(ArtifactError, match=f"^{folder}: another thread of this process is writing"):
            threads.submit(second).result()
    assert os.listdir(tmp_path) == []


def test_current_folder_is_locked_beside_it(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with only_writer(Path()):
        assert sorted(os.listdir(tmp_path)) == [".here.lock", "here"]
        assert os.listdir() == []
