from dataclasses import replace

import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.models.collaborative.mf import MF, MFConfig
from shortlist.train.loop.losses import bpr_loss, offer_loss, softmax_loss
from shortlist.train.loop.negatives import Proposal
from shortlist.train.models.mf import LOSSES, MFTrainer
from shortlist.train.models.pairs import Pairs
from tests.train.logs import log, tastes

CPU = torch.device("cpu")
TINY = MFTrainer(width=8, epochs=30, batch_size=32, learning_rate=0.02, negatives=10, device="cpu")


@pytest.fixture
def few():
    """User 1 met everything."""
    return log([0, 1], [0, 1, 2, 3], [3], n_items=4)


def begun(trainer, events, alpha=0.0):
    torch.manual_seed(0)
    model = trainer.begin(events, CPU)
    pairs = Pairs.of(events, alpha, CPU)
    return model, pairs, (model.people.weight @ model.items.weight.T).detach()


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_learns_whose_taste_is_whose(loss):
    model = replace(TINY, loss=loss).learn(tastes())
    own = torch.arange(20)[None, :] // 10 == torch.arange(40)[:, None] % 2
    with torch.no_grad():
        best = model.scores(torch.full((40, 1), -1), torch.arange(40)).topk(10).indices
        newcomers = torch.tensor(tastes(1).items.reshape(40, 6)).long()
        folded = model.scores(newcomers).topk(10).indices
    assert own.gather(1, best).float().mean() > 0.9
    assert own.gather(1, folded).float().mean() > 0.8


def test_bpr_is_each_met_item_against_one_unmet_and_nothing_where_all_is_met(few):
    trainer = replace(TINY, loss="bpr")
    model, pairs, scores = begun(trainer, few)
    torch.manual_seed(5)
    drawn, unmet = pairs.unmet(pairs.users, 1)
    losses = [
        float(bpr_loss(scores[user, item], scores[user, other])) if counts else 0.0
        for user, item, other, counts in zip(few.users, few.items, drawn[:, 0], unmet[:, 0], strict=True)
    ]
    torch.manual_seed(5)
    found = trainer.loss_of(model, pairs.users, pairs.items, pairs)
    assert found.item() == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    assert losses[2:6] == [0.0] * 4


def test_ccf_is_each_met_item_against_what_is_unmet_of_its_offer(few):
    trainer = replace(TINY, loss="ccf", negatives=3)
    model, pairs, scores = begun(trainer, few)
    torch.manual_seed(5)
    drawn, unmet = pairs.unmet(pairs.users, 3)
    chosen = scores[pairs.users, pairs.items]
    expected = offer_loss(chosen, scores[pairs.users[:, None], drawn], unmet).mean()
    torch.manual_seed(5)
    found = trainer.loss_of(model, pairs.users, pairs.items, pairs)
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)


def test_softmax_with_every_item_drawn_once_is_the_full_softmax(few, monkeypatch):
    trainer = replace(TINY, loss="softmax", negatives=4)
    model, pairs, scores = begun(trainer, few)
    monkeypatch.setattr(Proposal, "draw", lambda self, shape: torch.arange(*shape))
    found = trainer.loss_of(model, pairs.users, pairs.items, pairs)
    assert found.item() == pytest.approx(softmax_loss(scores[pairs.users], pairs.items).item(), rel=1e-5)


def test_who_met_nothing_is_not_among_the_known():
    events = log([0, 1], [], [2, 3], n_items=4)
    model = replace(TINY, epochs=2).learn(events)
    assert isinstance(model, MF)
    assert model.config == MFConfig(4, n_users=3, width=8)
    assert model.met.tolist() == [True, False, True]
    assert torch.allclose(model.usual, model.people.weight[[0, 2]].mean(0))


def test_other_losses_are_refused():
    with pytest.raises(ConfigError, match="loss must be one of bpr, softmax, ccf, got 'hinge'"):
        replace(TINY, loss="hinge").learn(tastes())
