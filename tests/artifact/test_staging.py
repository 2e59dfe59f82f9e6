"""Folders appear under their name complete or not at all."""

import errno
import os
from pathlib import Path

import pytest

from shortlist.artifact import Lineage, save
from shortlist.artifact.staging import (
    MANIFEST,
    check_target,
    check_writable,
    current_folder,
    staged,
    write_whole,
)
from shortlist.errors import ArtifactError


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_folder_appears_when_the_block_succeeds(tmp_path):
    with staged(tmp_path / "deep" / "a") as staging:
        (staging / "x").write_text("1")
        assert not (tmp_path / "deep" / "a").exists()
    assert listing(tmp_path / "deep" / "a") == ["x"]
    assert listing(tmp_path / "deep") == ["a"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_failed_block_leaves_nothing(tmp_path, failure):
    def write() -> None:
        with staged(tmp_path / "a") as staging:
            (staging / "x").write_text("1")
            raise failure

    with pytest.raises(failure):
        write()
    assert listing(tmp_path) == []


def test_staging_folders_of_dead_processes_are_removed_and_of_running_ones_kept(tmp_path):
    dead, alive = tmp_path / ".a.staging-999999999-x", tmp_path / f".a.staging-{os.getpid()}-x"
    dead.mkdir()
    alive.mkdir()
    with staged(tmp_path / "a"):
        pass
    assert listing(tmp_path) == sorted(["a", alive.name])


def test_backup_of_a_killed_writer_is_found_and_restored(tmp_path):
    backup = tmp_path / ".a.old"
    backup.mkdir()
    (backup / MANIFEST).write_text("{}")
    assert current_folder(tmp_path / "a") == backup
    with pytest.raises(ArtifactError, match="already holds"), staged(tmp_path / "a"):
        pass
    assert listing(tmp_path) == ["a"]


def test_targets_that_must_not_be_overwritten_are_refused(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("")
    for name, why in (("file", "is a file"), ("link", "is a link"), ("full", "not an artifact")):
        with pytest.raises(ArtifactError, match=why):
            check_target(tmp_path / name, overwrite=True)
    check_target(tmp_path / "new", overwrite=False)


def test_backup_of_a_killed_writer_is_an_artifact_before_the_work_too(tmp_path):
    (tmp_path / ".a.old").mkdir()
    (tmp_path / ".a.old" / MANIFEST).write_text("{}")
    with pytest.raises(ArtifactError, match="already holds an artifact"):
        check_target(tmp_path / "a", overwrite=False)
    check_target(tmp_path / "a", overwrite=True)


def test_current_folder_is_not_replaced_and_no_lock_file_is_left_in_it(tmp_path, monkeypatch):
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a")
    for folder in (Path(), Path(".."), tmp_path / "a"):
        with pytest.raises(ArtifactError, match="is the current folder or holds it"), staged(folder):
            pass
    assert listing(tmp_path / "a") == ["b"]
    check_target(Path("b"), overwrite=False)


def test_folder_inside_an_artifact_is_refused(tmp_path):
    save(tmp_path / "a", "toy", {"x": "1"}, Lineage())
    with pytest.raises(
        ArtifactError, match=r"a/deep/b: lies inside the artifact .*/a; choose a folder outside"
    ):
        check_target(tmp_path / "a" / "deep" / "b", overwrite=True)
    (tmp_path / MANIFEST).write_text('{"name": "of another program"}')
    check_target(tmp_path / "b", overwrite=False)


def test_file_is_written_whole_or_not_at_all(tmp_path):
    write_whole(tmp_path / "deep" / "page.html", "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(tmp_path / "deep" / "page.html", "new \ud800")
    assert (tmp_path / "deep" / "page.html").read_text() == "old"
    assert listing(tmp_path / "deep") == ["page.html"]


def test_error_of_the_operating_system_names_the_folder_that_was_given(tmp_path, monkeypatch):
    def full(self: Path, blob: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # as `write` raises it, without a path

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left on device") as raised:
        save(tmp_path / "a", "toy", {"x": "1"}, Lineage())
    assert raised.value.filename == str(tmp_path / "a")
    assert listing(tmp_path) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_error_of_the_operating_system_names_the_file_that_was_given(tmp_path, monkeypatch, number):
    def refused(self: Path, text: str, encoding: str) -> int:
        raise OSError(number, os.strerror(number), str(self))

    monkeypatch.setattr(Path, "write_text", refused)
    with pytest.raises(OSError, match=os.strerror(number)) as raised:
        write_whole(tmp_path / "page.html", "text")
    assert raised.value.filename == str(tmp_path / "page.html")


def test_an_error_about_another_file_keeps_its_name(tmp_path):
    with pytest.raises(FileNotFoundError) as raised, staged(tmp_path / "deep" / "a"):
        (tmp_path / "input.csv").read_text()
    assert raised.value.filename == str(tmp_path / "input.csv")


def test_place_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (Path("/proc/nowhere/bundle"), tmp_path / "file" / "bundle"):
        with pytest.raises(OSError, match=r"No such file|Not a directory") as raised:
            check_writable(path)
        assert raised.value.filename == str(path)
    check_writable(tmp_path / "deep" / "er" / "bundle")
    assert listing(tmp_path) == ["file"]
