import numpy as np
import pytest
import torch

from shortlist.data import Interactions
from shortlist.errors import ConfigError
from shortlist.testing.stages import check_stage
from shortlist.train import TrainContext
from shortlist.train.context import DAY
from shortlist.train.models.popular_window import PopularWindowTrainer


@pytest.fixture
def events():
    """Item 0 was met long ago three times, 1 twice and 2 once on the last day."""
    days = np.array([0, 1, 2, 100, 100, 100])
    return Interactions.of(np.arange(6), np.array([0, 0, 0, 1, 1, 2]), days * DAY, n_items=4)


def best(model):
    return model.scores(torch.tensor([[-1]]))[0].argsort(descending=True, stable=True).tolist()


def test_the_window_decides_and_all_time_breaks_ties(events):
    assert best(PopularWindowTrainer(days=30).learn(events)) == [1, 2, 0, 3]


def test_a_window_of_all_time_is_popularity(events):
    assert best(PopularWindowTrainer(days=0).learn(events)) == [0, 1, 2, 3]
    assert best(PopularWindowTrainer(days=1000).learn(events)) == [0, 1, 2, 3]
    assert best(PopularWindowTrainer(share=1.0, by="share").learn(events)) == [0, 1, 2, 3]


def test_a_log_without_a_clock_counts_the_last_share_of_events():
    ordered = Interactions.of(np.zeros(10, int), np.array([0] * 7 + [1, 1, 2]), n_items=3)
    trainer = PopularWindowTrainer(share=0.3)
    assert best(trainer.clocked("order").learn(ordered)) == [1, 2, 0]
    assert best(trainer.clocked("ms").learn(ordered)) == [0, 1, 2]  # ten milliseconds lie in any window


def test_a_pipeline_knows_which_clock_the_log_has(world):
    late = world.split(protocol="global-time").train
    asked = {
        clock: PopularWindowTrainer().fit({"name": "lately"}, TrainContext(late, world.catalog, clock=clock))
        for clock in ("ms", "order")
    }
    check_stage(asked["ms"], len(world.items))
    expected = PopularWindowTrainer(by="share").learn(late)
    assert torch.equal(asked["order"].model.worth, expected.worth)
    assert torch.equal(asked["ms"].model.worth, PopularWindowTrainer(by="days").learn(late).worth)


def test_days_need_a_clock():
    with pytest.raises(ConfigError, match="say by = 'share'"):
        PopularWindowTrainer(by="days").clocked("order")


def test_nothing_to_learn_from_is_no_error():
    empty = Interactions.of(np.empty(0, int), np.empty(0, int), n_users=2, n_items=3)
    for by in ("days", "share"):
        assert best(PopularWindowTrainer(by=by).learn(empty)) == [0, 1, 2]


@pytest.mark.parametrize("wrong", [{"by": "moon"}, {"share": 0.0}, {"share": 1.5}, {"days": -1.0}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError, match="popular-in-window: expected"):
        PopularWindowTrainer(**wrong)
