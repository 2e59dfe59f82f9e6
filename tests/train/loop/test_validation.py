import numpy as np
import pytest
import torch
from torch import nn

from shortlist.data import HeldOut, Interactions
from shortlist.errors import ConfigError
from shortlist.evaluate.full_catalog import rank_model
from shortlist.evaluate.scores import score_slates
from shortlist.models.model import Model, ModelConfig
from shortlist.train.loop.validation import parse_metric, validation_metric


class Fixed(Model):
    """Random scores for every user."""

    def __init__(self, n_users, n_items, seed=0):
        super().__init__(ModelConfig(n_items))
        table = torch.randn(n_users, n_items, generator=torch.Generator().manual_seed(seed))
        self.table = nn.Parameter(table, requires_grad=False)
        self.requests = 0

    def scores(self, history, user=None):
        self.requests += len(history)
        return self.table[user]


def last_events_held_out(n_users, n_items, length, n_held, seed=0):
    """Users with random items, some of them repeated; the last `held` events are held out."""
    items = np.random.default_rng(seed).integers(0, n_items, n_users * length)
    events = Interactions.of(np.repeat(np.arange(n_users), length), items, n_items=n_items)
    starts = np.arange(n_users) * length
    return HeldOut(events, starts, starts + length - n_held, starts + length)


@pytest.mark.parametrize("k", [1, 5, 20, 100])
@pytest.mark.parametrize("name", ["recall", "ndcg"])
def test_metric_equals_the_evaluation_of_the_same_rankings(name, k):
    """Also if the list is longer than the rest of the catalogue, and if a relevant item was seen before."""
    held_out, model = last_events_held_out(n_users=700, n_items=30, length=12, n_held=4), Fixed(700, 30)
    metric = validation_metric(model, held_out, 0, f"{name}@{k}", users=10_000)
    expected = score_slates(rank_model(model, held_out, k), held_out.relevant(), [k])[f"{name}@{k}"]
    assert metric() == pytest.approx(float(expected.nanmean()), abs=1e-6)


def test_seen_items_are_excluded():
    events = Interactions.of(np.zeros(4, int), np.array([0, 1, 2, 1]), n_items=4)
    model = Fixed(1, 4)
    model.table.copy_(torch.tensor([[4.0, 3.0, 2.0, 1.0]]))
    held_out = HeldOut(
        events, np.array([0]), np.array([2]), np.array([4])
    )  # the history is 0 and 1, relevant are 2 and 1 again
    assert validation_metric(model, held_out, 0, "recall@1")() == 0.5
    assert validation_metric(model, held_out, 0, "recall@4")() == 0.5  # 1 was seen, so it is never ranked


def test_user_with_an_empty_history_counts():
    events = Interactions.of(np.zeros(2, int), np.array([1, 0]), n_items=3)
    model = Fixed(1, 3)
    model.table.copy_(torch.tensor([[0.0, 1.0, 0.5]]))
    assert (
        validation_metric(model, HeldOut(events, np.array([0]), np.array([0]), np.array([1])), 0, "ndcg@2")()
        == 1.0
    )


def test_number_of_users_is_limited_and_the_seed_samples_them():
    held_out, model = last_events_held_out(50, 30, 6, 1), Fixed(50, 30)
    validation_metric(model, held_out, 0, users=20)()
    assert model.requests == 20
    values = {validation_metric(model, held_out, seed, "ndcg@10", users=5)() for seed in range(4)}
    assert len(values) > 1
    assert (
        validation_metric(model, held_out, 1, users=5)() == validation_metric(model, held_out, 1, users=5)()
    )


def test_no_metric_without_validation_users():
    held_out = last_events_held_out(3, 5, 3, 1)
    assert validation_metric(Fixed(3, 5), None, 0) is None
    assert validation_metric(Fixed(3, 5), held_out.take(slice(0, 0)), 0) is None


def test_metric_has_a_name_and_a_cut_off():
    assert parse_metric("recall@20") == ("recall", 20)
    assert parse_metric("ndcg@1") == ("ndcg", 1)


@pytest.mark.parametrize(
    "metric", ["recall", "recall@", "recall@0", "recall@-1", "recall@ten", "f1@20", "@20", ""]
)
def test_unknown_metrics_are_refused(metric):
    with pytest.raises(ConfigError, match=r"early_stop_metric must be recall@k or ndcg@k, got"):
        validation_metric(Fixed(1, 2), None, 0, metric)


def test_items_of_the_history_are_candidates_with_repeats():
    """The best item is in the history: it is the answer with repeats, and hidden without."""
    events = Interactions.of(np.array([0, 0]), np.array([1, 1]), n_items=3)
    held_out, model = HeldOut(events, np.array([0]), np.array([1]), np.array([2])), Fixed(1, 3)
    model.table.copy_(torch.tensor([[0.0, 1.0, 0.5]]))
    assert validation_metric(model, held_out, 0, "recall@1+repeats")() == 1.0
    assert validation_metric(model, held_out, 0, "recall@1")() == 0.0
    assert parse_metric("recall@1+repeats") == ("recall", 1)


def test_likelihood_is_the_geometric_mean_of_the_probabilities_of_relevant_items():
    """Items of the history are candidates; every relevant item counts, not every request."""
    events = Interactions.of(np.array([0, 0, 0, 1, 1]), np.array([0, 1, 2, 2, 0]), n_items=4)
    held_out, model = HeldOut(events, np.array([0, 3]), np.array([1, 4]), np.array([3, 5])), Fixed(2, 4)
    p = model.table.softmax(1)
    expected = (p[0, 1] * p[0, 2] * p[1, 0]) ** (1 / 3)
    assert validation_metric(model, held_out, 0, "likelihood")() == pytest.approx(expected.item(), rel=1e-5)
    assert parse_metric("likelihood") == ("likelihood", 0)
