import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.models.collaborative.mf import MF, MFConfig
from shortlist.train.loop.losses import bpr_loss, offer_loss, softmax_loss
from shortlist.train.loop.negatives import NegativeSampler
from shortlist.train.models.mf import LOSSES
from shortlist.train.models.pairs import Pairs
from shortlist.train.registry import make_trainer
from tests.train.logs import log, tastes

CPU = torch.device("cpu")
TINY = make_trainer("mf", width=8, epochs=30, batch_size=32, learning_rate=0.02, negatives=10, device="cpu")


@pytest.fixture
def few():
    """User 1 interacted with all items."""
    return log([0, 1], [0, 1, 2, 3], [3], n_items=4)


def new_model(trainer, events, alpha=0.0):
    """A new model, the pairs of the events, and the scores of all users and items."""
    torch.manual_seed(0)
    model = trainer.begin(events, None)
    pairs = Pairs.of(events, alpha, CPU)
    return model, pairs, (model.user_embedding.weight @ model.items.weight.T).detach()


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_learns_two_groups_of_users(loss):
    model = TINY.with_settings(loss=loss).learn(tastes())
    own = torch.arange(20)[None, :] // 10 == torch.arange(40)[:, None] % 2
    with torch.no_grad():
        best = model.scores(torch.full((40, 1), -1), torch.arange(40)).topk(10).indices
        new_users = torch.tensor(tastes(1).items.reshape(40, 6)).long()
        folded_in = model.scores(new_users).topk(10).indices
    assert own.gather(1, best).float().mean() > 0.9
    assert own.gather(1, folded_in).float().mean() > 0.8


def test_bpr_compares_each_event_with_one_negative_and_skips_users_of_all_items(few):
    trainer = TINY.with_settings(loss="bpr")
    model, pairs, scores = new_model(trainer, few)
    torch.manual_seed(5)
    sampled, valid = pairs.negatives(pairs.users, 1)
    losses = [
        float(bpr_loss(scores[user, item], scores[user, other])) if counts else 0.0
        for user, item, other, counts in zip(few.users, few.items, sampled[:, 0], valid[:, 0], strict=True)
    ]
    torch.manual_seed(5)
    loss = trainer.loss_of(model, pairs.users, pairs.items, pairs)
    assert loss.item() == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    assert losses[2:6] == [0.0] * 4


def test_ccf_compares_each_event_with_the_valid_negatives_of_its_offer(few):
    trainer = TINY.with_settings(loss="ccf", negatives=3)
    model, pairs, scores = new_model(trainer, few)
    torch.manual_seed(5)
    sampled, valid = pairs.negatives(pairs.users, 3)
    chosen = scores[pairs.users, pairs.items]
    expected = offer_loss(chosen, scores[pairs.users[:, None], sampled], valid).mean()
    torch.manual_seed(5)
    loss = trainer.loss_of(model, pairs.users, pairs.items, pairs)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


def test_softmax_with_every_item_sampled_once_is_the_full_softmax(few, monkeypatch):
    trainer = TINY.with_settings(loss="softmax", negatives=4)
    model, pairs, scores = new_model(trainer, few)
    monkeypatch.setattr(NegativeSampler, "sample", lambda self, shape: torch.arange(*shape))
    loss = trainer.loss_of(model, pairs.users, pairs.items, pairs)
    assert loss.item() == pytest.approx(softmax_loss(scores[pairs.users], pairs.items).item(), rel=1e-5)


def test_user_without_training_events_is_unknown():
    events = log([0, 1], [], [2, 3], n_items=4)
    model = TINY.with_settings(epochs=2).learn(events)
    assert isinstance(model, MF)
    assert model.config == MFConfig(4, n_users=3, width=8)
    assert model.trained_users.tolist() == [True, False, True]
    assert torch.allclose(model.mean_user, model.user_embedding.weight[[0, 2]].mean(0))


def test_unknown_loss_is_refused():
    with pytest.raises(ConfigError, match="loss must be one of bpr, softmax, ccf, got 'hinge'"):
        TINY.with_settings(loss="hinge")
