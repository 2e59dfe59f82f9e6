import math

import numpy as np
import pytest
import torch

from shortlist.models.sequence.din import DIN, DINConfig
from shortlist.train.loop.negatives import Proposal
from shortlist.train.models.din import DINTrainer
from tests.train.logs import chains

TINY = DINTrainer(width=8, hidden=8, layers=(8,), windows=(2, 1, 1), batch_size=64, negatives=6, device="cpu")


def test_the_memory_is_the_sum_of_the_windows_whatever_else_was_said():
    model = TINY.learn(chains().where(np.arange(800) < 40))
    assert isinstance(model, DIN)
    assert model.config == DINConfig(20, max_history=4, width=8, hidden=8, layers=(8,), windows=(2, 1, 1))


def test_the_loss_is_what_a_loop_says_of_the_same_draws():
    proposal = Proposal.of(np.arange(20), 0.5, torch.device("cpu"))
    torch.manual_seed(0)
    model = TINY.model(20)
    history = torch.tensor([[-1, 3, 4, 5], [-1] * 4, [-1] * 4])
    wanted = torch.tensor([19, 2, -1])
    torch.manual_seed(7)
    drawn = proposal.draw((3, 6))
    scores = model.scores(history).detach().double()
    losses = []
    for row in range(2):
        own = scores[row, wanted[row]].item()
        others = [one for one in drawn[row].tolist() if one != wanted[row].item()]
        total = sum(math.exp(scores[row, one]) / (6 * float(proposal.share[one])) for one in others)
        losses.append(math.log(math.exp(own) + total) - own)
    torch.manual_seed(7)
    assert TINY.loss_of(model, history, wanted, proposal).item() == pytest.approx(np.mean(losses), rel=1e-4)


def test_where_no_event_is_wanted_nothing_is_learned():
    torch.manual_seed(0)
    model = TINY.model(20)
    loss = TINY.loss_of(
        model,
        torch.full((3, 4), -1),
        torch.full((3,), -1),
        Proposal.of(np.ones(20), 0.0, torch.device("cpu")),
    )
    loss.backward()
    assert loss.item() == 0.0
    assert all((one.grad == 0).all() for one in model.parameters() if one.grad is not None)


def test_it_learns_a_pattern_by_heart():
    trainer = DINTrainer(
        width=8,
        hidden=8,
        layers=(16,),
        windows=(2, 1, 1),
        batch_size=32,
        epochs=12,
        learning_rate=1e-2,
        negatives=10,
        device="cpu",
    )
    model = trainer.learn(chains())
    with torch.no_grad():
        found = model.scores(torch.tensor([[9, 0, 1, 2], [16, 17, 18, 19]])).argmax(1).tolist()
    assert found == [3, 10]
