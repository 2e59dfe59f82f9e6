import numpy as np
import pytest
import torch
from torch import nn

from shortlist.data import HeldOut, Interactions
from shortlist.errors import ConfigError
from shortlist.evaluate.rank_model import rank_model
from shortlist.evaluate.scores import score_slates
from shortlist.models.model import Model, ModelConfig
from shortlist.train.loop.validation import judge_of, parsed


class Fixed(Model):
    """Every user has scores by lot, by row."""

    def __init__(self, n_users, n_items, seed=0):
        super().__init__(ModelConfig(n_items))
        table = torch.randn(n_users, n_items, generator=torch.Generator().manual_seed(seed))
        self.table = nn.Parameter(table, requires_grad=False)
        self.asked = 0

    def scores(self, history, user=None):
        self.asked += len(history)
        return self.table[user]


def last_ones(n_users, n_items, length, held, seed=0):
    """Cases that see all but the last `held` events of users who meet items by lot, some of them again."""
    items = np.random.default_rng(seed).integers(0, n_items, n_users * length)
    events = Interactions.of(np.repeat(np.arange(n_users), length), items, n_items=n_items)
    starts = np.arange(n_users) * length
    return HeldOut(events, starts, starts + length - held, starts + length)


@pytest.mark.parametrize("k", [1, 5, 20, 100])
@pytest.mark.parametrize("word", ["recall", "ndcg"])
def test_it_says_what_the_metrics_say_of_the_same_rankings(word, k):
    """Also where the list is longer than what is left of the catalogue, and where truth was seen before."""
    cases, model = last_ones(n_users=700, n_items=30, length=12, held=4), Fixed(700, 30)
    judge = judge_of(model, cases, 0, f"{word}@{k}", most=10_000)
    expected = score_slates(rank_model(model, cases, k), cases.relevant(), [k])[f"{word}@{k}"]
    assert judge() == pytest.approx(float(expected.nanmean()), abs=1e-6)


def test_what_a_case_has_seen_is_left_out():
    events = Interactions.of(np.zeros(4, int), np.array([0, 1, 2, 1]), n_items=4)
    model = Fixed(1, 4)
    model.table.copy_(torch.tensor([[4.0, 3.0, 2.0, 1.0]]))
    cases = HeldOut(
        events, np.array([0]), np.array([2]), np.array([4])
    )  # sees 0 and 1, truth is 2 and 1 again
    assert judge_of(model, cases, 0, "recall@1")() == 0.5
    assert judge_of(model, cases, 0, "recall@4")() == 0.5  # 1 may not be named, however long the list


def test_a_case_that_has_seen_nothing_is_asked_too():
    events = Interactions.of(np.zeros(2, int), np.array([1, 0]), n_items=3)
    model = Fixed(1, 3)
    model.table.copy_(torch.tensor([[0.0, 1.0, 0.5]]))
    assert judge_of(model, HeldOut(events, np.array([0]), np.array([0]), np.array([1])), 0, "ndcg@2")() == 1.0


def test_no_more_cases_are_asked_than_wished_and_the_seed_chooses_them():
    cases, model = last_ones(50, 30, 6, 1), Fixed(50, 30)
    judge_of(model, cases, 0, most=20)()
    assert model.asked == 20
    told = {judge_of(model, cases, seed, "ndcg@10", most=5)() for seed in range(4)}
    assert len(told) > 1
    assert judge_of(model, cases, 1, most=5)() == judge_of(model, cases, 1, most=5)()


def test_without_a_case_there_is_no_judge():
    cases = last_ones(3, 5, 3, 1)
    assert judge_of(Fixed(3, 5), None, 0) is None
    assert judge_of(Fixed(3, 5), cases.take(slice(0, 0)), 0) is None


def test_a_metric_is_a_word_and_a_cut():
    assert parsed("recall@20") == ("recall", 20)
    assert parsed("ndcg@1") == ("ndcg", 1)


@pytest.mark.parametrize(
    "metric", ["recall", "recall@", "recall@0", "recall@-1", "recall@ten", "f1@20", "@20", ""]
)
def test_other_words_are_refused(metric):
    with pytest.raises(ConfigError, match=r"early_stop_metric must be recall@k or ndcg@k, got"):
        judge_of(Fixed(1, 2), None, 0, metric)
