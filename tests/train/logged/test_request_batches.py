"""Logged requests become training requests: the same record as out-of-fold ones, with outcomes of every stage."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.data import Candidates
from shortlist.pipeline import TYPES, parse_recipe
from shortlist.pipeline.offline import offline
from shortlist.train.logged.read_log import read_training_log
from shortlist.train.logged.request_batches import logged_batches, with_nominations
from shortlist.train.pipeline import context_of
from shortlist.train.pipeline_trainer import PipelineTrainer
from shortlist.train.refit import all_events
from shortlist.train.registry import TRAINERS
from tests.train.logged.served import RECIPE

STAGES = ("pool", "seen", "pre", "rank")


@pytest.fixture(scope="module")
def log(world, log_folder):
    return read_training_log(log_folder, world, STAGES, 1000)


@pytest.fixture(scope="module")
def batches(world, log):
    return list(logged_batches(log, world.events, 0))


@pytest.fixture(scope="module")
def pipeline(served):
    return offline(served.pipeline)


def by_user(batches):
    """(batch, row) of every request by its user, who has one request."""
    return {int(user): (one, row) for one in batches for row, user in enumerate(one.query.user.tolist())}


def test_every_request_is_in_one_batch_with_its_candidates_and_outcomes(log, batches):
    assert sum(len(one.targets) for one in batches) == len(log) == 200
    found, data = by_user(batches), log.log
    for request in range(0, 200, 17):
        one, row = found[int(data.user_id[request])]
        rows = slice(*data.offsets[request : request + 2])
        valid = one.found.valid[row]
        assert one.found.items[row][valid].tolist() == data.item_id[rows].tolist()
        assert one.logged.stage[row][valid].tolist() == data.stage[rows].tolist()
        assert one.logged.y[row][valid].tolist() == data.y[rows].tolist()
        positive = data.item_id[rows][(data.stage[rows] == 4) & (data.y[rows] == 1)]
        assert one.targets[row][one.targets[row] >= 0].tolist() == positive.tolist()
        assert int(one.query.time[row]) == log.time[request]


def test_histories_are_the_events_before_the_request(world, batches):
    one, row = by_user(batches)[5]
    history = one.query.history[row]
    start, stop = world.events.starts[5], world.events.starts[6]
    assert history[history >= 0].tolist() == world.events.items[start:stop].tolist()


def test_columns_and_scores_are_those_of_serving(world, batches, pipeline):
    """The same nominators and the same history: what a ranker sees in training is what it sees in serving."""
    one = batches[0]
    served = pipeline.stages[0](one.query, Candidates.none(len(one.query)))
    got = with_nominations(one, pipeline.stages[0])
    assert sorted(got.found.columns) == sorted(served.columns)
    for row in range(len(one.query)):
        expected = {
            int(item): place for place, item in enumerate(served.items[row]) if served.valid[row, place]
        }
        for place in got.found.valid[row].nonzero().flatten().tolist():
            where = expected[int(got.found.items[row, place])]
            assert torch.isclose(got.found.scores[row, place], served.scores[row, where])
            for name, column in got.found.columns.items():
                assert torch.equal(
                    column[row, place].nan_to_num(-1), served.columns[name][row, where].nan_to_num(-1)
                )


def test_candidate_that_is_no_longer_nominated_has_no_rank(batches, pipeline, world):
    one = batches[0]
    missing = torch.full((len(one.query), 1), int(world.events.popularity.argmin()))
    found = pipeline.stages[0](one.query, Candidates.none(len(one.query)))
    absent = ~((found.items == missing) & found.valid).any(1)
    logged = replace(
        one.logged, stage=torch.ones_like(missing), y=torch.full_like(missing, -1), inclusion=None
    )
    got = with_nominations(replace(one, found=Candidates.of(missing, torch.zeros(missing.shape)), logged=logged),
                           pipeline.stages[0])  # fmt: skip
    assert bool(absent.any())
    assert bool(got.found.columns["popular.rank"][absent].isnan().all())
    assert got.found.scores[absent].abs().sum() == 0
    assert bool(got.found.valid.all())


def test_through_keeps_what_the_logged_stage_kept_and_scores_it_with_the_new_one(batches, pipeline):
    one = with_nominations(batches[0], pipeline.stages[0])
    for number, stage in enumerate(pipeline.stages[1:], start=2):
        before, one = one, one.through(stage)
        assert one.logged.passed == number
        assert torch.equal(
            one.found.valid, before.found.valid & (one.logged.of(one.logged.stage, one.found) >= number)
        )
    assert int(one.found.valid.sum(1).max()) == 8  # served: S = T
    scores = pipeline.stages[2].inner.score(before.query, before.found)
    assert torch.isfinite(scores[before.found.valid]).all()


def test_folds_hold_all_requests_once_and_nominators_know_no_later_event(world, log):
    work = PipelineTrainer.of(parse_recipe(RECIPE), TYPES, TRAINERS)
    split = all_events(world, world.split().settings)
    early = replace(log, time=log.time - (log.time.min() - int(np.median(world.events.times))))
    folds = work.logged_folds(replace(context_of(world, split), log=early))
    assert len(folds) == 200
    assert folds.done == 1
    assert folds.events.times.max() < early.time.min()
    users = [set(one.query.user.tolist()) for part in folds.parts for one in part.batches]
    assert sum(map(len, users)) == len(set.union(*users)) == 200
