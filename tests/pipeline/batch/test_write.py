"""Recommendations in a file: whole or not at all, resumed where a run was stopped."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

from shortlist.artifact.lock import only_writer
from shortlist.errors import ArtifactError, ConfigError
from shortlist.pipeline.batch import job as job_module
from shortlist.pipeline.batch import recommend_all
from tests.pipeline.batch.test_recommend_all import with_histories
from tests.worlds import N_ITEMS, tiny_recommender

SUFFIXES = (".parquet", ".csv", ".jsonl")


@pytest.fixture
def recommender(monkeypatch):
    """Twenty users in parts of four; the bundle has a version, so that its runs can be resumed."""
    monkeypatch.setattr(job_module, "PART", 4)
    world = with_histories(tiny_recommender(), [[row % N_ITEMS] * (row % 5) for row in range(20)])
    return replace(world, about=replace(world.about, version="v1"))


class StoppedError(Exception):
    pass


def stopped_after(users):
    def progress(task, done, total):
        if done >= users:
            raise StoppedError

    return progress


def test_every_format_has_the_rows_of_the_stream(recommender, tmp_path):
    expected = recommender.recommend_all(k=3).read_all()
    for suffix in SUFFIXES:
        written = recommender.write_recommendations(tmp_path / f"recs{suffix}", k=3)
        assert (written.users, written.rows, written.empty) == (20, len(expected), 0)
    assert pq.read_table(tmp_path / "recs.parquet").equals(expected)
    lines = (tmp_path / "recs.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == expected.to_pylist()
    table = pcsv.read_csv(tmp_path / "recs.csv")
    assert table["item"].to_pylist() == expected["item"].to_pylist()
    assert table["nominators"].to_pylist() == [
        "|".join(names) for names in expected["nominators"].to_pylist()
    ]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_stopped_run_is_resumed_with_the_same_bytes(recommender, tmp_path, suffix):
    whole, out = tmp_path / f"whole{suffix}", tmp_path / f"recs{suffix}"
    recommender.write_recommendations(whole)
    with pytest.raises(StoppedError):
        recommender.write_recommendations(out, progress=stopped_after(8))
    assert not out.exists()
    written = recommender.write_recommendations(out)
    assert written.resumed >= 8
    assert out.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([whole.name, out.name])


@pytest.mark.parametrize("change", ["k", "seed", "users", "version", "package", "plug-in"])
def test_parts_of_another_run_are_not_used(recommender, tmp_path, monkeypatch, change):
    out = tmp_path / "recs.parquet"
    with pytest.raises(StoppedError):
        recommender.write_recommendations(out, k=3, progress=stopped_after(8))
    other = recommender
    if change == "version":
        other = replace(recommender, about=replace(recommender.about, version="v2"))
    if change == "package":
        monkeypatch.setattr(recommend_all, "__version__", "9.9")
    if change == "plug-in":
        monkeypatch.setattr(recommend_all, "plugin_sources", lambda pipeline: "edited")
    users = [f"u{row}" for row in range(19, -1, -1)] if change == "users" else None
    options = {"k": 2 if change == "k" else 3, "seed": 1 if change == "seed" else 0}
    assert other.write_recommendations(out, users, **options).resumed == 0


def test_bundle_that_was_not_saved_is_not_resumed(recommender, tmp_path):
    unsaved = replace(recommender, about=replace(recommender.about, version=""))
    with pytest.raises(StoppedError):
        unsaved.write_recommendations(tmp_path / "recs.csv", progress=stopped_after(8))
    assert unsaved.write_recommendations(tmp_path / "recs.csv").resumed == 0


def test_damaged_part_is_computed_again(recommender, tmp_path):
    out = tmp_path / "recs.parquet"
    with pytest.raises(StoppedError):
        recommender.write_recommendations(out, progress=stopped_after(12))
    first = min((tmp_path / ".recs.parquet.parts").glob("*.arrow"))
    first.write_bytes(first.read_bytes()[:40])
    recommender.write_recommendations(tmp_path / "whole.parquet")
    assert recommender.write_recommendations(out).resumed == 8
    assert out.read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_existing_file_is_replaced_only_with_force(recommender, tmp_path):
    out = tmp_path / "recs.csv"
    out.write_text("mine")
    with pytest.raises(ConfigError, match=r"recs\.csv: exists; replace it with --force"):
        recommender.write_recommendations(out)
    assert out.read_text() == "mine"
    recommender.write_recommendations(out, force=True)
    assert out.read_text().startswith('"user"')


def test_file_that_another_process_wrote_before_the_lock_is_not_replaced(recommender, tmp_path, monkeypatch):
    out = tmp_path / "recs.csv"

    def late(path):
        path.write_text("theirs")
        return only_writer(path)

    monkeypatch.setattr("shortlist.pipeline.batch.write.only_writer", late)
    with pytest.raises(ConfigError, match=r"recs\.csv: exists"):
        recommender.write_recommendations(out)
    assert out.read_text() == "theirs"


def test_wrong_suffix_and_folder_are_refused_before_the_work(recommender, tmp_path):
    with pytest.raises(ConfigError, match=r"ends in \.parquet, \.csv, \.jsonl, got '\.xlsx'"):
        recommender.write_recommendations(tmp_path / "recs.xlsx")
    (tmp_path / "recs.csv").mkdir()
    with pytest.raises(ConfigError, match="is a folder; expected a file"):
        recommender.write_recommendations(tmp_path / "recs.csv")


def test_second_writer_of_a_file_is_refused(recommender, tmp_path):
    out = tmp_path / "recs.csv"
    refused = pytest.raises(ArtifactError, match=r"recs\.csv: another thread of this process is writing")
    with only_writer(out), ThreadPoolExecutor(1) as other, refused:
        other.submit(recommender.write_recommendations, out).result()


def test_unknown_and_repeated_users_are_counted(recommender, tmp_path):
    written = recommender.write_recommendations(tmp_path / "recs.csv", ["u1", "nobody", "u1"], k=1)
    assert (written.users, written.unknown, written.repeated, written.rows) == (2, 1, 1, 2)
