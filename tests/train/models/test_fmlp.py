import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from shortlist.models.sequence.fmlp import FMLP, FMLPConfig
from shortlist.train.loop.negatives import Proposal
from shortlist.train.models.fmlp import FMLPTrainer
from tests.train.logs import chains

ANY = Proposal.of(np.ones(20), 0.0, torch.device("cpu"))


def test_the_sizes_are_those_of_the_model():
    model = FMLPTrainer(max_history=7, width=6, blocks=1, dropout=0.1).model(9)
    assert isinstance(model, FMLP)
    assert model.config == FMLPConfig(9, max_history=7, width=6, blocks=1, dropout=0.1)


def test_the_loss_is_the_softmax_over_all_items_where_an_event_is_wanted():
    trainer = FMLPTrainer(max_history=4, width=6, dropout=0.0)
    torch.manual_seed(0)
    model = trainer.model(20)
    history = torch.tensor([[-1, 3, 4, 5], [-1] * 4, [-1] * 4])
    wanted = torch.tensor([6, 2, -1])
    expected = F.cross_entropy(model.scores(history[:2]), wanted[:2])
    assert trainer.loss_of(model, history, wanted, ANY).item() == pytest.approx(expected.item(), rel=1e-6)


def test_it_learns_a_pattern_by_heart():
    trainer = FMLPTrainer(width=16, max_history=8, epochs=6, batch_size=32, learning_rate=1e-2, dropout=0.0, device="cpu")
    model = trainer.learn(chains())
    with torch.no_grad():
        found = model.scores(torch.tensor([[5, 6, 7, 8, 9, 0, 1, 2], [12, 13, 14, 15, 16, 17, 18, 19]]))
    assert found.argmax(1).tolist() == [3, 10]
