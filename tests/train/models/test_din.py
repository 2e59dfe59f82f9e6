import math

import numpy as np
import pytest
import torch

from shortlist.models.sequence.din import DIN, DINConfig
from shortlist.train.loop.negatives import NegativeSampler
from shortlist.train.registry import make_trainer
from tests.train.logs import chains

SIZES = {"width": 8, "hidden": 8, "windows": (2, 1, 1)}
TINY = make_trainer("din", **SIZES, layers=(8,), batch_size=64, negatives=6, device="cpu")
CPU = torch.device("cpu")


@pytest.fixture
def model():
    torch.manual_seed(0)
    return TINY.begin(chains(), None)


def test_max_history_is_the_sum_of_the_windows():
    model = TINY.learn(chains().where(np.arange(800) < 40))
    assert isinstance(model, DIN)
    assert model.config == DINConfig(20, width=8, hidden=8, layers=(8,), windows=(2, 1, 1))
    assert model.config.max_history == 4


def test_loss_equals_a_loop_over_the_same_samples(model):
    events = chains()
    sampler = NegativeSampler.of(events.popularity, 0.5, CPU)
    history = torch.tensor([[-1, 3, 4, 5], [-1] * 4, [-1] * 4])
    target = torch.tensor([19, 2, -1])
    torch.manual_seed(7)
    sampled = sampler.sample((3, 6))
    scores = model.scores(history).detach().double()
    losses = []
    for row in range(2):
        own = scores[row, target[row]].item()
        negatives = [other for other in sampled[row].tolist() if other != target[row].item()]
        total = sum(
            math.exp(scores[row, other]) / (6 * float(sampler.probability[other])) for other in negatives
        )
        losses.append(math.log(math.exp(own) + total) - own)
    torch.manual_seed(7)
    loss = TINY.loss_function(model, events, CPU)(history, target)
    assert loss.item() == pytest.approx(np.mean(losses), rel=1e-4)


def test_batch_without_targets_has_zero_loss_and_zero_gradient(model):
    loss = TINY.loss_function(model, chains(), CPU)(torch.full((3, 4), -1), torch.full((3,), -1))
    loss.backward()
    assert loss.item() == 0.0
    assert all((weight.grad == 0).all() for weight in model.parameters() if weight.grad is not None)


def test_it_learns_a_cycle_of_items():
    trainer = TINY.with_settings(layers=(16,), batch_size=32, epochs=12, learning_rate=1e-2, negatives=10)
    model = trainer.learn(chains())
    with torch.no_grad():
        scores = model.scores(torch.tensor([[9, 0, 1, 2], [16, 17, 18, 19]]))
    assert scores.argmax(1).tolist() == [3, 10]
