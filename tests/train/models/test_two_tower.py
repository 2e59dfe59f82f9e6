import numpy as np
import pytest
import torch

from shortlist.data import Catalog, Interactions, Query, Vocabulary, sliding
from shortlist.testing.stages import check_stage
from shortlist.train.context import TrainContext
from shortlist.train.models.two_tower import TwoTowerTrainer
from shortlist.train.registry import make_trainer


@pytest.fixture
def chains() -> TrainContext:
    """Users repeat one of two cycles of ten items."""
    items = [(step % 10) + 10 * (user % 2) for user in range(40) for step in range(20)]
    events = Interactions.of(np.repeat(np.arange(40), 20), np.array(items), n_items=20)
    return TrainContext(events, Catalog.bare(Vocabulary.of(list(range(20)))), clock="order")


@pytest.mark.parametrize("full", [20_000, 5], ids=["whole catalogue", "sampled negatives"])
def test_towers_learn_two_groups_of_users(chains, full):
    sizes = {"width": 8, "hidden": 8, "epochs": 8, "batch_size": 64, "learning_rate": 1e-2}
    stage = make_trainer("two-tower", **sizes, full=full, negatives=8).fit({}, chains)
    found = stage.nominate(Query.of([[0, 1, 2], [10, 11, 12]]))
    assert (found.items[0, :5] < 10).all()
    assert (found.items[1, :5] >= 10).all()
    check_stage(stage, 20)


def test_users_without_history_get_no_candidates(chains):
    stage = make_trainer("two-tower", width=4, hidden=4, epochs=1).fit({}, chains)
    assert stage.nominate(Query.of([[], [3]])).valid.any(1).tolist() == [False, True]


def test_same_seed_gives_the_same_weights(chains):
    trainer = make_trainer("two-tower", width=8, hidden=8, epochs=1)
    first, second = (trainer.fit({}, chains).tensors() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_targets_are_later_events_of_the_same_user(chains):
    windows = sliding(chains.events, 11, 2)
    trainer, rows = TwoTowerTrainer(ahead=4), np.arange(len(windows))
    targets = trainer._targets(windows, rows, np.random.default_rng(0))
    for row, target in zip(rows, targets, strict=True):
        end = int(windows.ends[row])
        stop = chains.events.of_user(int(chains.events.users[end])).stop
        assert target in range(end, min(end + 4, stop))


def test_too_few_events_to_train_on_still_give_a_stage():
    events = Interactions.of(np.array([0]), np.array([0]), n_items=3)
    stage = make_trainer("two-tower", width=4, hidden=4).fit(
        {}, TrainContext(events, Catalog.bare(Vocabulary.of([0, 1, 2])))
    )
    check_stage(stage, 3)
