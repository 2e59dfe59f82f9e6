from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from shortlist.errors import ConfigError
from shortlist.models.model import Model, ModelConfig
from shortlist.train.loop import trainer as looped
from shortlist.train.models.sequence import softmax_where
from shortlist.train.models.window import WindowTrainer, _windows
from tests.train.logs import chains, log, nothing

CPU = torch.device("cpu")


class Last(Model):
    """Looks at the last item alone."""

    def __init__(self, config):
        super().__init__(config)
        self.table = nn.Parameter(torch.zeros(config.n_items + 1, config.n_items))

    def scores(self, history, user=None):
        return self.table[history[:, -1]]


@dataclass(frozen=True)
class LastTrainer(WindowTrainer):
    title: ClassVar[str] = "last"

    def model(self, n_items):
        return Last(ModelConfig(n_items, self.max_history))

    def loss_of(self, model, history, wanted, proposal):
        return softmax_where(model.scores(history), wanted)


TINY = LastTrainer(max_history=3, epochs=2, batch_size=4, instances=1000, device="cpu")


def asked_of(events, at, max_history):
    """The windows before events, and the events."""
    items = torch.from_numpy(events.items.astype(np.int64))
    first = torch.from_numpy(events.starts[events.users].astype(np.int64))
    return _windows(items, first, torch.as_tensor(at), torch.arange(-max_history, 0))


@pytest.mark.parametrize("max_history", [1, 4, 30])
def test_windows_are_what_a_loop_finds_before_every_event_of_the_same_user(max_history):
    random = np.random.default_rng(0)
    events = log(*(random.integers(0, 50, length) for length in (7, 0, 1, 12, 3)), n_items=50)
    history, wanted = asked_of(events, np.arange(len(events)), max_history)
    for at in range(len(events)):
        user = int(events.users[at])
        before = events.items[int(events.starts[user]) : at].tolist()[-max_history:]
        assert history[at].tolist() == [-1] * (max_history - len(before)) + before
        assert wanted[at].item() == events.items[at]


def test_where_no_event_is_asked_for_there_is_nothing():
    history, wanted = asked_of(log([1, 2, 3], n_items=4), [2, -1], 2)
    assert history.tolist() == [[1, 2], [-1, -1]]
    assert wanted.tolist() == [3, -1]


def test_an_epoch_draws_events_once_each_afresh_and_no_more_than_wished(monkeypatch):
    events, shown = log(range(10), range(10, 20), n_items=20), []
    monkeypatch.setattr(LastTrainer, "loss_of", lambda self, model, history, wanted, _: shown.append(wanted))
    drawn = []
    for instances in (100, 7):
        batches = replace(TINY, instances=instances)._batches(None, events, 0, CPU)
        for epoch in range(2):
            shown.clear()
            sizes = [len(shown[-1]) for loss in batches(epoch) if loss() is None]
            drawn.append(torch.cat(shown).tolist())
            assert sizes == [4] * (len(drawn[-1]) // 4) + [len(drawn[-1]) % 4] * (len(drawn[-1]) % 4 > 0)
    assert sorted(drawn[0]) == sorted(drawn[1]) == list(range(20))
    assert drawn[0] != drawn[1]
    assert len(set(drawn[2])) == len(set(drawn[3])) == 7
    assert set(drawn[2]) != set(drawn[3])


def test_it_learns_what_follows_what():
    model = replace(TINY, epochs=8, batch_size=32, learning_rate=0.1).learn(chains())
    best = model.scores(torch.arange(20)[:, None]).argmax(1).tolist()
    assert best == [(item + 1) % 10 + item // 10 * 10 for item in range(20)]


def test_the_best_epoch_stays_and_every_judgement_is_heard(monkeypatch):
    told, kept, heard = iter([0.1, 0.4, 0.2, 0.3, 0.9]), [], []

    def judge_of(model, *_):
        def judge():
            kept.append(model.table.detach().clone())
            return next(told)

        return judge

    monkeypatch.setattr(looped, "judge_of", judge_of)
    model = replace(TINY, epochs=5, patience=2, batch_size=64).learn(chains(), watch=heard.append)
    assert heard == list(model.judged) == [0.1, 0.4, 0.2, 0.3]
    assert torch.equal(model.table, kept[1])
    assert not torch.equal(kept[1], kept[2])


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others():
    one, two, other = (TINY.learn(chains(), seed=seed).table for seed in (0, 0, 1))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_progress_never_tells_more_than_there_is():
    told = []
    replace(TINY, instances=50).learn(chains(), progress=lambda *what: told.append(what))
    assert all(what == "last" and done <= whole for what, done, whole in told)
    assert told[-1] == ("last", 26, 26)


def test_nothing_to_learn_from_still_gives_a_model():
    model = TINY.learn(nothing())
    assert not model.training
    assert model.scores(torch.tensor([[0, 1]])).isfinite().all()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"instances": 0}, "instances must lie between"), ({"early_stop_metric": "f1@9"}, "early_stop_metric must be")],
)
def test_settings_no_training_can_run_with_are_refused(wrong, said):
    with pytest.raises(ConfigError, match=said):
        replace(TINY, **wrong).learn(chains())
