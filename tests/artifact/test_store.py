"""Artifacts: complete or absent, trusted only after every check, and free of code."""

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


def test_saved_parts_are_loaded_unchanged(folder):
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


def test_save_returns_the_same_manifest_as_load(tmp_path):
    made = save(tmp_path / "m", "toy", PARTS, LINEAGE, {"by row": {10: "x", 9: "y"}, "pair": (1, 2.5)})
    back = load(tmp_path / "m")
    assert made.manifest == back.manifest
    assert made.version == back.version
    assert back.about == {"by row": {"10": "x", "9": "y"}, "pair": [1, 2.5]}


def test_same_input_gives_the_same_bytes(tmp_path):
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


def test_changed_byte_changes_the_version(tmp_path):
    one = save(tmp_path / "one", "toy", {"a.txt": "x"}, LINEAGE)
    other = save(tmp_path / "other", "toy", {"a.txt": "y"}, LINEAGE)
    assert one.version != other.version


def test_tensors_that_share_memory_or_are_not_contiguous_are_saved(tmp_path):
    base = torch.arange(6.0).reshape(2, 3)
    save(tmp_path / "m", "toy", {"w.safetensors": {"a": base, "b": base, "c": base.T}}, LINEAGE)
    back = load(tmp_path / "m").tensors("w.safetensors")
    assert torch.equal(back["b"], base)
    assert torch.equal(back["c"], base.T)


@pytest.mark.skipif(not Path("/proc/self/maps").is_file(), reason="only Linux lists memory maps")
def test_tensors_are_memory_mapped_and_writes_never_change_the_file(tmp_path):
    base = torch.arange(6.0)
    save(tmp_path / "m", "toy", {"w.safetensors": {"a": base, "none": torch.empty(0, 3)}}, LINEAGE)
    back = load(tmp_path / "m").tensors("w.safetensors")
    assert back["none"].shape == (0, 3)
    assert str(tmp_path / "m" / "w.safetensors") in Path("/proc/self/maps").read_text()
    back["a"][0] = 7
    assert torch.equal(load(tmp_path / "m").tensors("w.safetensors")["a"], base)
    save(tmp_path / "m", "toy", {"w.safetensors": {"a": -base}}, LINEAGE, overwrite=True)
    assert back["a"].tolist() == [7, 1, 2, 3, 4, 5]  # the old file lives as long as it is mapped


def test_empty_safetensors_file_is_refused(tmp_path):
    with pytest.raises(ArtifactError, match="is not a safetensors file"):
        save(tmp_path / "m", "toy", {"w.safetensors": b""}, LINEAGE)


def edit(folder, **changes):
    """Change the manifest and its digest, as an attacker would."""
    path = folder / MANIFEST
    manifest = {**json.loads(path.read_text()), **changes}
    manifest["digest"] = artifact._digest_of(manifest)
    path.write_text(json.dumps(manifest))


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
    "a list": (lambda f: (f / MANIFEST).write_text("[]"), "expected a JSON object, got list"),
    "other schema": (lambda f: edit(f, schema_version=3), "manifest.json: expected schema_version 2, got 3"),
    "changed text": (
        lambda f: (f / MANIFEST).write_text((f / MANIFEST).read_text().replace('"it"', '"is"')),
        "manifest.json: its digest does not match its content",
    ),
    "no files": (lambda f: edit(f, files=None), "manifest.json: lacks files"),
    "no lineage": (lambda f: edit(f, lineage={"seed": 1}), "manifest.json: expected a lineage of data, seed"),
    "no facts": (listed_as(3), "expected bytes and sha256 of 'notes.txt', got 3"),
    "half the facts": (listed_as({"bytes": 5}), "expected bytes and sha256 of 'notes.txt'"),
    "parent path": (
        outside("../outside.txt"),
        "manifest.json: lists '../outside.txt'; expected the path of a file inside",
    ),
    "hidden parent path": (
        outside("weights/../../outside.txt"),
        "manifest.json: lists 'weights/../../outside.txt'",
    ),
    "absolute path": (outside("{}/outside.txt"), "manifest.json: lists '/"),
    "path that is not normalised": (
        outside("weights//one.safetensors"),
        "manifest.json: lists 'weights//one.safetensors'",
    ),
    "manifest in itself": (outside(MANIFEST), "manifest.json: lists 'manifest.json'"),
    "NaN weight": (nan_weights, "weights/one.safetensors: tensor 'w' holds NaN or infinite weights"),
    "huge header": (
        header(1 << 62),
        "weights/one.safetensors: safetensors header of 4611686018427387904 bytes, at most 1048576",
    ),
    "long header": (header(1000), "weights/one.safetensors: is not a safetensors file"),
    "empty header": (header(2), "weights/one.safetensors: is not a safetensors file"),
    "pickle instead of weights": (
        lambda f: put(f, "weights/one.safetensors", b"\x80\x04cos\nsystem\n(S'touch canary'\ntR."),
        "weights/one.safetensors: (is not a safetensors file|safetensors header)",
    ),
    "unknown dtype": (
        lambda f: put(
            f,
            "weights/one.safetensors",
            with_header({"w": {"dtype": "Q9", "shape": [1], "data_offsets": [0, 4]}}),
        ),
        "weights/one.safetensors: is not a safetensors file",
    ),
}


def with_header(header):
    blob = json.dumps(header).encode()
    return len(blob).to_bytes(8, "little") + blob + bytes(4)


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE.keys())
def test_damaged_folder_is_refused_with_the_file_and_the_failed_check(folder, damage, message):
    damage(folder)
    with pytest.raises(ArtifactError, match=message):
        load(folder)
    assert not Path("canary").exists()


def test_artifact_of_another_kind_is_refused(folder):
    with pytest.raises(ArtifactError, match=r"manifest.json: expected kind 'dataset', got 'toy'"):
        load(folder, "dataset")


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        ("recommender", "train again with: shortlist train"),
        ("dataset", "prepare the data again with: shortlist data prepare"),
        ("toy", "make it again"),
    ],
)
def test_artifact_from_before_0_2_0_is_refused_with_the_command_that_makes_it_again(folder, kind, remedy):
    edit(folder, schema_version=1, kind=kind)
    with pytest.raises(
        ArtifactError, match=rf"manifest.json: written by shortlist before 0\.2\.0.*; {remedy}"
    ):
        load(folder, kind)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_every_flipped_bit_and_truncation_is_detected(folder, data):
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
        if not same_content(path, whole):
            with pytest.raises(ArtifactError, match=path.name):
                load(folder)
    finally:
        path.write_bytes(blob)


def same_content(path, manifest):
    """Whether a changed manifest still has the same values: some whitespace may change."""
    try:
        return path.name == MANIFEST and json.loads(path.read_bytes()) == manifest
    except ValueError:
        return False


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "a//b", ".", MANIFEST])
def test_part_outside_the_folder_or_named_like_the_manifest_is_not_written(tmp_path, name):
    with pytest.raises(ArtifactError, match="expected the path of a file inside the artifact"):
        save(tmp_path / "m", "toy", {name: "x"}, LINEAGE)
    assert list(tmp_path.iterdir()) == []


def test_nonfinite_weights_are_not_saved(tmp_path):
    with pytest.raises(ArtifactError, match=r"w.safetensors: tensor 'w' holds NaN or infinite weights"):
        save(tmp_path / "m", "toy", {"w.safetensors": {"w": torch.tensor([float("inf")])}}, LINEAGE)
    assert list(tmp_path.iterdir()) == []


def test_artifact_is_overwritten_only_on_request(folder):
    with pytest.raises(
        ArtifactError,
        match="m: already holds an artifact; choose another folder, or add --force to replace it",
    ):
        save(folder, "toy", {"a.txt": "new"}, LINEAGE)
    assert load(folder).text("notes.txt") == "hello"
    save(folder, "toy", {"a.txt": "new"}, LINEAGE, overwrite=True)
    assert sorted(path.name for path in folder.iterdir()) == ["a.txt", MANIFEST]
    assert os.listdir(folder.parent) == ["m"]


def test_folder_that_is_not_an_artifact_is_never_overwritten(tmp_path):
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


def test_empty_folder_may_be_written_to(tmp_path):
    (tmp_path / "deep/m").mkdir(parents=True)
    save(tmp_path / "deep/m", "toy", {"a.txt": "x"}, LINEAGE)
    assert load(tmp_path / "deep/m").text("a.txt") == "x"


def test_failed_save_leaves_the_old_artifact(folder):
    with pytest.raises(ValueError, match="not JSON compliant"):
        save(folder, "toy", {"a.txt": "new"}, LINEAGE, {"loss": float("nan")}, overwrite=True)
    assert os.listdir(folder.parent) == ["m"]
    assert load(folder).text("notes.txt") == "hello"


@pytest.mark.parametrize("before", ["old", "nothing"])
def test_save_killed_at_any_step_leaves_the_old_or_the_new_artifact_and_the_next_save_cleans_up(
    tmp_path, before
):
    command = [sys.executable, "-m", "tests.artifact.killed_writer", str(tmp_path), before]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[2], check=False
    )
    assert done.returncode == 0, done.stderr
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(steps) > 20
    assert [step["killed"] for step in steps] == [True] * (len(steps) - 1) + [False]
    for step in steps:
        assert step["then"] == "newer", step
        assert step["files"] == ["m"], step
    left = [step["left"] for step in steps]
    first_new = left.index("new")
    assert set(left[first_new:]) == {"new"}
    if before == "old":
        assert set(left[:first_new]) == {"old"}
    else:
        assert all("manifest.json: not found" in message for message in left[:first_new])


def test_backup_of_a_killed_writer_is_loaded_and_restored_by_the_next_save(folder):
    backup = folder.with_name(".m.old")
    folder.rename(backup)
    assert load(folder).text("notes.txt") == "hello"
    assert not folder.exists(), "loading changes nothing on disk"
    with pytest.raises(ArtifactError, match="already holds an artifact"):
        save(folder, "toy", {"a.txt": "new"}, LINEAGE)
    assert load(folder).folder == folder
    assert not backup.exists()


def test_staging_folders_of_dead_processes_are_removed_and_of_running_ones_kept(tmp_path):
    name = "m[1]*"
    dead, alive = (tmp_path / f".{name}.staging-{process}-x" for process in (2**22 + 1, os.getpid()))
    other = tmp_path / ".other.staging-4194305-x"
    for left in (dead, alive, other):
        left.mkdir()
    save(tmp_path / name, "toy", {"a.txt": "x"}, LINEAGE)
    assert not dead.exists()
    assert alive.exists()
    assert other.exists()
