"""Both sides of the timed training step compute the same gradients."""

import torch

from shortlist.lab.bench import tree_step
from shortlist.lab.bench.tree_step import Unblocked, _unblocked, differences, gradients, training_step
from shortlist.train.tree.plan import plan_of
from shortlist.train.tree.step import TrainStep
from tests.train.tree.small import SIZES


def small_step(monkeypatch) -> TrainStep:
    monkeypatch.setattr(tree_step, "BATCH", 4)
    return training_step(40, seed=0, plan=plan_of("dtr-t", "sound", **SIZES))


def test_the_plain_side_has_the_gradients_of_the_blocked_one(monkeypatch):
    step = small_step(monkeypatch)
    slow = TrainStep(step.plan, _unblocked(step.index))
    assert isinstance(slow.index.scorer, Unblocked)
    assert slow.levels == step.levels
    assert differences(step, slow, seed=1) < 1e-3


def test_other_weights_have_other_gradients(monkeypatch):
    step = small_step(monkeypatch)
    slow = TrainStep(step.plan, _unblocked(step.index))
    with torch.no_grad():
        slow.index.scorer.unit2.weight.mul_(2)
    assert differences(step, slow, seed=1) > 1e-2


def test_the_same_seed_gives_the_same_requests(monkeypatch):
    step = small_step(monkeypatch)
    one, other, third = (gradients(step, seed) for seed in (3, 3, 4))
    torch.testing.assert_close(one, other)
    assert not torch.allclose(one[0], third[0])
