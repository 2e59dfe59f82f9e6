import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from shortlist.data import Interactions, half_history
from shortlist.errors import ConfigError
from shortlist.models.registry import MODELS
from shortlist.models.sequence.model import SequenceModel
from shortlist.train.loop import trainer as loop_trainer
from shortlist.train.loop.negatives import NegativeSampler
from shortlist.train.loop.validation import validation_metric
from shortlist.train.models import sequence
from shortlist.train.models.sequence import (
    LOSSES,
    SequenceTrainer,
    ahead_of,
    mean_where,
    pieces,
    similar_lengths,
    softmax_where,
)
from shortlist.train.registry import make_trainer
from tests.train.logs import chains, log, nothing, tastes

CPU = torch.device("cpu")


class Constant(SequenceModel):
    """The same user vector at every position, so that changes come from training only."""

    def __init__(self, config):
        super().__init__(config, 4)
        self.user = nn.Parameter(torch.randn(4))

    def forward(self, history):
        return self.user.expand(len(history), history.shape[1] + 1, 4)


TINY = SequenceTrainer(
    model=Constant, config=Constant.Config(max_history=8), epochs=3, batch_size=16, negatives=4, device="cpu"
)
SMALL_SASREC = make_trainer("sasrec", width=16, epochs=2, max_history=8, batch_size=32, device="cpu")
FAST = {"width": 16, "max_history": 8, "batch_size": 16, "learning_rate": 1e-2, "device": "cpu"}


def vectors_and_targets(shape=(3, 5), width=4, n_items=9, seed=0):
    """User vectors at positions, item vectors, targets with padding among them, and a sampler."""
    generator = torch.Generator().manual_seed(seed)
    users = torch.randn(*shape, width, generator=generator)
    items = torch.randn(n_items, width, generator=generator)
    target = torch.randint(0, n_items, shape, generator=generator)
    target[0, 3:] = -1
    target[2] = -1
    return users, items, target, NegativeSampler.of(np.arange(n_items), 0.5, CPU)


def test_softmax_loss_equals_a_loop_over_positions():
    users, items, target, sampler = vectors_and_targets()
    losses = []
    for user, row in enumerate(target.tolist()):
        for position, item in enumerate(row):
            if item >= 0:
                scores = [float(users[user, position] @ vector) for vector in items]
                losses.append(math.log(sum(map(math.exp, scores))) - scores[item])
    loss = TINY.position_loss(users, items, target, sampler)
    assert loss.item() == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.parametrize("loss", ["sampled", "bce"])
def test_losses_with_sampled_negatives_equal_a_loop_over_positions(loss):
    users, items, target, sampler = vectors_and_targets()
    used = target >= 0  # only positions with a target have negatives
    shape = (6,) if loss == "sampled" else (int(used.sum()), 6)
    torch.manual_seed(4)
    sampled = torch.zeros(*target.shape, 6, dtype=torch.int64)
    sampled[used] = sampler.sample(shape).expand(int(used.sum()), 6)
    losses = []
    for user, row in enumerate(target.tolist()):
        for position, item in enumerate(row):
            if item < 0:
                continue
            here = users[user, position]
            negatives = [other for other in sampled[user, position].tolist() if other != item]
            own, scores = float(here @ items[item]), [float(here @ items[other]) for other in negatives]
            if loss == "sampled":
                expected = [float(sampler.probability[other]) * 6 for other in negatives]
                total = sum(math.exp(score) / count for score, count in zip(scores, expected, strict=True))
                losses.append(math.log(math.exp(own) + total) - own)
            else:
                wrong = [math.log1p(math.exp(score)) for score in scores]
                losses.append(math.log1p(math.exp(-own)) + sum(wrong) / max(len(wrong), 1))
    torch.manual_seed(4)
    value = TINY.with_settings(loss=loss, negatives=6).position_loss(users, items, target, sampler)
    assert value.item() == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_padding_has_no_loss_and_no_gradient(loss):
    users, items, target, sampler = vectors_and_targets()
    trainer, values = TINY.with_settings(loss=loss), []
    for scale in (1.0, 50.0):
        changed = torch.where((target < 0)[..., None], scale * users, users).requires_grad_()
        torch.manual_seed(1)
        value = trainer.position_loss(changed, items, target, sampler)
        value.backward()
        assert (changed.grad[target < 0] == 0).all()
        assert (changed.grad[target >= 0] != 0).any()
        values.append(value.item())
    assert values[0] == values[1]


@pytest.mark.parametrize("loss", LOSSES)
def test_batch_without_targets_has_zero_loss_and_zero_gradient(loss):
    users, items, target, sampler = vectors_and_targets()
    users.requires_grad_()
    items.requires_grad_()
    trainer = TINY.with_settings(loss=loss)
    value = trainer.position_loss(users, items, torch.full_like(target, -1), sampler)
    value.backward()
    assert value.item() == 0.0
    assert (users.grad == 0).all()
    assert (items.grad == 0).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_empty_pieces_at_the_end_of_a_batch_change_neither_loss_nor_gradient(loss):
    """On a GPU the last batch is filled up so that it can be recorded."""
    sizes = {"width": 8, "hidden": 8, "max_history": 5, "dropout": 0.0}
    trainer = make_trainer("sum-pooling", **sizes, loss=loss, negatives=4, alpha=0.0)
    events = log(range(6), n_items=6)
    torch.manual_seed(0)
    model, sampler = trainer.begin(events, None), NegativeSampler.of(np.ones(6), 0.0, CPU)
    full = torch.tensor([[0, 1, 2, -1, -1, -1], [3, 4, 5, 0, 1, 2]])
    gradients, values = [], []
    for piece in (full, torch.cat([full, torch.full((3, 6), -1)])):
        model.zero_grad()
        torch.manual_seed(0)
        value = trainer.loss_of(model, piece, sampler)
        value.backward()
        values.append(value.item())
        gradients.append(torch.cat([weight.grad.flatten() for weight in model.parameters()]))
    assert values[0] == pytest.approx(values[1], rel=1e-6)
    assert gradients[1].isfinite().all()
    assert torch.allclose(*gradients, atol=1e-6)


def test_means_are_over_valid_entries():
    valid = torch.tensor([True, False, True])
    assert mean_where(torch.tensor([1.0, torch.inf, 3.0]), valid).item() == 2.0
    assert mean_where(torch.ones(3), torch.zeros(3, dtype=torch.bool)).item() == 0.0
    logits = torch.tensor([[0.0, math.log(3.0)], [5.0, 0.0]])
    assert softmax_where(logits, torch.tensor([1, -1])).item() == pytest.approx(math.log(4 / 3))
    assert softmax_where(logits, torch.tensor([-1, -1])).item() == 0.0


@pytest.mark.parametrize("seed", range(5))
def test_pieces_contain_every_event_once_and_never_mix_users(seed):
    random = np.random.default_rng(seed)
    lengths = random.integers(0, 40, 30)
    users = np.repeat(np.arange(30), lengths)
    starts, stops = pieces(lengths, 9, random)
    events = np.concatenate([np.arange(a, b) for a, b in zip(starts, stops, strict=True)])
    assert sorted(events.tolist()) == list(range(len(users)))
    assert (stops - starts).max() <= 9
    assert (stops > starts).all()
    assert (users[starts] == users[stops - 1]).all()


def test_long_sequences_are_cut_at_other_positions_in_every_epoch_and_short_ones_are_never_cut():
    random = np.random.default_rng(0)
    cuts = [pieces(np.array([5, 100]), 10, random)[0].tolist() for _ in range(4)]
    assert len({tuple(starts) for starts in cuts}) > 1
    assert all(starts[:2] == [0, 5] for starts in cuts)


def test_batches_contain_the_pieces_of_an_epoch_padded_at_the_end(monkeypatch):
    events = log([0, 1, 2], [3], [], [4, 5, 6, 7, 0, 1, 2, 3], n_items=8)
    batch_pieces = []
    monkeypatch.setattr(
        SequenceTrainer, "loss_of", lambda self, model, piece, sampler: batch_pieces.append(piece)
    )
    trainer = TINY.with_settings(max_history=3, batch_size=2)
    batches = trainer._batches(None, events, 0, CPU)
    for epoch in range(3):
        batch_pieces.clear()
        steps = [loss() for loss in batches(epoch)]
        assert len(steps) <= trainer._steps(events)
        rows = [row.tolist() for piece in batch_pieces for row in piece]
        assert all(max(map(len, piece.tolist())) <= 4 and (piece >= 0).any(0).all() for piece in batch_pieces)
        assert all(not (a < 0 <= b) for row in rows for a, b in pairwise(row))
        items = sorted(item for row in rows for item in row if item >= 0)
        assert items == sorted(events.items.tolist())


@pytest.mark.parametrize("size", [1, 4, 50])
def test_batches_have_pieces_of_similar_lengths_and_about_the_same_number_of_events(size):
    lengths = np.random.default_rng(size).integers(1, 60, 200)
    batches = similar_lengths(lengths, size, np.random.default_rng(0))
    assert sorted(np.concatenate(batches).tolist()) == list(range(200))
    assert len(batches) <= -(-200 // size)
    for rows in batches:
        assert lengths[rows].sum() <= lengths.mean() * size + 2 * 60
        assert np.ptp(lengths[rows]) <= 60 * min(1.0, 0.5 + size / 100)
    other = similar_lengths(lengths, size, np.random.default_rng(1))
    assert [one.tolist() for one in other] != [one.tolist() for one in batches]


def test_auto_loss_samples_negatives_only_where_a_softmax_takes_too_long(monkeypatch):
    events = log([0, 1, 2], [3], n_items=8)
    assert TINY.loss_for(events) == "softmax"
    assert TINY.resolved(events).loss == "softmax"
    monkeypatch.setattr(sequence, "AFFORDABLE", 4 * 8 - 1)
    assert TINY.loss_for(events) == "sampled"
    monkeypatch.setattr(sequence, "AFFORDABLE", 4 * 8)
    assert TINY.loss_for(events) == "softmax"
    monkeypatch.setattr(sequence, "LAZY_ROWS", 7)
    assert TINY.loss_for(events) == "sampled"
    assert TINY.with_settings(loss="bce").resolved(events).loss == "bce"


def test_padding_of_a_trimmed_batch_changes_no_loss():
    """On a CPU a batch ends with its longest piece; the loss is that of the batch with more padding."""
    torch.manual_seed(0)
    model = make_trainer("sasrec", **FAST, dropout=0.0).begin(log([0, 1, 2, 3], n_items=9), None)
    piece = torch.tensor([[1, 2, 3], [4, 5, -1]])
    wide = torch.cat([piece, torch.full((2, 5), -1)], dim=1)
    sampler = NegativeSampler.of(np.ones(9), 0.0, CPU)
    assert torch.allclose(*(SMALL_SASREC.loss_of(model, one, sampler) for one in (piece, wide)))


@pytest.mark.parametrize("ahead", [1, 3])
def test_target_is_one_of_the_next_events_of_the_piece(ahead):
    piece = torch.tensor([[1, 2, 3, 4, -1, -1], [5, 6, 7, 8, 9, 10], [-1] * 6])
    torch.manual_seed(0)
    targets = torch.stack([piece.gather(1, ahead_of(piece, ahead)) for _ in range(200)])
    for row, events in enumerate(piece.tolist()):
        valid = [item for item in events if item >= 0]
        for at in range(6):
            assert set(targets[:, row, at].tolist()) == (set(valid[at : at + ahead]) or {-1})


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_learns_popularity(loss):
    """Most users interact with item 0 only, the others with item 1 only."""
    events = log(*([0] * 20 for _ in range(20)), *([1] * 20 for _ in range(8)), n_items=6)
    trainer = TINY.with_settings(loss=loss, epochs=30, learning_rate=0.05, alpha=0.0)
    scores = trainer.learn(events).scores(torch.tensor([[2]]))
    assert scores.argsort(descending=True)[0, :2].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("name", "settings"),
    [("sasrec", {"epochs": 40}), ("gru4rec", {"epochs": 20, "hidden": 16})],
)
def test_causal_models_learn_a_cycle_of_items(name, settings):
    model = make_trainer(name, **FAST, dropout=0.0, **settings).learn(chains())
    with torch.no_grad():
        scores = model.scores(torch.tensor([[0, 1, 2], [-1, 5, 6], [17, 18, 19]]))
    assert scores.argmax(1).tolist() == [3, 7, 10]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("sum-pooling", {"epochs": 30, "hidden": 16, "dropout": 0.0}),
        ("youtube-dnn", {"epochs": 40, "layers": (16,), "negatives": 10}),
    ],
)
def test_pooling_models_learn_which_items_occur_together(name, settings):
    model = make_trainer(name, **FAST, **settings).learn(tastes())
    with torch.no_grad():
        best = model.scores(torch.tensor([[0, 5, 3], [12, 11, 19]])).topk(7).indices
    assert (best[0] < 10).all()
    assert (best[1] >= 10).all()


@pytest.mark.parametrize("name", [name for name, kind in MODELS.items() if issubclass(kind, SequenceModel)])
def test_sequence_models_share_one_trainer_and_take_sizes_from_their_config(name):
    trainer = make_trainer(name, max_history=7, width=6)
    assert type(trainer) is SequenceTrainer
    model = trainer.begin(log(range(9), n_items=9), None)
    assert type(model) is MODELS[name]
    assert model.config == MODELS[name].Config(9, max_history=7, width=6)


def test_youtube_dnn_is_trained_with_a_sampled_softmax_by_default():
    assert make_trainer("youtube-dnn").loss == "sampled"
    assert make_trainer("sasrec").loss == "auto"


def test_sasrec_is_better_than_popularity(world):
    split = half_history(world.events, seed=0, held_out=0.2)
    sizes = {"width": 32, "max_history": 30, "batch_size": 32, "learning_rate": 3e-3, "device": "cpu"}
    model = make_trainer("sasrec", **sizes, epochs=25, patience=4).learn(split.train, split.valid)
    recall = validation_metric(model, split.test, 0)()
    popularity = torch.from_numpy(split.train.popularity).float()
    model.scores = lambda history, user=None: popularity.repeat(len(history), 1)
    assert recall > 1.1 * validation_metric(model, split.test, 0)()


def test_users_with_one_event_are_enough_to_learn_popularity():
    events = Interactions.of(np.arange(30), np.array([2] * 20 + [0] * 10), n_items=3)
    trainer = make_trainer("sasrec", width=8, epochs=30, batch_size=8, learning_rate=1e-2, device="cpu")
    scores = trainer.learn(events).scores(torch.full((1, 0), -1))
    assert scores.argsort(descending=True).tolist() == [[2, 0, 1]]


def test_model_learns_targets_further_ahead():
    model = SMALL_SASREC.with_settings(ahead=3, epochs=30, learning_rate=1e-2, dropout=0.0).learn(chains())
    with torch.no_grad():
        best = model.scores(torch.tensor([[0, 1, 2]])).topk(3).indices[0].tolist()
    assert set(best) == {3, 4, 5}


def test_same_seed_gives_the_same_weights_and_another_seed_gives_others():
    first, second, other = (SMALL_SASREC.learn(chains(), seed=seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["items.weight"], other["items.weight"])


def test_progress_never_exceeds_its_total():
    reports = []
    SMALL_SASREC.learn(chains(), progress=lambda *report: reports.append(report))
    assert all(task == "sasrec" and done <= total for task, done, total in reports)
    assert reports[-1][1] == reports[-1][2]


def test_weights_of_the_best_epoch_are_kept_and_every_validation_is_reported(monkeypatch):
    values, weights, reported = iter([0.1, 0.4, 0.2, 0.3, 0.9]), [], []

    def metric_of(model, *_):
        def metric():
            weights.append(model.user.detach().clone())
            return next(values)

        return metric

    monkeypatch.setattr(loop_trainer, "validation_metric", metric_of)
    monkeypatch.setattr(loop_trainer, "SETTLE", 0)
    trainer = TINY.with_settings(epochs=5, patience=2, learning_rate=0.1)
    model = trainer.learn(chains(), on_validation=reported.append)
    assert reported == list(model.validation) == [0.1, 0.4, 0.2, 0.3]
    assert torch.equal(model.user, weights[1])
    assert not torch.equal(weights[1], weights[2])


def test_validation_uses_the_settings_of_the_trainer(monkeypatch):
    calls = []
    monkeypatch.setattr(loop_trainer, "validation_metric", lambda model, *rest: calls.append(rest))
    split = half_history(chains(), seed=0, held_out=0.2)
    trainer = TINY.with_settings(early_stop_metric="ndcg@5", validation_users=7)
    model = trainer.learn(split.train, split.valid, seed=3)
    assert calls == [(split.valid, 3, "ndcg@5", 7)]
    assert list(model.validation) == []


def test_model_trained_on_no_events_has_finite_scores():
    model = TINY.learn(nothing())
    assert not model.training
    assert model.scores(torch.tensor([[0, 1]])).isfinite().all()
    assert SMALL_SASREC.learn(nothing()).scores(torch.tensor([[0, 1]])).isfinite().all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "hinge"}, "loss must be one of auto, softmax, sampled, bce, got 'hinge'"),
        ({"early_stop_metric": "auc"}, "early_stop_metric must be recall@k or ndcg@k"),
        ({"negatives": 0}, "negatives must lie between"),
        ({"ahead": -1}, "ahead must lie between"),
        ({"device": "tpu"}, "device must be one of auto, cpu, cuda, got 'tpu'"),
        ({"max_history": 0}, "max_history must lie between"),
        ({"depth": 3}, "unknown key 'depth'"),
        ({"rate": 0.1}, "rate was renamed to learning_rate"),
    ],
)
def test_invalid_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        TINY.with_settings(**settings)


@pytest.mark.parametrize(
    ("name", "settings"),
    [("sasrec", {"loss": "softmax"}), ("bert4rec", {"loss": "softmax"}), ("fmlp", {"batch_size": 2048})],
)
def test_softmax_that_does_not_fit_into_memory_is_refused_with_advice(name, settings):
    events = Interactions.of(np.array([0, 0]), np.array([0, 1]), n_items=2_000_000)
    with pytest.raises(ConfigError, match=r'over 2,000,000 items.*set loss = "sampled"'):
        make_trainer(name, **settings).learn(events)


class SameNegatives(NegativeSampler):
    """The same negatives for every position."""

    def sample(self, shape):
        return torch.arange(shape[-1]).expand(*shape)


@pytest.mark.parametrize("loss", LOSSES)
def test_weight_of_a_target_multiplies_its_loss(loss):
    users, items, target, sampler = vectors_and_targets()
    sampler = SameNegatives(sampler.probability, sampler.cumulative)
    trainer = TINY.with_settings(loss=loss, negatives=6)
    weights = torch.rand(target.shape, generator=torch.Generator().manual_seed(2)) + 0.5
    expected = 0.0
    for place in (target >= 0).nonzero().tolist():
        alone = torch.full_like(target, -1)
        alone[tuple(place)] = target[tuple(place)]
        own = trainer.position_loss(users, items, alone, sampler).item()
        expected += weights[tuple(place)].item() * own
    value = trainer.position_loss(users, items, target, sampler, weights.masked_fill(target < 0, -1.0))
    assert value.item() == pytest.approx(expected / int((target >= 0).sum()), rel=1e-5)


def test_weights_of_a_piece_follow_targets_ahead(monkeypatch):
    """The weight of an event is the number of its item: so must be the weight of every target."""
    events = log([1, 2, 3, 4, 5], [6, 7, 8], n_items=9)
    events = replace(events, weights=events.items.astype(np.float32))
    mean, found = events.weights.mean(), []

    def position_loss(self, users, items, target, sampler, weights):
        found.append((target, weights))
        return users.sum()

    monkeypatch.setattr(SequenceTrainer, "position_loss", position_loss)
    TINY.with_settings(ahead=3, epochs=3).learn(events)
    for target, weights in found:
        assert torch.allclose(weights[target >= 0] * mean, target[target >= 0].float())
