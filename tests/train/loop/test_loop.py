import math
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from shortlist.errors import ShortlistError
from shortlist.train.loop import loop
from shortlist.train.loop.checkpoint import LoopState
from shortlist.train.loop.convergence import best_of
from shortlist.train.loop.cuda_graph import Recorded
from shortlist.train.loop.loop import Loop, shuffled


def short_loop(epochs: int, learning_rate: float = 0.05) -> Loop:
    return Loop(epochs, learning_rate, weight_decay=0.0, patience=2)


def line(target: float):
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)

    def batches(epoch):
        for _ in range(10):
            yield lambda: (model(torch.ones(1, 1)) - target).square().mean()

    return model, batches


def test_loop_trains_and_reports_progress():
    model, batches = line(1.0)
    reports = []
    short_loop(epochs=20).run(model, batches, 10, "line", lambda *report: reports.append(report))
    assert model.weight.item() == pytest.approx(1.0, abs=0.05)
    assert reports[-1] == ("line", 200, 200)
    assert not model.training


def test_epoch_and_metric_are_noted_where_the_display_takes_notes():
    model, batches = line(5.0)

    class Display:
        def __init__(self):
            self.notes = []

        def __call__(self, task, done, total):
            pass

        def note(self, task, text):
            self.notes.append(text)

    display, values = Display(), iter([0.25, 0.5])
    short_loop(epochs=2).run(model, batches, 10, "line", display, lambda: next(values), "recall@20")
    assert display.notes == ["epoch 1 of 2", "epoch 2 of 2, recall@20 0.2500"]


def test_best_epoch_is_kept_and_patience_stops_training():
    model, batches = line(5.0)
    values = iter([1.0, 3.0, 2.0, 2.0, 9.0])
    kept = {}

    def validate():
        kept[len(kept)] = model.weight.item()
        return next(values)

    validation = short_loop(epochs=5, learning_rate=0.1).run(
        model, batches, 10, "line", lambda *_: None, validate
    )
    assert validation == [1.0, 3.0, 2.0, 2.0]
    assert model.weight.item() == kept[1]


@pytest.mark.parametrize(("settle", "evaluations"), [(0, 4), (3, 5), (6, 8)])
def test_first_epochs_of_a_new_model_do_not_count_as_waiting(settle, evaluations):
    model, batches = line(1.0)
    values = iter([0.1, 0.5, *[0.2] * 20])
    loop = Loop(20, 0.05, weight_decay=0.0, patience=2, settle=settle)
    assert len(loop.run(model, batches, 10, "line", lambda *_: None, lambda: next(values))) == evaluations


@pytest.mark.parametrize(
    ("values", "best", "evaluations"),
    [
        ([1.0, 3.0, 3.0, 2.0, 9.0], 1, 4),
        ([0.0, 0.0, 0.0, 0.0, 0.0], 0, 3),
        ([math.nan, 1.0, 1.0, math.nan, 9.0], 1, 4),
        ([math.nan, math.nan, math.nan, 1.0, 1.0], 0, 3),
    ],
)
def test_first_of_equal_epochs_is_kept_and_patience_counts_from_it(values, best, evaluations):
    model, batches = line(5.0)
    kept = []

    def validate():
        kept.append(model.weight.item())
        return values[len(kept) - 1]

    validation = short_loop(epochs=5, learning_rate=0.1).run(
        model, batches, 10, "line", lambda *_: None, validate
    )
    assert len(validation) == evaluations
    assert best_of(validation) == best
    assert model.weight.item() == kept[best]


def test_loss_that_is_not_finite_is_an_error():
    model, _ = line(1.0)

    def batches(epoch):
        yield lambda: model(torch.ones(1, 1)).sum() * torch.nan

    with pytest.raises(ShortlistError, match="after epoch 1; lower the learning rate"):
        short_loop(epochs=2, learning_rate=1e-3).run(model, batches, 1, "line", lambda *_: None)


def test_shuffled_batches_contain_every_position_once():
    batches = list(shuffled(10, 4, np.random.default_rng(0)))
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert sorted(np.concatenate(batches).tolist()) == list(range(10))


def test_loss_that_is_the_same_function_again_is_recorded(monkeypatch):
    made = []

    class Counted(Recorded):
        def __init__(self, work, stream):
            super().__init__(work, stream)
            made.append(self)

        def __call__(self):
            self.runs += 1
            self.work()

    monkeypatch.setattr(loop, "Recorded", Counted)
    monkeypatch.setattr(loop, "on", lambda stream: nullcontext())
    monkeypatch.setattr(loop, "stream_for", lambda device: "mine")
    model, changing = line(1.0)

    def same():
        return (model(torch.ones(1, 1)) - 1.0).square().mean()

    short_loop(epochs=3).run(model, lambda epoch: iter([same] * 10), 10, "line", lambda *_: None)
    assert [recorded.runs for recorded in made] == [30]
    made.clear()
    short_loop(epochs=1).run(model, changing, 10, "line", lambda *_: None)
    assert [recorded.runs for recorded in made] == [1] * 10


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_a_recorded_loss_gives_the_same_weights_as_an_eager_one():
    weights = []
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

        short_loop(epochs=3).run(model, batches, 20, "line", lambda *_: None)
        weights.append(model.weight.detach().clone())
    assert torch.equal(*weights)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_the_memory_of_a_training_is_returned_after_it():
    def train() -> None:
        model = nn.Linear(4096, 4096, bias=False, device="cuda")
        x = torch.ones(2**14, 4096, device="cuda")  # 256 MB

        def loss():
            return (model(x) - x).square().mean()

        short_loop(epochs=2).run(model, lambda epoch: iter([loss] * 5), 5, "line", lambda *_: None)

    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    for _ in range(3):
        train()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() - before < 2**28


class Ticks:
    """A clock that goes on by one minute whenever it is read."""

    def __init__(self):
        self.minutes = -1

    def __call__(self):
        self.minutes += 1
        return 60.0 * self.minutes


@pytest.mark.parametrize(("minutes", "steps"), [(3, 3), (10, 10), (0, 50)])
def test_training_stops_at_the_first_step_after_the_time_limit_and_validates_once_more(minutes, steps):
    model, batches = line(5.0)
    done, values = [], iter([0.1, 0.2, 0.3, 0.4, 0.5])

    def counted(epoch):
        for loss_of in batches(epoch):
            done.append(epoch)
            yield loss_of

    limited = Loop(5, 0.05, weight_decay=0.0, patience=2, minutes=minutes)
    state = LoopState(model, limited.optimizer(model))
    state = limited.train(
        state, counted, 10, "line", lambda *report: None, lambda: next(values), clock=Ticks()
    )
    assert len(done) == steps
    assert state.out_of_time == (minutes > 0)
    assert len(state.validation) == state.epoch == (5 if not minutes else 1)
    assert not model.training


def test_weights_of_the_best_epoch_are_kept_when_the_time_is_over():
    model, batches = line(5.0)
    weights, values = [], iter([0.9, 0.1])

    def validate():
        weights.append(model.weight.item())
        return next(values)

    limited = Loop(9, 0.05, weight_decay=0.0, patience=5, minutes=13)
    state = limited.train(
        LoopState(model, limited.optimizer(model)),
        batches,
        10,
        "line",
        lambda *report: None,
        validate,
        clock=Ticks(),
    )
    assert state.out_of_time
    assert len(weights) == 2
    assert model.weight.item() == weights[0] != weights[1]
