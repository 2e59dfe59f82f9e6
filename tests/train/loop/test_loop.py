import math
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from shortlist.errors import ShortlistError
from shortlist.train.loop import loop
from shortlist.train.loop.convergence import best_of
from shortlist.train.loop.cuda_graph import Recorded
from shortlist.train.loop.loop import Loop, shuffled


def line(target: float):
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)

    def batches(epoch):
        for _ in range(10):
            yield lambda: (model(torch.ones(1, 1)) - target).square().mean()

    return model, batches


def test_the_loop_learns_and_tells_how_far_it_is():
    model, batches = line(1.0)
    told = []
    Loop(epochs=20, learning_rate=0.05).run(model, batches, 10, "line", lambda *what: told.append(what))
    assert model.weight.item() == pytest.approx(1.0, abs=0.05)
    assert told[-1] == ("line", 200, 200)
    assert not model.training


def test_the_best_epoch_stays_and_patience_ends_the_rest():
    model, batches = line(5.0)
    verdicts = iter([1.0, 3.0, 2.0, 2.0, 9.0])
    kept = {}

    def judge():
        kept[len(kept)] = model.weight.item()
        return next(verdicts)

    said = Loop(epochs=5, learning_rate=0.1, patience=2).run(
        model, batches, 10, "line", lambda *_: None, judge
    )
    assert said == [1.0, 3.0, 2.0, 2.0]
    assert model.weight.item() == kept[1]


@pytest.mark.parametrize(
    ("verdicts", "best", "heard"),
    [
        ([1.0, 3.0, 3.0, 2.0, 9.0], 1, 4),
        ([0.0, 0.0, 0.0, 0.0, 0.0], 0, 3),
        ([math.nan, 1.0, 1.0, math.nan, 9.0], 1, 4),
        ([math.nan, math.nan, math.nan, 1.0, 1.0], 0, 3),
    ],
)
def test_the_first_of_equal_epochs_stays_and_patience_counts_from_it(verdicts, best, heard):
    model, batches = line(5.0)
    kept = []

    def judge():
        kept.append(model.weight.item())
        return verdicts[len(kept) - 1]

    said = Loop(epochs=5, learning_rate=0.1, patience=2).run(
        model, batches, 10, "line", lambda *_: None, judge
    )
    assert len(said) == heard
    assert best_of(said) == best
    assert model.weight.item() == kept[best]


def test_a_loss_that_is_no_number_is_named():
    model, _ = line(1.0)

    def batches(epoch):
        yield lambda: model(torch.ones(1, 1)).sum() * torch.nan

    with pytest.raises(ShortlistError, match="after epoch 1; lower the learning rate"):
        Loop(epochs=2).run(model, batches, 1, "line", lambda *_: None)


def test_shuffled_batches_hold_everything_once():
    batches = list(shuffled(10, 4, np.random.default_rng(0)))
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert sorted(np.concatenate(batches).tolist()) == list(range(10))


def test_a_loss_that_comes_as_the_same_function_again_is_recorded(monkeypatch):
    made = []

    class Noted(Recorded):
        def __init__(self, work, stream):
            super().__init__(work, stream)
            made.append(self)

        def __call__(self):
            self.done += 1
            self.work()

    monkeypatch.setattr(loop, "Recorded", Noted)
    monkeypatch.setattr(loop, "on", lambda stream: nullcontext())
    monkeypatch.setattr(loop, "stream_for", lambda device: "mine")
    model, fresh = line(1.0)

    def steady():
        return (model(torch.ones(1, 1)) - 1.0).square().mean()

    Loop(epochs=3, learning_rate=0.05).run(
        model, lambda epoch: iter([steady] * 10), 10, "line", lambda *_: None
    )
    assert [one.done for one in made] == [30]
    made.clear()
    Loop(epochs=1, learning_rate=0.05).run(model, fresh, 10, "line", lambda *_: None)
    assert [one.done for one in made] == [1] * 10


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_a_recorded_loss_learns_what_a_fresh_one_learns():
    found = []
    for recorded in (True, False):
        model = nn.Linear(4, 4, bias=False, device="cuda")
        nn.init.zeros_(model.weight)
        x = torch.zeros(8, 4, device="cuda")

        def loss(model=model, x=x):
            return (model(x) - 2 * x).square().mean()

        def batches(epoch, x=x, loss=loss, recorded=recorded):
            for step in range(20):
                x.copy_(torch.randn(8, 4, generator=torch.Generator().manual_seed(20 * epoch + step)))
                yield loss if recorded else partial(loss)

        Loop(epochs=3, learning_rate=0.05).run(model, batches, 20, "line", lambda *_: None)
        found.append(model.weight.detach().clone())
    assert torch.equal(*found)
