from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.models.collaborative.mf import MF
from shortlist.train.loop import trainer as loop_trainer
from shortlist.train.loop.losses import bpr_loss
from shortlist.train.models.pairs import Pairs, PairTrainer
from tests.train.logs import log, nothing, tastes

CPU = torch.device("cpu")


@dataclass(frozen=True)
class PlainTrainer(PairTrainer):
    model: type[Any] = field(default=MF, kw_only=True)

    def begin(self, events, catalog):
        return MF(self.config_for(events, n_users=events.n_users))

    def loss_of(self, model, users, items, pairs):
        sampled, valid = pairs.negatives(users, 1)
        positive, negative = (
            model.user_embedding(users) * model.items(rows) for rows in (items, sampled[:, 0])
        )
        return (bpr_loss(positive.sum(1), negative.sum(1)) * valid[:, 0]).mean()

    def finish(self, model, events):
        model.finish(torch.from_numpy(events.lengths > 0))


TINY = PlainTrainer(epochs=3, batch_size=16, learning_rate=0.05, device="cpu").with_settings(width=4)


@pytest.fixture
def few():
    """User 0 interacted with half of the items, user 1 with all, user 2 with none, user 3 with the last one twice."""
    return log([0, 1, 2], [5, 4, 3, 2, 1, 0], [], [5, 5], n_items=6)


def test_interactions_equal_the_matrix_of_the_log(few):
    items = torch.arange(6).expand(4, 6)
    interacted = Pairs.of(few, 0.0, CPU).interacted(torch.arange(4), items)
    assert torch.equal(interacted, torch.from_numpy(few.matrix().toarray() > 0))


def test_negatives_are_items_without_interaction_and_few_samples_are_lost(few):
    pairs, users = Pairs.of(few, 0.5, CPU), torch.arange(4).repeat(200)
    torch.manual_seed(0)
    sampled, valid = pairs.negatives(users, 5)
    assert sampled.shape == valid.shape == (800, 5)
    matrix = few.matrix().toarray() > 0
    assert torch.equal(valid, torch.from_numpy(~matrix[users.numpy()[:, None], sampled.numpy()]))
    assert not valid[users == 1].any()  # a user of all items has no negatives
    assert valid[users == 2].all()
    assert set(sampled[users == 0][valid[users == 0]].tolist()) == {3, 4, 5}
    assert valid[users == 0].float().mean() > 0.9  # 1 / 2 of one sample, 1 / 16 of four are lost


def test_epoch_contains_every_event_and_fills_the_last_batch_from_the_beginning(few, monkeypatch):
    shown = []
    monkeypatch.setattr(
        PlainTrainer, "loss_of", lambda self, _, users, items, __: shown.append((users, items))
    )
    batches = TINY.with_settings(batch_size=4)._batches(None, few, 0, CPU)
    orders = []
    for epoch in range(2):
        shown.clear()
        assert [loss() for loss in batches(epoch)] == [None] * 3
        users, items = (torch.cat(side).tolist() for side in zip(*shown, strict=True))
        orders.append(list(zip(users, items, strict=True)))
        assert sorted(orders[-1][:11]) == sorted(zip(few.users.tolist(), few.items.tolist(), strict=True))
        assert orders[-1][11:] == orders[-1][:1]
    assert orders[0] != orders[1]


def test_it_learns_two_groups_of_users():
    model = TINY.with_settings(epochs=40).learn(tastes())
    with torch.no_grad():
        scores = model.scores(torch.full((40, 1), -1), torch.arange(40))
    own = torch.arange(20)[None, :] // 10 == torch.arange(40)[:, None] % 2
    best = scores.topk(10).indices
    assert own.gather(1, best).float().mean() > 0.9


def test_model_is_finished_before_every_validation_and_at_the_end(monkeypatch):
    finished, weights, reported = [], [], []
    values = iter([0.1, 0.4, 0.2, 0.3, 0.9])
    finish = PlainTrainer.finish

    def recorded(self, model, events):
        finished.append(len(weights))
        finish(self, model, events)

    def metric_of(model, *_):
        def metric():
            assert torch.allclose(model.gram, model.items.weight.T @ model.items.weight)
            weights.append(model.items.weight.detach().clone())
            return next(values)

        return metric

    monkeypatch.setattr(PlainTrainer, "finish", recorded)
    monkeypatch.setattr(loop_trainer, "validation_metric", metric_of)
    monkeypatch.setattr(loop_trainer, "SETTLE", 0)
    model = TINY.with_settings(epochs=5, patience=2).learn(tastes(), on_validation=reported.append)
    assert finished == [0, 1, 2, 3, 4]
    assert reported == list(model.validation) == [0.1, 0.4, 0.2, 0.3]
    assert torch.equal(model.items.weight, weights[1])
    assert torch.allclose(model.gram, weights[1].T @ weights[1])


def test_model_is_finished_without_validation_too():
    model = TINY.learn(tastes())
    assert list(model.validation) == []
    assert model.trained_users.all()
    assert torch.allclose(model.mean_user, model.user_embedding.weight.mean(0))


def test_model_trained_on_no_events_has_finite_scores():
    model = TINY.learn(nothing())
    assert not model.training
    assert model.scores(torch.tensor([[0, 1]]), torch.tensor([0])).isfinite().all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": -1.0}, "alpha must lie between"),
        ({"early_stop_metric": "recall"}, "early_stop_metric must be"),
    ],
)
def test_invalid_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        TINY.with_settings(**settings)
