import numpy as np
import pyarrow as pa
import pytest
import torch

from shortlist.data import Catalog, Vocabulary
from shortlist.errors import ConfigError
from shortlist.models.registry import packed, unpacked
from shortlist.train.models.two_time_scale import TwoTimeScaleTrainer
from shortlist.train.registry import make_trainer
from tests.train.two_time_scale.worlds import quick, split, tastes

SPLIT = split(60)
EVENTS, VALID = SPLIT.train, SPLIT.valid_requests()


def catalog(n_items):
    """Items of four groups, as their category."""
    groups = np.array([str(one % 4) for one in range(n_items)])
    return Catalog(Vocabulary.of(list(range(n_items))), pa.table({"category": groups}))


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"threshold": -2}, "threshold"),
        ({"last": -1}, "last"),
        ({"base": "half"}, "base"),
        ({"readout": "lstm"}, "readout"),
        ({"prefix": "some"}, "prefix"),
        ({"items": "free"}, "items"),
        ({"personal": "all"}, "personal"),
        ({"loss": "bce"}, "loss"),
        ({"width": 0}, "width"),
        ({"prior": -1.0}, "prior"),
        ({"n_active": 3}, "n_active"),
    ],
)
def test_bad_settings_are_refused(settings, word):
    with pytest.raises(ConfigError, match=word):
        make_trainer("two-time-scale", **settings)


@pytest.mark.parametrize(("epochs", "expected"), [(1, True), (10**6, False)])
def test_softmax_is_taken_where_it_is_affordable(epochs, expected):
    events = tastes(epochs if epochs == 1 else 40)
    huge = type(events).of(
        events.users, events.items, n_users=events.n_users, n_items=20 if expected else 10**6
    )
    assert quick(loss="auto").loss_for(huge).softmax is expected
    assert quick(loss="softmax").loss_for(huge).softmax
    assert not quick(loss="offers").loss_for(huge).softmax


def test_first_stage_has_the_settings_of_both():
    trainer = quick(
        negatives=33, logq_correction=False, first_epochs=7, prior=0.4, features=False, width=5, minutes=10
    )
    first = trainer.first_stage()
    assert (first.uniform_negatives, first.correction, first.epochs, first.prior_weight) == (
        33,
        False,
        7,
        0.4,
    )
    assert (first.features, first.config.width, first.prior) == (False, 5, "mean")
    assert 0 < first.minutes < 10


def test_time_limit_stops_every_phase():
    ticks = iter(range(10**6))
    model = quick(epochs=50, first_epochs=50, minutes=1.0).learn(
        EVENTS, None, clock=lambda: float(next(ticks))
    )
    assert model.config.first_epochs < 50
    assert model.summary.out_of_time


@pytest.mark.parametrize("settings", [{}, {"loss": "offers"}, {"stages": "one"}], ids=str)
def test_memory_holds_tables_events_and_a_batch(settings):
    trainer = quick(**settings)
    few, many = tastes(40), tastes(400)
    assert trainer.memory(many, None) > trainer.memory(few, None) > 4 * few.n_items * 6
    wide = trainer.with_settings(width=600)
    assert wide.memory(few, None) > trainer.memory(few, None) + 5 * 4 * 600 * few.n_items


def test_size_is_that_of_the_largest_model():
    trainer = quick(threshold=0)
    model = trainer.learn(EVENTS, VALID)
    actual = sum(one.numel() * one.element_size() for one in model.state_dict().values())
    assert actual <= trainer.size(EVENTS, None) <= 1.5 * actual


@pytest.mark.parametrize("items", ["tuned", "frozen"])
def test_new_item_with_features_is_recommended_to_those_who_like_its_category(items):
    """Spec 2.3: the vector of an item without events is [x_unknown ; g(f)]."""
    events = tastes(100, n_items=24)
    without = events.where(events.items < 20)  # 20 to 23 are new, one of each category
    trainer = quick(width=4, epochs=12, first_epochs=30, learning_rate=1e-2, items=items)
    trainer = trainer.with_settings(batch_size=64, threshold=20)
    model = trainer.learn(without, None, catalog=catalog(24))
    assert model.config.feature_width == 64
    users = torch.arange(events.n_users)
    history = torch.stack([torch.arange(20)[torch.arange(20) % 4 == user % 4] for user in users])
    with torch.no_grad():
        found = model.scores(history)[:, 20:].argmax(1)
    assert float((found == users % 4).float().mean()) > 0.7


def test_new_item_without_features_has_the_mean_of_the_others():
    events = tastes(60)
    without = events.where(events.items != 7)
    model = quick(items="frozen").learn(without, None)
    others = model.items[torch.from_numpy(without.popularity > 0)]
    torch.testing.assert_close(model.items[7], others.mean(0), rtol=1e-4, atol=1e-5)


def test_new_item_of_tuned_vectors_is_not_pushed_away():
    """As a negative of every step it would be, with a score below all others."""
    events = tastes(60)
    without = events.where(events.items != 7)
    model = quick(epochs=20, learning_rate=2e-2).learn(without, None)
    with torch.no_grad():
        scores = model.scores(torch.full((1, 1), -1))[0]
    assert float(scores[7]) > float(scores[torch.arange(20) != 7].min())


def test_trained_model_is_the_same_after_an_artifact():
    model = quick().learn(EVENTS, VALID, catalog=catalog(20))
    again = unpacked(packed(model))
    history = torch.randint(20, (5, 9))
    with torch.no_grad():
        assert torch.equal(again.scores(history, torch.arange(5)), model.scores(history, torch.arange(5)))
    assert again.config == model.config


def test_trainer_is_that_of_the_registry():
    assert isinstance(make_trainer("two-time-scale"), TwoTimeScaleTrainer)
