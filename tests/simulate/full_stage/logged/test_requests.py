"""A simulated log is one that the reader and the join accept, with feedback drawn from the utilities."""

import numpy as np
import pytest

from shortlist.errors import ConfigError
from shortlist.feedback import EVERYTHING, LabelRules, LogReader, LogSettings, concat, join_feedback, labelled
from shortlist.simulate.full_stage.logged import (
    SimulationSettings,
    served_world,
    simulate_requests,
    world_pipeline,
)

SETTINGS = SimulationSettings(requests=150, capacities=(100, 40, 15, 5))


@pytest.fixture(scope="module")
def world():
    return served_world("short-video", SETTINGS, size="tiny", seed=3)


@pytest.fixture(scope="module")
def log(world, tmp_path_factory):
    root = tmp_path_factory.mktemp("log")
    pipeline = world_pipeline(world, SETTINGS)
    done = simulate_requests(world, pipeline, root, SETTINGS, LogSettings(queue=1), EVERYTHING)
    return root, done


def test_log_has_all_requests_stages_and_no_problem(log):
    root, done = log
    reader = LogReader(root, check=True)
    record = concat(list(reader.requests()))
    assert not reader.problems.counts
    assert (len(record), record.n_candidates) == (done.requests, done.candidates) == (150, done.candidates)
    assert record.funnels[0].stages[1:] == ("prerank", "rank", "rerank")
    assert record.n_out[:, 1:].tolist() == [[40, 15, 5]] * 150
    assert len(np.unique(record.request_id)) == 150


def test_labels_have_the_utility_as_their_mean(log, world):
    root, done = log
    report = join_feedback(root, watermark=world.start_ms + 10**10)
    assert (report.positives, report.positives + report.negatives) == (done.positives, done.impressions)
    assert not report.counts
    record = concat(list(labelled(LogReader(root), LabelRules().version)))
    known = record.y >= 0
    users = record.user_id[record.request[known]].astype(np.int64) - 1
    utility = world.utility(users, (record.item_id[known] - 1)[:, None])[:, 0]
    error = np.sqrt((utility * (1 - utility)).sum())
    assert abs(record.y[known].sum() - utility.sum()) < 4 * error


def test_events_of_the_data_set_are_before_the_first_request(world):
    events = world.data.events
    assert len(events)
    assert events.times.max() < world.start_ms
    assert events.lengths.max() <= SETTINGS.history


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        ("moon", None, "expected a world of"),
        ("jester", None, "add --source"),
        ("short-video", "x", "leave --source out"),
    ],
)
def test_wrong_world_is_refused(name, source, message):
    with pytest.raises(ConfigError, match=message):
        served_world(name, SETTINGS, source)


def test_capacities_that_grow_are_refused():
    with pytest.raises(ConfigError, match="never grow"):
        SimulationSettings(capacities=(10, 20, 5, 2))
