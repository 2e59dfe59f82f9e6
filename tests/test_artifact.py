"""Artifacts: whole or not there, trusted only after every check, and no code anywhere."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shortlist.artifact import store as artifact
from shortlist.artifact.staging import MANIFEST
from shortlist.artifact.store import Lineage, load, save
from shortlist.errors import ArtifactError

LINEAGE = Lineage("fingerprint", 7, "1.2.3", {"recipe": {"k": 3}})
TABLE = pa.table({"id": [1, 2], "title": ["a", "b"]})
WEIGHTS = {"w": torch.arange(6.0).reshape(2, 3), "n": torch.arange(4)}
PARTS = {
    "notes.txt": "hello",
    "raw.bin": b"\x00\xff",
    "items.parquet": TABLE,
    "weights/one.safetensors": WEIGHTS,
    "settings.json": '{"a": 1}',
}


@pytest.fixture
def folder(tmp_path):
    save(tmp_path / "m", "toy", PARTS, LINEAGE, {"name": "it"})
    return tmp_path / "m"


def test_what_was_saved_comes_back(folder):
    back = load(folder, "toy")
    assert (back.kind, back.lineage, back.about) == ("toy", LINEAGE, {"name": "it"})
    assert back.text("notes.txt") == "hello"
    assert back.json("settings.json") == {"a": 1}
    assert back.table("items.parquet").equals(TABLE)
    tensors = back.tensors("weights/one.safetensors")
    assert {name: tensor.tolist() for name, tensor in tensors.items()} == {
        n: t.tolist() for n, t in WEIGHTS.items()
    }
    assert (folder / "raw.bin").read_bytes() == b"\x00\xff"
    assert "notes.txt" in back
    assert "other.txt" not in back
    with pytest.raises(ArtifactError, match=r"holds no 'other.txt'; it has items.parquet, notes.txt"):
        back.text("other.txt")


def test_saving_returns_what_loading_does(tmp_path):
    made = save(tmp_path / "m", "toy", PARTS, LINEAGE, {"by row": {10: "x", 9: "y"}, "pair": (1, 2.5)})
    back = load(tmp_path / "m")
    assert made.manifest == back.manifest
    assert made.version == back.version
    assert back.about == {"by row": {"10": "x", "9": "y"}, "pair": [1, 2.5]}


def test_the_same_input_gives_the_same_bytes(tmp_path):
    one = save(tmp_path / "one", "toy", PARTS, LINEAGE)
    other = save(tmp_path / "other", "toy", dict(reversed(PARTS.items())), LINEAGE)
    assert one.version == other.version
    files = [path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file()]
    assert len(files) == len(PARTS) + 1
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    weights = {"w.safetensors": dict(reversed(WEIGHTS.items()))}
    again = [
        save(tmp_path / f"w{n}", "t", part, LINEAGE)
        for n, part in enumerate([{"w.safetensors": WEIGHTS}, weights])
    ]
    assert again[0].version == again[1].version


def test_another_byte_is_another_version(tmp_path):
    one = save(tmp_path / "one", "toy", {"a.txt": "x"}, LINEAGE)
    other = save(tmp_path / "other", "toy", {"a.txt": "y"}, LINEAGE)
    assert one.version != other.version


def test_tensors_that_share_memory_or_lie_crosswise_are_saved_all_the_same(tmp_path):
    base = torch.arange(6.0).reshape(2, 3)
    save(tmp_path / "m", "toy", {"w.safetensors": {"a": base, "b": base, "c": base.T}}, LINEAGE)
    back = load(tmp_path / "m").tensors("w.safetensors")
    assert torch.equal(back["b"], base)
    assert torch.equal(back["c"], base.T)


@pytest.mark.skipif(not Path("/proc/self/maps").is_file(), reason="only Linux tells what is mapped")
def test_tensors_stay_on_disk_until_they_are_looked_at(tmp_path):
    base = torch.arange(6.0)
    save(tmp_path / "m", "toy", {"w.safetensors": {"a": base, "none": torch.empty(0, 3)}}, LINEAGE)
    back = load(tmp_path / "m").tensors("w.safetensors")
    assert back["none"].shape == (0, 3)
    assert str(tmp_path / "m" / "w.safetensors") in Path("/proc/self/maps").read_text()
    back["a"][0] = 7  # what is written stays here
    assert torch.equal(load(tmp_path / "m").tensors("w.safetensors")["a"], base)
    save(tmp_path / "m", "toy", {"w.safetensors": {"a": -base}}, LINEAGE, overwrite=True)
    assert back["a"].tolist() == [7, 1, 2, 3, 4, 5]  # the old file lives as long as it is looked at


def test_an_empty_file_is_no_file_of_tensors(tmp_path):
    with pytest.raises(ArtifactError, match="is not a safetensors file"):
        save(tmp_path / "m", "toy", {"w.safetensors": b""}, LINEAGE)


def edit(folder, **changes):
    """Change the manifest and seal it again, as one who wishes us ill would."""
    path = folder / MANIFEST
    told = {**json.loads(path.read_text()), **changes}
    told["digest"] = artifact._digest_of(told)
    path.write_text(json.dumps(told))


def put(folder, name, blob):
    """Replace a file and its entry in the manifest."""
    (folder / name).write_bytes(blob)
    files = json.loads((folder / MANIFEST).read_text())["files"]
    files[name] = {"bytes": len(blob), "sha256": artifact._digest(blob)}
    edit(folder, files=files)


def truncated(folder):
    path = folder / "weights/one.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def flipped(folder):
    path = folder / "items.parquet"
    blob = bytearray(path.read_bytes())
    blob[9] ^= 4
    path.write_bytes(blob)


def linked(folder):
    (folder / "notes.txt").rename(folder.parent / "elsewhere.txt")
    (folder / "notes.txt").symlink_to(folder.parent / "elsewhere.txt")


def linked_folder(folder):
    (folder / "weights").rename(folder.parent / "elsewhere")
    (folder / "weights").symlink_to(folder.parent / "elsewhere")


def linked_manifest(folder):
    (folder / MANIFEST).rename(folder.parent / "elsewhere.json")
    (folder / MANIFEST).symlink_to(folder.parent / "elsewhere.json")


def outside(name):
    def damage(folder):
        (folder.parent / "outside.txt").write_text("x")
        files = json.loads((folder / MANIFEST).read_text())["files"]
        facts = {"bytes": 1, "sha256": artifact._digest(b"x")}
        edit(folder, files={**files, name.format(folder.parent): facts})

    return damage


def header(size):
    return lambda folder: put(
        folder, "weights/one.safetensors", size.to_bytes(8, "little") + b"{}" + b" " * 50
    )


def nan_weights(folder):
    blob = artifact.save_tensors({"w": torch.tensor([1.0, float("nan")])})
    put(folder, "weights/one.safetensors", blob)


def listed_as(facts):
    return lambda folder: edit(folder, files={"notes.txt": facts})


DAMAGE = {
    "truncated file": (truncated, r"weights/one.safetensors: expected \d+ bytes, found \d+"),
    "flipped bit": (flipped, "items.parquet: its sha256 differs from the manifest"),
    "missing file": (lambda f: (f / "raw.bin").unlink(), "raw.bin: is listed in the manifest but missing"),
    "extra file": (lambda f: (f / "evil.pkl").write_text("x"), "evil.pkl: is not listed in the manifest"),
    "extra file below": (lambda f: (f / "weights/x.py").write_text("x"), "weights/x.py: is not listed"),
    "linked file": (linked, "notes.txt: is a symbolic link; an artifact holds plain files only"),
    "linked folder": (linked_folder, "weights: is a symbolic link"),
    "linked manifest": (linked_manifest, "manifest.json: is a link or larger than"),
    "pipe": (lambda f: os.mkfifo(f / "pipe"), "pipe: is neither a file nor a folder"),
    "no manifest": (lambda f: (f / MANIFEST).unlink(), "manifest.json: not found; expected the manifest"),
    "huge manifest": (
        lambda f: (f / MANIFEST).write_bytes(b" " * (artifact.MAX_MANIFEST + 1)),
        "larger than 4194304 bytes",
    ),
    "no JSON": (lambda f: (f / MANIFEST).write_text('{"kind": '), r"manifest.json: is not JSON \(.*damaged"),
    "no text": (lambda f: (f / MANIFEST).write_bytes(b"\xff\xfe"), r"manifest.json: is not JSON"),
    "deep JSON": (lambda f: (f / MANIFEST).write_text("[" * 100_000), "manifest.json: is not JSON"),
    "a list": (lambda f: (f / MANIFEST).write_text("[]"), "expected schema_version 1, got 'list'"),
    "other schema": (lambda f: edit(f, schema_version=2), "manifest.json: expected schema_version 1, got 2"),
    "changed words": (
        lambda f: (f / MANIFEST).write_text((f / MANIFEST).read_text().replace('"it"', '"is"')),
        "manifest.json: its digest differs from what it says",
    ),
    "no files": (lambda f: edit(f, files=None), "manifest.json: lacks files"),
    "no lineage": (lambda f: edit(f, lineage={"seed": 1}), "manifest.json: expected a lineage of data, seed"),
    "no facts": (listed_as(3), "expected bytes and sha256 of 'notes.txt', got 3"),
    "half the facts": (listed_as({"bytes": 5}), "expected bytes and sha256 of 'notes.txt'"),
    "climbing path": (
        outside("../outside.txt"),
        "manifest.json: lists '../outside.txt'; expected the path of a file inside",
    ),
    "hidden climb": (
        outside("weights/../../outside.txt"),
        "manifest.json: lists 'weights/../../outside.txt'",
    ),
    "absolute path": (outside("{}/outside.txt"), "manifest.json: lists '/"),
    "crooked path": (outside("weights//one.safetensors"), "manifest.json: lists 'weights//one.safetensors'"),
    "manifest in itself": (outside(MANIFEST), "manifest.json: lists 'manifest.json'"),
    "NaN weight": (nan_weights, "weights/one.safetensors: tensor 'w' holds NaN or infinite weights"),
    "huge header": (
        header(1 << 62),
        "weights/one.safetensors: safetensors header of 4611686018427387904 bytes, at most 1048576",
    ),
    "long header": (header(1000), "weights/one.safetensors: is not a safetensors file"),
    "empty header": (header(2), "weights/one.safetensors: is not a safetensors file"),
    "code for weights": (
        lambda f: put(f, "weights/one.safetensors", b"\x80\x04cos\nsystem\n(S'touch canary'\ntR."),
        "weights/one.safetensors: (is not a safetensors file|safetensors header)",
    ),
    "unknown kind of number": (
        lambda f: put(
            f,
            "weights/one.safetensors",
            with_header({"w": {"dtype": "Q9", "shape": [1], "data_offsets": [0, 4]}}),
        ),
        "weights/one.safetensors: is not a safetensors file",
    ),
}


def with_header(words):
    blob = json.dumps(words).encode()
    return len(blob).to_bytes(8, "little") + blob + bytes(4)


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_folder_is_refused_with_the_file_and_the_check(folder, damage, message):
    damage(folder)
    with pytest.raises(ArtifactError, match=message):
        load(folder)
    assert not Path("canary").exists()


def test_a_folder_of_another_kind_is_refused(folder):
    with pytest.raises(ArtifactError, match=r"manifest.json: expected kind 'dataset', got 'toy'"):
        load(folder, "dataset")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_flipped_bit_and_no_cut_goes_unnoticed(folder, data):
    whole = load(folder).manifest
    path = data.draw(st.sampled_from(sorted(path for path in folder.rglob("*") if path.is_file())))
    blob = path.read_bytes()
    at = data.draw(st.integers(0, len(blob) - 1))
    cut = data.draw(st.booleans())
    path.write_bytes(
        blob[:at]
        if cut
        else blob[:at] + bytes([blob[at] ^ 1 << data.draw(st.integers(0, 7))]) + blob[at + 1 :]
    )
    try:
        if not says(path, whole):
            with pytest.raises(ArtifactError, match=path.name):
                load(folder)
    finally:
        path.write_bytes(blob)


def says(path, manifest):
    """Some blanks of a manifest may change without changing what it says."""
    try:
        return path.name == MANIFEST and json.loads(path.read_bytes()) == manifest
    except ValueError:
        return False


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "a//b", ".", MANIFEST])
def test_a_part_outside_the_folder_or_in_place_of_the_manifest_is_not_written(tmp_path, name):
    with pytest.raises(ArtifactError, match="expected the path of a file inside the artifact"):
        save(tmp_path / "m", "toy", {name: "x"}, LINEAGE)
    assert list(tmp_path.iterdir()) == []


def test_weights_that_could_not_be_loaded_are_not_saved(tmp_path):
    with pytest.raises(ArtifactError, match=r"w.safetensors: tensor 'w' holds NaN or infinite weights"):
        save(tmp_path / "m", "toy", {"w.safetensors": {"w": torch.tensor([float("inf")])}}, LINEAGE)
    assert list(tmp_path.iterdir()) == []


def test_an_artifact_is_overwritten_only_when_asked(folder):
    with pytest.raises(
        ArtifactError, match="m: already holds an artifact; choose another folder or ask to overwrite it"
    ):
        save(folder, "toy", {"a.txt": "new"}, LINEAGE)
    assert load(folder).text("notes.txt") == "hello"
    save(folder, "toy", {"a.txt": "new"}, LINEAGE, overwrite=True)
    assert sorted(path.name for path in folder.iterdir()) == ["a.txt", MANIFEST]
    assert os.listdir(folder.parent) == ["m"]


def test_a_folder_of_other_things_is_never_overwritten(tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m/thesis.tex").write_text("years of work")
    with pytest.raises(ArtifactError, match="holds files that are not an artifact; choose another folder"):
        save(tmp_path / "m", "toy", {"a.txt": "x"}, LINEAGE, overwrite=True)
    (tmp_path / "f").write_text("a file")
    with pytest.raises(ArtifactError, match="is a file; expected a folder to write to"):
        save(tmp_path / "f", "toy", {"a.txt": "x"}, LINEAGE, overwrite=True)
    (tmp_path / "l").symlink_to(tmp_path / "m")
    with pytest.raises(ArtifactError, match="is a link; expected a folder to write to"):
        save(tmp_path / "l", "toy", {"a.txt": "x"}, LINEAGE, overwrite=True)
    assert (tmp_path / "m/thesis.tex").read_text() == "years of work"


def test_an_empty_folder_may_be_filled(tmp_path):
    (tmp_path / "deep/m").mkdir(parents=True)
    save(tmp_path / "deep/m", "toy", {"a.txt": "x"}, LINEAGE)
    assert load(tmp_path / "deep/m").text("a.txt") == "x"


def test_a_save_that_fails_leaves_nothing_but_what_was_there(folder):
    with pytest.raises(ValueError, match="not JSON compliant"):
        save(folder, "toy", {"a.txt": "new"}, LINEAGE, {"loss": float("nan")}, overwrite=True)
    assert os.listdir(folder.parent) == ["m"]
    assert load(folder).text("notes.txt") == "hello"


@pytest.mark.parametrize("before", ["old", "nothing"])
def test_killed_at_any_step_a_save_leaves_the_old_or_the_new_and_the_next_one_sweeps_up(tmp_path, before):
    command = [sys.executable, "-m", "tests.killed", str(tmp_path), before]
    told = subprocess.run(
        command, capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[1], check=False
    )
    assert told.returncode == 0, told.stderr
    steps = [json.loads(line) for line in told.stdout.splitlines()]
    assert len(steps) > 20
    assert [step["killed"] for step in steps] == [True] * (len(steps) - 1) + [False]
    for step in steps:
        assert step["then"] == "newer", step
        assert step["files"] == ["m"], step
    left = [step["left"] for step in steps]
    turn = left.index("new")
    assert set(left[turn:]) == {"new"}
    if before == "old":
        assert set(left[:turn]) == {"old"}
    else:
        assert all("manifest.json: not found" in words for words in left[:turn])


def test_what_a_killed_writer_set_aside_is_what_loads_and_comes_back_with_the_next_save(folder):
    aside = folder.with_name(".m.old")
    folder.rename(aside)
    assert load(folder).text("notes.txt") == "hello"
    assert not folder.exists(), "loading changes nothing on disk"
    with pytest.raises(ArtifactError, match="already holds an artifact"):
        save(folder, "toy", {"a.txt": "new"}, LINEAGE)
    assert load(folder).folder == folder
    assert not aside.exists()


def test_the_leftovers_of_the_dead_are_swept_and_those_of_the_living_are_not(tmp_path):
    name = "m[1]*"
    dead, alive = (tmp_path / f".{name}.staging-{process}-x" for process in (2**22 + 1, os.getpid()))
    stranger = tmp_path / ".other.staging-4194305-x"
    for left in (dead, alive, stranger):
        left.mkdir()
    save(tmp_path / name, "toy", {"a.txt": "x"}, LINEAGE)
    assert not dead.exists()
    assert alive.exists()
    assert stranger.exists()
