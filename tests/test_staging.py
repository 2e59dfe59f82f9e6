import os
from pathlib import Path

import pytest

from shortlist.artifact.staging import MANIFEST, check_target, staged, standing
from shortlist.errors import ArtifactError


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_folder_appears_when_the_block_ends_well(tmp_path):
    with staged(tmp_path / "deep" / "a") as staging:
        (staging / "x").write_text("1")
        assert not (tmp_path / "deep" / "a").exists()
    assert listing(tmp_path / "deep" / "a") == ["x"]
    assert listing(tmp_path / "deep") == ["a"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_nothing_is_left_when_it_does_not(tmp_path, failure):
    def write() -> None:
        with staged(tmp_path / "a") as staging:
            (staging / "x").write_text("1")
            raise failure

    with pytest.raises(failure):
        write()
    assert listing(tmp_path) == []


def test_what_a_dead_writer_left_is_swept_and_what_a_living_one_holds_stays(tmp_path):
    dead, alive = tmp_path / ".a.staging-999999999-x", tmp_path / f".a.staging-{os.getpid()}-x"
    dead.mkdir()
    alive.mkdir()
    with staged(tmp_path / "a"):
        pass
    assert listing(tmp_path) == sorted(["a", alive.name])


def test_an_artifact_set_aside_is_found_and_comes_back(tmp_path):
    aside = tmp_path / ".a.old"
    aside.mkdir()
    (aside / MANIFEST).write_text("{}")
    assert standing(tmp_path / "a") == aside
    with pytest.raises(ArtifactError, match="already holds"), staged(tmp_path / "a"):
        pass
    assert listing(tmp_path) == ["a"]


def test_what_may_not_be_written_over(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("")
    for name, why in (("file", "is a file"), ("link", "is a link"), ("full", "not an artifact")):
        with pytest.raises(ArtifactError, match=why):
            check_target(tmp_path / name, overwrite=True)
    check_target(tmp_path / "new", overwrite=False)
