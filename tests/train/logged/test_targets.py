"""Logged positives as events, which give a tree further leaf targets."""

from dataclasses import replace

import numpy as np

from shortlist.data import Catalog, Interactions, Vocabulary
from shortlist.train.context import TrainContext
from shortlist.train.logged.targets import with_logged_targets, with_positives
from shortlist.train.logged.training_log import TrainingLog
from shortlist.train.objectives.from_log import LeftOut
from shortlist.train.objectives.stage_log import StageLog
from shortlist.train.registry import make_trainer
from tests.train.logs import chains


def log_of(rows, n_items: int, at: int) -> TrainingLog:
    """Requests of one served item each: (user, item, y)."""
    users, items, y = (np.array(one) for one in zip(*rows, strict=True))
    count = len(rows)
    log = StageLog(users, np.arange(count + 1), items, np.full(count, 2), y, n_items, 2)
    return TrainingLog(log, at + np.arange(count), ("pool", "rank"), LeftOut(count, count, 2))


def test_positives_become_events_at_the_time_of_their_request_once():
    events = Interactions.of(
        np.array([0, 0, 1]),
        np.array([0, 1, 2]),
        np.array([1, 2, 3]),
        np.array([1.0, 2, 3]),
        n_users=3,
        n_items=5,
    )
    rows = [(0, 3, 1), (0, 3, 1), (0, 1, 1), (1, 4, 0), (2, 2, 1), (1, 4, -1)]
    got = with_positives(events, log_of(rows, 5, 10))
    assert list(zip(got.users, got.items, got.times, got.weights, strict=True)) == [
        (0, 0, 1, 1), (0, 1, 2, 2), (0, 3, 10, 2), (1, 2, 3, 3), (2, 2, 14, 2),
    ]  # fmt: skip
    assert (got.n_users, got.n_items) == (3, 5)


def test_context_without_a_log_stays_as_it_is(world):
    context = TrainContext(world.events, world.catalog)
    assert with_logged_targets(context) is context


def test_tree_is_trained_on_logged_targets():
    """A tree of the log equals one of the events with the same positives, and differs from one without them."""
    events = chains()
    settings = {"scorer": "linear", "windows": [2, 1, 1], "min_history": 2, "rounds": 1, "sasrec_width": 4,
                "negatives": 3, "width": 8, "epochs": 1, "device": "cpu", "method": "dtr-u",
                "objective": "none"}  # fmt: skip
    trainer, log = (
        make_trainer("tree", **settings),
        log_of([(user, 19, 1) for user in range(0, 40, 2)], 20, 1000),
    )
    context = TrainContext(events, Catalog.bare(Vocabulary.of(list(range(20)))))
    merged = replace(context, events=with_positives(events, log))
    one, same, other = (
        trainer.fit({"name": "tree"}, given).tensors()
        for given in (replace(context, log=log), merged, context)
    )
    assert all(bool((one[name] == same[name]).all()) for name in one)
    assert not all(bool((one[name] == other[name]).all()) for name in one)
