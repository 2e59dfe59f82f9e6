"""Reading a log for training: the newest requests with positive feedback, and an error for every log without any."""

from dataclasses import replace

import numpy as np
import pytest

from shortlist.data import Catalog, Vocabulary
from shortlist.errors import ConfigError, DataError
from shortlist.feedback import LabelRules, LogReader, Quota, Sampling, concat, join_feedback, labelled
from shortlist.train.logged.read_log import read_training_log
from tests.train.logged.served import MINUTE, serve

STAGES = ("pool", "seen", "pre", "rank")


def test_rows_labels_and_times_are_those_of_the_log(world, log_folder):
    log = read_training_log(log_folder, world, STAGES, 1000)
    record = concat(list(labelled(LogReader(log_folder), LabelRules().version)))
    rows = record.as_rows(world.items, world.users)
    kept = ~rows.filtered
    assert log.stages == STAGES
    assert np.array_equal(log.time, record.ts_ms)
    assert np.array_equal(log.log.user_id, rows.user_id)
    assert np.array_equal(log.log.item_id, rows.item_id[kept])
    assert np.array_equal(log.log.stage, rows.stage[kept])
    served = log.log.stage == 4
    assert np.array_equal(log.log.y[served] == 1, log.log.item_id[served] % 2 == 0)
    assert log.left_out.counts["filtered"] == int(rows.filtered.sum())
    assert log.left_out.requests == 200


def test_newest_requests_are_kept(world, served, tmp_path):
    for number in range(3):
        users = range(20 * number, 20 * number + 20)
        serve(tmp_path / "log", world, served.pipeline, users, after=MINUTE * (1 + 60 * number))
    log = read_training_log(tmp_path / "log", world, STAGES, 30)
    assert len(log) == 30
    assert log.log.user_id.tolist() == list(range(30, 60))
    assert np.all(np.diff(log.time) > 0)
    whole = read_training_log(tmp_path / "log", world, STAGES, 1000)
    assert np.array_equal(whole.newest(30).log.item_id, log.log.item_id)


def test_inclusion_probabilities_of_a_sampled_log_are_kept(world, served, tmp_path):
    few = Sampling({2: Quota(5)})
    root = serve(tmp_path / "log", world, served.pipeline, range(20), sampling=few)
    log = read_training_log(root, world, STAGES, 1000).log
    sampled = log.stage == 2
    assert 0 < log.incl_prob[sampled].min() < 0.5
    assert np.all(log.incl_prob[~sampled] == 1)


@pytest.mark.parametrize("feedback", [False, True])
def test_log_without_labels_is_refused(world, served, tmp_path, feedback):
    root = serve(tmp_path / "log", world, served.pipeline, range(5), feedback=feedback, join=False)
    with pytest.raises(DataError, match=f"{root}: the log has no labels; make them with: shortlist log join"):
        read_training_log(root, world, STAGES, 10)


def test_log_whose_labels_are_still_open_is_refused(world, served, tmp_path):
    root = serve(tmp_path / "log", world, served.pipeline, range(5), join=False)
    join_feedback(root, watermark=0)
    with pytest.raises(DataError, match="none of 40 served candidates has a label yet"):
        read_training_log(root, world, STAGES, 10)


def test_log_without_positive_feedback_is_refused(world, served, tmp_path):
    root = serve(tmp_path / "log", world, served.pipeline, range(5), join=False)
    join_feedback(root, LabelRules(("follow",)), watermark=1 << 60)
    with pytest.raises(DataError, match="no request has positive feedback; check which events are positive"):
        read_training_log(root, world, STAGES, 10)


def test_labels_of_several_rules_need_a_choice(world, served, tmp_path):
    root = serve(tmp_path / "log", world, served.pipeline, range(5))
    other = LabelRules(least_play_ms=0.5)
    join_feedback(root, other, watermark=1 << 60)
    with pytest.raises(ConfigError, match="labels of several rules; choose one with --label-rule: "):
        read_training_log(root, world, STAGES, 10)
    assert len(read_training_log(root, world, STAGES, 10, rule=other.version)) == 5


def test_log_of_another_catalogue_is_refused(world, log_folder):
    items = Vocabulary.of([f"other-{row}" for row in range(len(world.items))])
    other = replace(world, catalog=Catalog.bare(items))
    with pytest.raises(DataError, match=r"are not in the catalogue of .*: the log belongs to another one"):
        read_training_log(log_folder, other, STAGES, 10)


def test_few_unknown_items_are_counted_and_left_out(world, log_folder):
    ids = world.items.ids.to_pylist()
    items = Vocabulary.of([*(f"new-{one}" for one in ids[:10]), *ids[10:]])
    log = read_training_log(log_folder, replace(world, catalog=Catalog.bare(items)), STAGES, 1000)
    assert log.left_out.counts["unknown_item"] > 0
    assert log.log.item_id.min() >= 10
    assert any("not in the catalogue" in one for one in log.left_out.explained)


def test_log_of_other_users_is_refused(world, log_folder):
    users = Vocabulary.of([f"other-{row}" for row in range(len(world.users))])
    with pytest.raises(DataError, match="none of 200 requests has a user of"):
        read_training_log(log_folder, replace(world, users=users), STAGES, 10)


def test_log_of_another_funnel_is_refused(world, log_folder):
    with pytest.raises(
        DataError, match="expected requests of the 2 stages pool > rank, got those of pool > seen"
    ):
        read_training_log(log_folder, world, ("pool", "rank"), 10)


def test_requests_of_other_stages_in_the_same_places_are_noted(world, log_folder):
    log = read_training_log(log_folder, world, ("pool", "seen", "coarse", "rank"), 10)
    expected = "200 requests were served by pool > seen > pre > rank: its stages count as those of pool > seen > coarse"
    assert any(one.startswith(expected) for one in log.notes)
    assert not any("were served by" in one for one in read_training_log(log_folder, world, STAGES, 10).notes)


def test_requests_of_several_versions_are_noted(world, served, tmp_path):
    root = tmp_path / "log"
    for version in (1, 2):
        serve(root, world, served.pipeline, range(5), policy=[version] * 4, after=version * 90 * MINUTE)
    log = read_training_log(root, world, STAGES, 10)
    assert any("2 combinations of versions of stages served the requests" in one for one in log.notes)


def test_empty_log_and_missing_folder_are_refused(world, tmp_path):
    with pytest.raises(DataError, match="expected the folder of a log, found none"):
        read_training_log(tmp_path / "none", world, STAGES, 10)
    (tmp_path / "log").mkdir()
    join_feedback(tmp_path / "log", watermark=0)
    with pytest.raises(DataError, match="expected requests in the log, got none"):
        read_training_log(tmp_path / "log", world, STAGES, 10)


def test_data_without_times_is_refused(world, log_folder):
    with pytest.raises(DataError, match="has no times; prepare data with times"):
        read_training_log(log_folder, replace(world, clock="order"), STAGES, 10)


def test_requests_since_a_time_are_those_of_the_last_version(world, served, tmp_path):
    root = tmp_path / "log"
    for version in (1, 2):
        serve(root, world, served.pipeline, range(5), policy=[version] * 4, after=version * 90 * MINUTE)
    began = int(world.events.times.max()) + 180 * MINUTE
    note = read_training_log(root, world, STAGES, 10).notes[-1]
    assert note.endswith(f"train on the last one alone with --log-since {began}")
    log = read_training_log(root, world, STAGES, 10, since=began)
    assert len(log) == 5
    assert int(log.time.min()) == began
    assert not any("combinations of versions" in one for one in log.notes)
