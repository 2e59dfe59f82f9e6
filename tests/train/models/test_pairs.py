from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.models.collaborative.mf import MF, MFConfig
from shortlist.train.loop import trainer as looped
from shortlist.train.loop.losses import bpr_loss
from shortlist.train.models.pairs import Pairs, PairTrainer
from tests.train.logs import log, nothing, tastes

CPU = torch.device("cpu")


@dataclass(frozen=True)
class PlainTrainer(PairTrainer):
    title: ClassVar[str] = "plain"

    def begin(self, events, device):
        return MF(MFConfig(events.n_items, n_users=events.n_users, width=self.width)).to(device)

    def loss_of(self, model, users, items, pairs):
        drawn, unmet = pairs.unmet(users, 1)
        own, other = (model.people(users) * model.items(one) for one in (items, drawn[:, 0]))
        return (bpr_loss(own.sum(1), other.sum(1)) * unmet[:, 0]).mean()

    def settle(self, model, events):
        model.settle(torch.from_numpy(events.lengths > 0))


TINY = PlainTrainer(width=4, epochs=3, batch_size=16, learning_rate=0.05, device="cpu")


@pytest.fixture
def few():
    """User 0 met half of the items, user 1 all of them, user 2 nothing, user 3 the last one twice."""
    return log([0, 1, 2], [5, 4, 3, 2, 1, 0], [], [5, 5], n_items=6)


def test_who_met_what_is_what_the_log_says(few):
    everything = torch.arange(6).expand(4, 6)
    found = Pairs.of(few, 0.0, CPU).met(torch.arange(4), everything)
    assert torch.equal(found, torch.from_numpy(few.matrix().toarray() > 0))


def test_items_said_to_be_unmet_are_unmet_and_few_draws_are_lost(few):
    known, users = Pairs.of(few, 0.5, CPU), torch.arange(4).repeat(200)
    torch.manual_seed(0)
    drawn, unmet = known.unmet(users, 5)
    assert drawn.shape == unmet.shape == (800, 5)
    met = few.matrix().toarray() > 0
    assert torch.equal(unmet, torch.from_numpy(~met[users.numpy()[:, None], drawn.numpy()]))
    assert not unmet[users == 1].any()  # who met everything has nothing unmet
    assert unmet[users == 2].all()
    assert set(drawn[users == 0][unmet[users == 0]].tolist()) == {3, 4, 5}
    assert unmet[users == 0].float().mean() > 0.9  # 0.5 of one draw, 1 / 16 of four are lost


def test_an_epoch_shows_every_event_and_fills_the_last_batch_from_the_beginning(few, monkeypatch):
    shown = []
    monkeypatch.setattr(
        PlainTrainer, "loss_of", lambda self, _, users, items, __: shown.append((users, items))
    )
    batches = replace(TINY, batch_size=4)._batches(None, few, 0, CPU)
    orders = []
    for epoch in range(2):
        shown.clear()
        assert [loss() for loss in batches(epoch)] == [None] * 3
        users, items = (torch.cat(side).tolist() for side in zip(*shown, strict=True))
        orders.append(list(zip(users, items, strict=True)))
        assert sorted(orders[-1][:11]) == sorted(zip(few.users.tolist(), few.items.tolist(), strict=True))
        assert orders[-1][11:] == orders[-1][:1]
    assert orders[0] != orders[1]


def test_it_learns_whose_taste_is_whose():
    events = tastes()
    model = replace(TINY, epochs=40).learn(events)
    with torch.no_grad():
        scores = model.scores(torch.full((40, 1), -1), torch.arange(40))
    own = torch.arange(20)[None, :] // 10 == torch.arange(40)[:, None] % 2
    best = scores.topk(10).indices
    assert own.gather(1, best).float().mean() > 0.9


def test_the_model_is_settled_before_every_judgement_and_after_the_last(monkeypatch):
    settled, kept, heard = [], [], []
    verdicts = iter([0.1, 0.4, 0.2, 0.3, 0.9])
    settle = PlainTrainer.settle

    def noted(self, model, events):
        settled.append(len(kept))
        settle(self, model, events)

    def judge_of(model, *_):
        def judge():
            assert torch.allclose(model.gram, model.items.weight.T @ model.items.weight)
            kept.append(model.items.weight.detach().clone())
            return next(verdicts)

        return judge

    monkeypatch.setattr(PlainTrainer, "settle", noted)
    monkeypatch.setattr(looped, "judge_of", judge_of)
    model = replace(TINY, epochs=5, patience=2).learn(tastes(), watch=heard.append)
    assert settled == [0, 1, 2, 3, 4]
    assert heard == list(model.judged) == [0.1, 0.4, 0.2, 0.3]
    assert torch.equal(model.items.weight, kept[1])
    assert torch.allclose(model.gram, kept[1].T @ kept[1])


def test_without_a_judge_it_is_settled_once():
    model = TINY.learn(tastes())
    assert list(model.judged) == []
    assert model.met.all()
    assert torch.allclose(model.usual, model.people.weight.mean(0))


def test_nothing_to_learn_from_still_gives_a_model():
    model = TINY.learn(nothing())
    assert not model.training
    assert model.scores(torch.tensor([[0, 1]]), torch.tensor([0])).isfinite().all()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"alpha": -1.0}, "alpha must lie between"), ({"early_stop_metric": "recall"}, "early_stop_metric must be")],
)
def test_settings_no_training_can_run_with_are_refused(wrong, said):
    with pytest.raises(ConfigError, match=said):
        replace(TINY, **wrong).learn(tastes())
