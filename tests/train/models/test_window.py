import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from shortlist.errors import ConfigError
from shortlist.models.model import VectorModel
from shortlist.models.sequence.fmlp import FMLP, FMLPConfig
from shortlist.train.loop import trainer as loop_trainer
from shortlist.train.models.window import WindowTrainer, _windows, target_events
from shortlist.train.registry import make_trainer
from tests.train.logs import chains, log, nothing

CPU = torch.device("cpu")


class Last(VectorModel):
    """Reads the last item only: its row of a table is the score of every item."""

    def __init__(self, config):
        super().__init__(config)
        self.table = nn.Parameter(torch.zeros(config.n_items + 1, config.n_items))

    def users(self, history, user=None):
        return self.table[history[:, -1]]

    def vectors(self):
        return torch.eye(self.config.n_items)


TINY = WindowTrainer(
    model=Last, config=Last.Config(max_history=3), epochs=2, batch_size=4, instances=1000, device="cpu"
)


def windows_of(events, at, max_history):
    """The histories before events, and the items of the events."""
    items = torch.from_numpy(events.items.astype(np.int64))
    first = torch.from_numpy(events.starts[events.users].astype(np.int64))
    at = torch.as_tensor(at)
    return _windows(items, first, at, at, torch.arange(-max_history, 0))


@pytest.mark.parametrize("max_history", [1, 4, 30])
def test_windows_equal_a_loop_over_the_events_of_the_same_user(max_history):
    random = np.random.default_rng(0)
    events = log(*(random.integers(0, 50, length) for length in (7, 0, 1, 12, 3)), n_items=50)
    history, target = windows_of(events, np.arange(len(events)), max_history)
    for at in range(len(events)):
        user = int(events.users[at])
        before = events.items[int(events.starts[user]) : at].tolist()[-max_history:]
        assert history[at].tolist() == [-1] * (max_history - len(before)) + before
        assert target[at].item() == events.items[at]


def test_empty_place_of_a_batch_has_no_history_and_no_target():
    history, target = windows_of(log([1, 2, 3], n_items=4), [2, -1], 2)
    assert history.tolist() == [[1, 2], [-1, -1]]
    assert target.tolist() == [3, -1]


def test_epoch_samples_events_without_replacement_and_at_most_instances(monkeypatch):
    events, shown = log(range(10), range(10, 20), n_items=20), []
    monkeypatch.setattr(
        WindowTrainer, "loss_function", lambda self, *_: lambda history, target: shown.append(target)
    )
    sampled = []
    for instances in (100, 7):
        batches = TINY.with_settings(instances=instances)._batches(None, events, 0, CPU)
        for epoch in range(2):
            shown.clear()
            sizes = [len(shown[-1]) for loss in batches(epoch) if loss() is None]
            sampled.append(torch.cat(shown).tolist())
            rest = len(sampled[-1]) % 4
            assert sizes == [4] * (len(sampled[-1]) // 4) + [rest] * (rest > 0)
    assert sorted(sampled[0]) == sorted(sampled[1]) == list(range(20))
    assert sampled[0] != sampled[1]
    assert len(set(sampled[2])) == len(set(sampled[3])) == 7
    assert set(sampled[2]) != set(sampled[3])


def test_it_learns_which_item_follows_which():
    model = TINY.with_settings(epochs=8, batch_size=32, learning_rate=0.1).learn(chains())
    best = model.scores(torch.arange(20)[:, None]).argmax(1).tolist()
    assert best == [(item + 1) % 10 + item // 10 * 10 for item in range(20)]


def test_weights_of_the_best_epoch_are_kept_and_every_validation_is_reported(monkeypatch):
    values, weights, reported = iter([0.1, 0.4, 0.2, 0.3, 0.9]), [], []

    def metric_of(model, *_):
        def metric():
            weights.append(model.table.detach().clone())
            return next(values)

        return metric

    monkeypatch.setattr(loop_trainer, "validation_metric", metric_of)
    monkeypatch.setattr(loop_trainer, "SETTLE", 0)
    trainer = TINY.with_settings(epochs=5, patience=2, batch_size=64)
    model = trainer.learn(chains(), on_validation=reported.append)
    assert reported == list(model.validation) == [0.1, 0.4, 0.2, 0.3]
    assert torch.equal(model.table, weights[1])
    assert not torch.equal(weights[1], weights[2])


def test_same_seed_gives_the_same_weights_and_another_seed_gives_others():
    first, second, other = (TINY.learn(chains(), seed=seed).table for seed in (0, 0, 1))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_progress_never_exceeds_its_total():
    reports = []
    TINY.with_settings(instances=50).learn(chains(), progress=lambda *report: reports.append(report))
    assert all(task == "Last" and done <= total for task, done, total in reports)
    assert reports[-1] == ("Last", 26, 26)


def test_model_trained_on_no_events_has_finite_scores():
    model = TINY.learn(nothing())
    assert not model.training
    assert model.scores(torch.tensor([[0, 1]])).isfinite().all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"instances": 0}, "instances must lie between"),
        ({"early_stop_metric": "f1@9"}, "early_stop_metric must be"),
    ],
)
def test_invalid_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        TINY.with_settings(**settings)


def test_fmlp_is_trained_by_this_trainer_with_the_sizes_of_its_config():
    trainer = make_trainer("fmlp", max_history=7, width=6, blocks=1, dropout=0.1)
    assert type(trainer) is WindowTrainer
    model = trainer.begin(log(range(9), n_items=9), None)
    assert isinstance(model, FMLP)
    assert model.config == FMLPConfig(9, max_history=7, width=6, blocks=1, dropout=0.1)


def test_loss_is_the_softmax_over_all_items_of_examples_with_a_target():
    trainer, events = make_trainer("fmlp", max_history=4, width=6, dropout=0.0), log(range(20), n_items=20)
    torch.manual_seed(0)
    model = trainer.begin(events, None)
    history, target = torch.tensor([[-1, 3, 4, 5], [-1] * 4, [-1] * 4]), torch.tensor([6, 2, -1])
    expected = F.cross_entropy(model.scores(history[:2]), target[:2])
    loss = trainer.loss_function(model, events, CPU)(history, target)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)


def test_fmlp_learns_a_cycle_of_items():
    sizes = {"width": 16, "max_history": 8, "dropout": 0.0, "device": "cpu"}
    model = make_trainer("fmlp", **sizes, epochs=6, batch_size=32, learning_rate=1e-2).learn(chains())
    with torch.no_grad():
        scores = model.scores(torch.tensor([[5, 6, 7, 8, 9, 0, 1, 2], [12, 13, 14, 15, 16, 17, 18, 19]]))
    assert scores.argmax(1).tolist() == [3, 10]


def test_target_is_one_of_the_next_events_of_the_same_user():
    last = torch.tensor([2, 2, 2, 4, 4])  # two users with three and two events
    at = torch.tensor([0, 1, 2, 3, 4, -1])
    torch.manual_seed(0)
    drawn = torch.stack([target_events(at, last, 2) for _ in range(100)])
    assert [set(one.tolist()) for one in drawn.T] == [{0, 1}, {1, 2}, {2}, {3, 4}, {4}, {-1}]
    assert target_events(at, last, 1) is at
