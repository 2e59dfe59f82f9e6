"""A bundle whose files were changed and signed again is refused by name, or answers as it should."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import torch

from shortlist.artifact.json_tensor import json_to_tensor
from shortlist.artifact.store import MANIFEST, Lineage, _digest_of, _hash, _write, load
from shortlist.errors import ArtifactError
from shortlist.pipeline import load_recommender, save_recommender
from shortlist.pipeline.bundle import BASELINES, HISTORIES, MEASURED
from shortlist.pipeline.recommender import Request

from .every_stage import EVERY, USERS, N, recommender

WEIGHTS = "weights/stage-it.safetensors"
HUGE = 10**12


def resigned(folder: Path, name: str, part) -> None:
    """Replace a file of a bundle and write a manifest with the new digests."""
    path = folder / MANIFEST
    manifest = json.loads(path.read_text())
    (folder / name).unlink()
    manifest["files"][name] = _write(folder, name, part)
    path.write_text(json.dumps({**manifest, "digest": _digest_of(manifest)}))
    assert _hash(folder / name) == manifest["files"][name]["sha256"]


def changes_of(tensor):
    """The same tensor with other values, another size or another type."""
    if tensor.dtype == torch.uint8:
        yield from changes_of_json(tensor)
        return
    if tensor.dim():
        yield "shorter", tensor[:-1]
    yield "other type", tensor.to(torch.int32 if tensor.is_floating_point() else torch.float32)
    if tensor.is_floating_point():
        yield "large", torch.full_like(tensor, 3e38)
        yield "other precision", tensor.to(torch.float64 if tensor.dtype == torch.float32 else torch.float32)
    elif tensor.dtype != torch.bool:
        yield "longer", torch.cat([tensor, tensor[-1:]])
        yield "one axis more", tensor[None]
        yield "backwards", tensor.flip(0)
        for value in (0, -1, -2, N, 2**31 - 1, 2**40):
            if value <= torch.iinfo(tensor.dtype).max:
                yield f"one {value}", with_first(tensor, value)
                yield f"all {value}", torch.full_like(tensor, value)


def with_first(tensor, value):
    changed = tensor.clone()
    changed.view(-1)[:1] = value
    return changed


def changes_of_json(tensor):
    """Plain values beside the weights, each number in turn replaced."""
    text = bytes(tensor.tolist()).decode()
    for found in re.finditer(r"(?<=[\s\[:])-?\d+(?=[,\]}])", text):
        for value in (-1, int(found[0]) + 1, HUGE):
            changed = text[: found.start()] + str(value) + text[found.end() :]
            yield f"{value} at {found.start()}", json_to_tensor(json.loads(changed))
    yield "no object", torch.tensor(list(b"[1]"), dtype=torch.uint8)
    yield "no JSON", tensor.flip(0)


def check_answers(loaded):
    """Every request gets items of the catalogue, each once and none of its history."""
    everything = [f"i{row}" for row in range(N - 2)]
    requests = [Request(), Request(history=everything), *(Request(user=f"u{row}") for row in range(USERS))]
    for request in requests:
        items = [one.item_id for one in loaded.recommendations(loaded.recommend(request))]
        known = {loaded.catalog.vocabulary.id(row) for row in loaded.history(request)}
        assert len(set(items)) == len(items)
        assert not known & set(items)


def check_refused_or_answers(folder, name):
    """Whether it was refused; any other exception than the refusal is a failure."""
    try:
        loaded = load_recommender(folder)
    except ArtifactError as error:
        message = str(error)
    else:
        check_answers(loaded)
        return False
    assert str(folder) in message
    assert Path(name).name in message or "[stages.it]" in message
    return True


@pytest.mark.parametrize("kind", EVERY)
def test_changed_tensor_is_refused_by_name_or_the_bundle_still_answers(kind, tmp_path):
    folder = tmp_path / "b"
    save_recommender(recommender(kind), folder, Lineage())
    check_answers(load_recommender(folder))
    if not (folder / WEIGHTS).exists():
        return  # a type without tensors
    whole = {name: tensor.clone() for name, tensor in load(folder).tensors(WEIGHTS).items()}
    refused = 0
    for name, tensor in whole.items():
        for what, changed in changes_of(tensor):
            resigned(folder, WEIGHTS, {**whole, name: changed})
            try:
                refused += check_refused_or_answers(folder, WEIGHTS)
            except Exception as error:
                raise AssertionError(f"{kind}: {name} {what}: {error!r}") from error
        resigned(folder, WEIGHTS, {other: one for other, one in whole.items() if other != name})
        assert name.startswith("calibration.") or check_refused_or_answers(folder, WEIGHTS), name
    assert refused


HISTORY_CHANGES = {
    "an item beyond the catalogue": ("items", lambda one: with_first(one, N)),
    "a negative item": ("items", lambda one: with_first(one, -1)),
    "fractions": ("items", lambda one: one.float()),
    "starts that go back": ("starts", lambda one: one.flip(0)),
    "starts beyond the items": ("starts", lambda one: one + 1),
    "negative starts": ("starts", lambda one: one - 1),
    "a start too few": ("starts", lambda one: one[:-1]),
    "starts in a table": ("starts", lambda one: one[None]),
    "no starts": ("starts", lambda one: one[:0]),
    "more trained events than events": ("trained", lambda one: one + HUGE),
    "a user too few": ("trained", lambda one: one[:-1]),
}


@pytest.fixture
def bundle(tmp_path):
    save_recommender(recommender("popular"), tmp_path / "b", Lineage())
    return tmp_path / "b"


@pytest.mark.parametrize(("name", "change"), HISTORY_CHANGES.values(), ids=HISTORY_CHANGES)
def test_histories_that_do_not_fit_are_refused(bundle, name, change):
    whole = {key: one.clone() for key, one in load(bundle).tensors(HISTORIES).items()}
    resigned(bundle, HISTORIES, {**whole, name: change(whole[name])})
    with pytest.raises(ArtifactError, match=f"histories.safetensors: tensor '{name}'.* train again"):
        load_recommender(bundle)


def test_histories_with_another_tensor_are_refused(bundle):
    whole = {key: one.clone() for key, one in load(bundle).tensors(HISTORIES).items()}
    resigned(bundle, HISTORIES, {**whole, "more": torch.zeros(1)})
    with pytest.raises(ArtifactError, match=r"histories.safetensors: .*'more'"):
        load_recommender(bundle)


TABLES = {
    "a repeated id": (["u0", "u0", "u2", "u3"], "1 ids are repeated"),
    "a missing id": (["u0", None, "u2", "u3"], "1 ids are missing"),
    "ids that are fractions": ([0.0, 1.0, 2.0, 3.0], "expected ids that are integers or text, got double"),
    "a user more": (["u0", "u1", "u2", "u3", "u4"], "tensor 'starts': expected the shape"),
}


@pytest.mark.parametrize(("ids", "reason"), TABLES.values(), ids=TABLES)
def test_users_that_do_not_fit_are_refused(bundle, ids, reason):
    resigned(bundle, "users.parquet", pa.table({"id": ids}))
    with pytest.raises(ArtifactError, match=reason):
        load_recommender(bundle)


@pytest.mark.parametrize("count", [N - 1, N + 1])
def test_catalogue_of_another_size_is_refused(bundle, count):
    resigned(bundle, "items.parquet", pa.table({"id": [f"i{row}" for row in range(count)]}))
    if count < N:
        with pytest.raises(ArtifactError, match=r"stage-it.safetensors: stage 'it': tensor 'order'"):
            load_recommender(bundle)
    else:
        check_answers(load_recommender(bundle))  # an item that nobody nominates


def test_table_without_ids_and_a_file_that_is_no_table_are_refused(bundle):
    resigned(bundle, "items.parquet", pa.table({"name": ["a"]}))
    with pytest.raises(ArtifactError, match=r"items.parquet: expected a column id, got name"):
        load_recommender(bundle)
    resigned(bundle, "items.parquet", b"no table")
    with pytest.raises(ArtifactError, match=r"items.parquet: is not a Parquet file"):
        load_recommender(bundle)


def test_ranker_that_reads_an_unknown_nominator_is_refused(tmp_path):
    folder = tmp_path / "b"
    save_recommender(recommender("feature-ranker"), folder, Lineage())
    text = (
        (folder / "pipeline.toml").read_text().replace('nominators = ["popular"]', 'nominators = ["other"]')
    )
    resigned(folder, "pipeline.toml", text)
    with pytest.raises(ArtifactError, match="stage 'it': nominators: 'other' is not a nominator"):
        load_recommender(folder)


@pytest.mark.parametrize("kind", EVERY)
def test_size_beyond_the_catalogue_needs_no_memory(kind, tmp_path):
    folder = tmp_path / "b"
    save_recommender(recommender(kind), folder, Lineage())
    text = (folder / "pipeline.toml").read_text()
    text = re.sub(r"% \d+", f"% {HUGE}", re.sub(r"beam = \d+", f"beam = {HUGE}", text))
    resigned(folder, "pipeline.toml", text)
    check_answers(load_recommender(folder))


def test_measured_pipeline_is_checked_when_it_is_read(tmp_path):
    served = recommender("popular")
    save_recommender(replace(served, measured=lambda: served.pipeline), tmp_path / "b", Lineage())
    file = f"{MEASURED}{WEIGHTS}"
    order = torch.arange(N).clone()
    resigned(tmp_path / "b", file, {"order": with_first(order, N), "share": torch.rand(N)})
    loaded = load_recommender(tmp_path / "b")
    check_answers(loaded)
    with pytest.raises(
        ArtifactError, match=r"measured/weights/stage-it.safetensors: stage 'it': tensor 'order'"
    ):
        loaded.as_measured()


def test_slates_of_baselines_are_saved_and_read_when_they_are_asked_for(tmp_path):
    slates = torch.tensor([[2, 0, -1], [1, 2, 0]])
    served = replace(recommender("popular"), baselines={"test": {"ease": slates, "item-knn": slates.flip(0)}})
    save_recommender(served, tmp_path / "b", Lineage())
    loaded = load_recommender(tmp_path / "b")
    assert "_read" not in vars(loaded.baselines)
    assert list(loaded.baselines) == ["test"]
    assert torch.equal(loaded.as_measured().baselines["test"]["ease"], slates)
    save_recommender(loaded, tmp_path / "again", Lineage())
    again = load_recommender(tmp_path / "again").baselines["test"]
    assert torch.equal(again["item-knn"], slates.flip(0))
    save_recommender(recommender("popular"), tmp_path / "none", Lineage())
    assert not load_recommender(tmp_path / "none").baselines


@pytest.mark.parametrize(
    ("slates", "error"), [([[N]], "expected values from -1"), ([0], "expected the shape")]
)
def test_slates_of_baselines_are_checked_when_they_are_read(slates, error, tmp_path):
    served = replace(
        recommender("popular"), baselines={"test": {"ease": torch.zeros((1, 1), dtype=torch.int64)}}
    )
    save_recommender(served, tmp_path / "b", Lineage())
    resigned(tmp_path / "b", BASELINES, {"test/ease": torch.tensor(slates)})
    loaded = load_recommender(tmp_path / "b")
    with pytest.raises(ArtifactError, match=rf"measured/baselines.safetensors: tensor 'test/ease': {error}"):
        list(loaded.baselines)
