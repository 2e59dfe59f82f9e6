from types import SimpleNamespace

import numpy as np
import pytest
import torch

from shortlist.data import Interactions
from shortlist.errors import ConfigError, DataError
from shortlist.lab.experiments.two_time_scale import threshold_curve as module
from shortlist.lab.experiments.two_time_scale.threshold_curve import (
    FEW,
    halves_of,
    losses_after,
    own_vectors,
    some_users,
    threshold_curve,
)
from shortlist.train.two_time_scale.personal import ItemSpace

WIDTH, ITEMS = 3, 40


def softmax_log(spread, users=120, length=90, seed=0):
    """Events of softmax users around a mean vector, independent of each other, and the truth."""
    rng = np.random.default_rng(seed)
    items = rng.normal(size=(ITEMS, WIDTH))
    mean = np.array([0.5, 0.0, -0.5])
    vectors = mean + spread * rng.normal(size=(users, WIDTH))
    shares = np.exp(vectors @ items.T)
    shares /= shares.sum(1, keepdims=True)
    rows = np.stack([rng.choice(ITEMS, length, p=own) for own in shares])
    events = Interactions.of(np.repeat(np.arange(users), length), rows.reshape(-1), n_items=ITEMS)
    space = ItemSpace(
        torch.from_numpy(items).float(), torch.from_numpy(mean).float(), 0.5 / max(spread, 0.3) ** 2
    )
    return events, space, vectors


@pytest.fixture(scope="module")
def log():
    return softmax_log(0.6)


def test_split_halves_find_the_variance_of_the_true_vectors(log):
    events, space, vectors = log
    found = halves_of(events, space, 40, 0)
    variance = ((vectors - vectors.mean(0)) ** 2).sum(1).mean()
    assert found.weak.v == pytest.approx(variance, rel=0.15)
    assert found.moments.v < variance  # a prior shrinks
    assert found.users == 120
    assert found.information == pytest.approx(found.moments.q, rel=0.35)
    assert found.moments.q < found.weak.q
    assert sum(one.users for one in found.by_length) == 120


def test_losses_are_those_of_a_plain_softmax(log):
    events, space, _ = log
    users = np.array([3, 8])
    found = losses_after(events, users, space, 5, held=4)
    for place, user in enumerate(users):
        own = events.items[events.of_user(user)]
        vector = own_vectors(own[None, :5], space, space.prior)[0]
        for values, one in ((found.own, vector), (found.mean, space.mean)):
            expected = -(space.items @ one).log_softmax(0)[torch.from_numpy(own[5:9].astype(np.int64))].mean()
            assert values[place] == pytest.approx(float(expected), abs=1e-5)
    assert found.recurrence is None


def test_items_that_were_seen_do_not_compete_unless_they_come_again(log):
    events, space, _ = log
    user = np.array([11])
    own = events.items[events.of_user(11)].astype(np.int64)
    found = losses_after(events, user, space, 6, held=2, exclude_seen=True)
    scores = space.items @ space.mean
    left = [item for item in range(ITEMS) if item not in own[:6] or item in own[6:8]]
    expected = (scores[left].logsumexp(0) - scores[own[6:8]]).mean()
    assert found.mean[0] == pytest.approx(float(expected), abs=1e-5)


def test_own_vectors_are_better_after_some_events_and_sooner_with_a_prior(log):
    events, space, _ = log
    curve = threshold_curve(events, space, sizes=(10, 40), grid=(0, 1, 2, 5, 10, 20, 40, 60))
    own, weak = curve.crossing("own", "mean"), curve.crossing("weak", "mean")
    assert own is not None
    assert weak is not None
    assert own < weak
    assert curve.losses[0].own == pytest.approx(curve.losses[0].mean)  # without events it is the mean
    assert curve.losses[-1].own.mean() < curve.losses[-1].mean.mean()
    assert curve.drift() >= 1
    assert curve.drift(weak=True) >= 1


def test_own_vectors_never_pay_where_all_users_are_the_same():
    events, space, _ = softmax_log(0.0)
    curve = threshold_curve(events, space, sizes=(10, 40), grid=(1, 5, 20, 60))
    assert curve.crossing("weak", "mean") is None


def test_a_recurrence_predicts_the_same_events(log):
    """One that returns the true vector is better than an own vector, one that returns the mean is equal to it."""
    events, space, vectors = log
    users = np.arange(40)
    first = torch.from_numpy(events.items[events.starts[users][:, None] + np.arange(4)].astype(np.int64))

    def truth(history):
        place = (history[:, None, :] == first[None]).all(-1).float().argmax(1)
        return torch.from_numpy(vectors).float()[place]

    fake = SimpleNamespace(users=truth, vectors=lambda: space.items, device=torch.device("cpu"))
    found = losses_after(events, users, space, 4, fake, held=60)
    assert found.recurrence.mean() < found.own.mean() < found.mean.mean()
    fake.users = lambda history: space.mean.expand(len(history), -1)
    for t in (0, 3):
        found = losses_after(events, users, space, t, fake, held=5)
        assert found.recurrence == pytest.approx(found.mean, abs=1e-6)


def test_blocks_change_nothing(log, monkeypatch):
    events, space, _ = log
    users = np.arange(30)
    whole = losses_after(events, users, space, 5)
    monkeypatch.setattr(module, "CELLS", 3 * ITEMS)
    assert losses_after(events, users, space, 5).own == pytest.approx(whole.own, abs=1e-5)


def test_what_too_few_users_have_events_for_is_left_out(log):
    events, space, _ = log
    curve = threshold_curve(events, space, sizes=(10, 46), grid=(0, 80, 81, 200))
    assert [one.moments.t for one in curve.halves] == [10]
    assert [one.t for one in curve.losses] == [0, 80]
    assert curve.drift() is None
    assert halves_of(events.where(events.users < FEW - 1), space, 10, 0) is None


def test_users_of_a_seed_are_the_same_for_every_number_of_events(log):
    events, _, _ = log
    assert set(some_users(events, 90, 1)) == set(some_users(events, 5, 1))
    assert len(some_users(events, 91, 1)) == 0


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"grid": ()}, ConfigError, "0 or more events"),
        ({"grid": (-1,)}, ConfigError, "0 or more events"),
        ({"sizes": (0,)}, ConfigError, "halves of 1"),
        ({"held": 0}, ConfigError, "held 0"),
        ({"grid": (85,)}, DataError, "with 95 events, got 0"),
    ],
)
def test_curves_without_points_are_refused(log, change, error, words):
    with pytest.raises(error, match=words):
        threshold_curve(log[0], log[1], **change)


def test_item_vectors_of_other_items_and_no_prior_are_refused(log):
    events, space, _ = log
    with pytest.raises(DataError, match="of the 40 items of the log, got 39"):
        threshold_curve(events, ItemSpace(space.items[:-1], space.mean, 1.0))
    with pytest.raises(ConfigError, match="prior > 0"):
        threshold_curve(events, ItemSpace(space.items, space.mean, 0.0))
