"""The RecFlow view: export, import, and rows that contradict themselves."""

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest

from shortlist.errors import ArtifactError, ConfigError, DataError
from shortlist.feedback.events.append import append_events
from shortlist.feedback.join import join_feedback
from shortlist.feedback.reader import LogReader
from shortlist.feedback.recflow.export import COLUMNS, Features, recflow_table, to_recflow
from shortlist.feedback.recflow.reader import RecflowReader
from shortlist.feedback.record import concat
from tests.feedback.logs import START, funnel, traces, write_log
from tests.feedback.test_join import feedback_of

DAY = 86_400_000
PUBLISHED = [
    "request_id",
    "request_timestamp",
    "user_id",
    "device_id",
    "age",
    "gender",
    "province",
    "video_id",
    "author_id",
    "category_level_one",
    "category_level_two",
    "upload_type",
    "upload_timestamp",
    "duration",
    "realshow",
    "rerank_pos",
    "rerank_neg",
    "rank_pos",
    "rank_neg",
    "coarse_neg",
    "prerank_neg",
    "rank_index",
    "rerank_index",
    "playing_time",
    "effective_view",
    "long_view",
    "like",
    "follow",
    "forward",
    "comment",
]


@pytest.fixture
def log(tmp_path):
    """Five stages, requests on two days."""
    root = tmp_path / "log"
    write_log(root, traces(funnel(60, 40, 30, 20, 8), 6, 2), step=1_200_000)
    return root


def exported(root, out, **options):
    done = to_recflow(root, out, **options)
    return done, pa.concat_tables([pa.feather.read_table(out / name) for name in done.files])


def test_export_has_the_published_columns_and_a_file_per_day(log, tmp_path):
    done, table = exported(log, tmp_path / "out")
    assert list(COLUMNS) == PUBLISHED == table.column_names
    assert done.files == ("all_stage/2023-11-14.feather", "all_stage/2023-11-15.feather")
    assert (done.requests, done.rows) == (12, 720)
    sums = {name: sum(table[name].to_pylist()) for name in PUBLISHED[15:21]}
    assert sums == {
        "rerank_pos": 96, "rerank_neg": 144, "rank_pos": 120, "rank_neg": 120, "coarse_neg": 120, "prerank_neg": 240
    }  # fmt: skip


def test_export_comes_back_with_the_same_stages(log, tmp_path):
    columns, plays = feedback_of(log)
    append_events(log, columns, ingest_ts_ms=START + DAY)
    durations = dict.fromkeys(range(60), 2.0)  # every play is one millisecond: half of the item
    rule = join_feedback(log, watermark=START + 10 * DAY, durations=durations).rule_version
    exported(log, tmp_path / "out", rule_version=rule)
    reader = RecflowReader(tmp_path / "out" / "all_stage")
    found, original = concat(list(reader.requests())), concat(list(LogReader(log).requests()))
    for name in ("request_id", "ts_ms", "user_id", "offsets", "item_id", "stage", "position"):
        assert np.array_equal(getattr(found, name), getattr(original, name)), name
    assert np.array_equal(found.ranks[:, 3:], original.ranks[:, 3:])
    assert np.array_equal(found.shown == 1, original.position > 0)
    assert int((found.y == 1).sum()) == plays.sum()
    assert not +reader.violations
    assert np.isnan(found.incl_prob).all()


def test_watched_share_gives_effective_and_long_views(log, tmp_path):
    columns, _ = feedback_of(log)
    append_events(log, columns, ingest_ts_ms=START + DAY)
    durations = {item: 1.0 if item % 2 else 10.0 for item in range(60)}
    rule = join_feedback(log, watermark=START + 10 * DAY, durations=durations).rule_version
    _, table = exported(log, tmp_path / "out", rule_version=rule)
    rows = [row for row in table.to_pylist() if row["playing_time"] is not None]
    assert rows
    assert all(row["effective_view"] == row["long_view"] == row["video_id"] % 2 for row in rows)
    assert all(row["like"] == 0 for row in rows)
    assert {row["like"] for row in table.to_pylist() if not row["realshow"]} == {None}


def test_features_of_users_and_items_are_joined_by_id(log):
    record = next(LogReader(log).requests())
    items = pa.table({"item_id": list(range(50)), "author_id": [7] * 50, "duration": list(range(50))})
    users = pa.table({"user_id": [0], "age": [33]})
    table = recflow_table(record, features=Features(users, items)).to_pylist()
    assert {row["age"] for row in table if row["user_id"] == 0} == {33}
    assert {row["age"] for row in table if row["user_id"] == 1} == {None}
    assert all(row["duration"] == (row["video_id"] if row["video_id"] < 50 else None) for row in table)
    assert {row["gender"] for row in table} == {None}


def test_pipeline_of_other_than_five_stages_needs_levels(tmp_path):
    write_log(tmp_path / "log", traces(funnel(60, 20, 8), 2))
    with pytest.raises(ConfigError, match="four increasing stages"):
        to_recflow(tmp_path / "log", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    write_log(tmp_path / "deep", traces(funnel(60, 50, 40, 30, 20, 8), 1))
    _, table = exported(tmp_path / "deep", tmp_path / "out", levels=(1, 2, 4, 5))
    assert sum(table["rank_neg"].to_pylist()) == 20  # S = 3 and S = 4
    with pytest.raises(ArtifactError, match="already holds"):
        to_recflow(tmp_path / "deep", tmp_path / "out", levels=(1, 2, 4, 5))


def rows(**changes):
    """Five rows of one request, one per stage, with changes to the columns."""
    flags = {
        "prerank_neg": [1, 0, 0, 0, 0],
        "coarse_neg": [0, 1, 0, 0, 0],
        "rank_neg": [0, 0, 1, 0, 0],
        "rerank_neg": [0, 0, 0, 1, 0],
        "rerank_pos": [0, 0, 0, 0, 1],
        "rank_pos": [0, 0, 0, 0, 1],
        "realshow": [0, 0, 0, 0, 1],
        "rank_index": [0, 0, 30, 12, 1],
        "rerank_index": [0, 0, 0, 11, 1],
        "effective_view": [None, None, None, None, 1],
    }
    return pa.table({"request_id": [1] * 5, "request_timestamp": [9] * 5, "user_id": [4] * 5, "video_id": [*range(5)]}
                    | flags | changes)  # fmt: skip


def test_flags_give_the_stage():
    reader = RecflowReader(None)
    record = reader.record(rows())
    assert record.stage.tolist() == [1, 2, 3, 4, 5]
    assert record.y.tolist() == [-1, -1, -1, -1, 1]
    assert not +reader.violations
    # rank_pos without rerank_pos is S = 4 even without rerank_neg
    assert RecflowReader(None).record(rows(rerank_neg=[0] * 5, rank_pos=[0, 0, 0, 1, 1])).stage[3] == 4


@pytest.mark.parametrize(
    ("changes", "violations", "stages"),
    [
        ({"rerank_pos": [0] * 5, "rank_pos": [0] * 5},
         {"no_stage": 1, "shown_but_not_served": 1, "ranked_before_reached": 1}, [1, 2, 3, 4, 0]),
        ({"coarse_neg": [1, 1, 1, 0, 0]}, {"several_stages": 2}, [2, 2, 3, 4, 5]),
        ({"realshow": [1, 0, 0, 0, 1]}, {"shown_but_not_served": 1}, [1, 2, 3, 4, 5]),
        ({"rank_index": [5, 0, 30, 12, 1]}, {"ranked_before_reached": 1}, [1, 2, 3, 4, 5]),
        ({"rerank_index": [0, 0, 3, 11, 1]}, {"ranked_before_reached": 1}, [1, 2, 3, 4, 5]),
        ({"rank_pos": [0, 0, 1, 0, 1]}, {"several_stages": 1}, [1, 2, 4, 4, 5]),
    ],
)  # fmt: skip
def test_rows_that_contradict_themselves_are_counted(changes, violations, stages):
    reader = RecflowReader(None)
    assert reader.record(rows(**changes)).stage.tolist() == stages
    assert +reader.violations == violations


def test_requests_that_span_batches_stay_whole_and_split_ones_are_counted(tmp_path):
    table = pa.concat_tables([rows(request_id=[number] * 5) for number in (1, 2, 3, 1)])
    path = tmp_path / "2024-01-13.feather"
    pa.feather.write_feather(table, path, chunksize=7)
    reader = RecflowReader(path)
    records = list(reader.requests())
    assert [record.request_id.tolist() for record in records] == [[1], [2], [3], [1]] or sum(
        map(len, records)
    ) == 4
    assert all((record.counts == 5).all() for record in records)
    assert +reader.violations == {"split_requests": 1}


def test_folder_or_file_that_is_not_recflow_is_refused(tmp_path):
    with pytest.raises(DataError, match="expected feather files"):
        next(RecflowReader(tmp_path).requests())
    pa.feather.write_feather(pa.table({"request_id": [1]}), tmp_path / "a.feather")
    with pytest.raises(DataError, match="request_timestamp, user_id"):
        next(RecflowReader(tmp_path).requests())
