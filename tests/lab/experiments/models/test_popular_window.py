import numpy as np
import pytest
import torch

from shortlist.data import Interactions
from shortlist.errors import ConfigError
from shortlist.lab.experiments.models.popular_window import PopularWindowTrainer
from shortlist.train.context import DAY


@pytest.fixture
def events():
    """Item 0 has three old events, item 1 two and item 2 one event on the last day."""
    days = np.array([0, 1, 2, 100, 100, 100])
    return Interactions.of(np.arange(6), np.array([0, 0, 0, 1, 1, 2]), days * DAY, n_items=4)


def best(model):
    return model.scores(torch.tensor([[-1]]))[0].argsort(descending=True, stable=True).tolist()


def test_counts_in_the_window_decide_and_all_time_breaks_ties(events):
    assert best(PopularWindowTrainer(days=30).learn(events)) == [1, 2, 0, 3]


def test_a_window_of_all_time_is_popularity(events):
    assert best(PopularWindowTrainer(days=0).learn(events)) == [0, 1, 2, 3]
    assert best(PopularWindowTrainer(days=1000).learn(events)) == [0, 1, 2, 3]
    assert best(PopularWindowTrainer(share=1.0, window="share").learn(events)) == [0, 1, 2, 3]


def test_a_log_with_only_an_order_uses_the_last_share_of_events():
    ordered = Interactions.of(np.zeros(10, int), np.array([0] * 7 + [1, 1, 2]), n_items=3)
    trainer = PopularWindowTrainer(share=0.3)
    assert best(trainer.for_clock("order").learn(ordered)) == [1, 2, 0]
    assert best(trainer.for_clock("ms").learn(ordered)) == [0, 1, 2]  # ten milliseconds lie in any window


def test_a_window_in_days_needs_times():
    with pytest.raises(ConfigError, match="use window = 'share'"):
        PopularWindowTrainer(window="days").for_clock("order")


@pytest.mark.parametrize("window", ["days", "share"])
def test_a_log_without_events_gives_equal_scores(window):
    empty = Interactions.of(np.empty(0, int), np.empty(0, int), n_users=2, n_items=3)
    assert best(PopularWindowTrainer(window=window).learn(empty)) == [0, 1, 2]


@pytest.mark.parametrize("wrong", [{"window": "moon"}, {"share": 0.0}, {"share": 1.5}, {"days": -1.0}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigError, match=f"PopularWindow: {next(iter(wrong))} must"):
        PopularWindowTrainer(**wrong)
