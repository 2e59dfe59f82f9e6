import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from shortlist.data import Interactions, half_history
from shortlist.errors import ConfigError
from shortlist.models.model import ModelConfig
from shortlist.models.sequence.model import SequenceModel
from shortlist.train.loop import trainer as looped
from shortlist.train.loop.negatives import Proposal
from shortlist.train.models.bert4rec import BERT4RecTrainer
from shortlist.train.models.fmlp import FMLPTrainer
from shortlist.train.models.sasrec import SASRecTrainer
from shortlist.train.models.sequence import (
    LOSSES,
    SequenceTrainer,
    ahead_of,
    mean_where,
    pieces,
    place_loss,
    softmax_where,
)
from shortlist.train.models.sum_pooling import SumPoolingTrainer
from tests.train.logs import chains, log, nothing

CPU = torch.device("cpu")


class Constant(SequenceModel):
    """Says the same at every place, so that whatever changes comes from training."""

    def __init__(self, config):
        super().__init__(config, 4)
        self.said = nn.Parameter(torch.randn(4))

    def forward(self, history):
        return self.said.expand(len(history), history.shape[1] + 1, 4)


@dataclass(frozen=True)
class ConstantTrainer(SequenceTrainer):
    title: ClassVar[str] = "constant"

    def model(self, n_items):
        return Constant(ModelConfig(n_items, self.max_history))


TINY = ConstantTrainer(max_history=8, epochs=3, batch_size=16, negatives=4, device="cpu")


def given(places=(3, 5), width=4, n_items=9, seed=0):
    """Vectors of places and of items, wanted items with padding among them, a proposal."""
    generator = torch.Generator().manual_seed(seed)
    known = torch.randn(*places, width, generator=generator)
    vectors = torch.randn(n_items, width, generator=generator)
    wanted = torch.randint(0, n_items, places, generator=generator)
    wanted[0, 3:] = -1
    wanted[2] = -1
    return known, vectors, wanted, Proposal.of(np.arange(n_items), 0.5, CPU)


def test_the_softmax_of_places_is_what_a_loop_says():
    known, vectors, wanted, proposal = given()
    losses = []
    for user, items in enumerate(wanted.tolist()):
        for place, item in enumerate(items):
            if item >= 0:
                scores = [float(known[user, place] @ vector) for vector in vectors]
                losses.append(math.log(sum(map(math.exp, scores))) - scores[item])
    assert place_loss(TINY, known, vectors, wanted, proposal).item() == pytest.approx(
        np.mean(losses), rel=1e-5
    )


@pytest.mark.parametrize("loss", ["sampled", "bce"])
def test_the_losses_against_draws_are_what_a_loop_says(loss):
    known, vectors, wanted, proposal = given()
    shape = (6,) if loss == "sampled" else (wanted.numel(), 6)
    torch.manual_seed(4)
    drawn = proposal.draw(shape).expand(wanted.numel(), 6).view(*wanted.shape, 6)
    losses = []
    for user, items in enumerate(wanted.tolist()):
        for place, item in enumerate(items):
            if item < 0:
                continue
            here, others = known[user, place], [one for one in drawn[user, place].tolist() if one != item]
            own, scores = float(here @ vectors[item]), [float(here @ vectors[one]) for one in others]
            if loss == "sampled":
                share = [float(proposal.share[one]) * 6 for one in others]
                total = sum(math.exp(score) / often for score, often in zip(scores, share, strict=True))
                losses.append(math.log(math.exp(own) + total) - own)
            else:
                wrong = [math.log1p(math.exp(score)) for score in scores]
                losses.append(math.log1p(math.exp(-own)) + sum(wrong) / max(len(wrong), 1))
    torch.manual_seed(4)
    found = place_loss(replace(TINY, loss=loss, negatives=6), known, vectors, wanted, proposal)
    assert found.item() == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_padding_neither_counts_nor_pulls(loss):
    known, vectors, wanted, proposal = given()
    trainer, found = replace(TINY, loss=loss), []
    for scale in (1.0, 50.0):
        changed = torch.where((wanted < 0)[..., None], scale * known, known).requires_grad_()
        torch.manual_seed(1)
        value = place_loss(trainer, changed, vectors, wanted, proposal)
        value.backward()
        assert (changed.grad[wanted < 0] == 0).all()
        assert (changed.grad[wanted >= 0] != 0).any()
        found.append(value.item())
    assert found[0] == found[1]


@pytest.mark.parametrize("loss", LOSSES)
def test_places_that_want_nothing_at_all_cost_nothing_and_pull_nowhere(loss):
    known, vectors, wanted, proposal = given()
    known.requires_grad_()
    vectors.requires_grad_()
    value = place_loss(replace(TINY, loss=loss), known, vectors, torch.full_like(wanted, -1), proposal)
    value.backward()
    assert value.item() == 0.0
    assert (known.grad == 0).all()
    assert (vectors.grad == 0).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_batch_that_ends_with_empty_pieces_is_worth_what_its_full_ones_are(loss):
    """On a GPU the last batch is filled up so that it can be recorded."""
    trainer = SumPoolingTrainer(
        width=8, hidden=8, max_history=5, dropout=0.0, loss=loss, negatives=4, alpha=0.0
    )
    torch.manual_seed(0)
    model, proposal = trainer.model(6), Proposal.of(np.ones(6), 0.0, CPU)
    full = torch.tensor([[0, 1, 2, -1, -1, -1], [3, 4, 5, 0, 1, 2]])
    gradients, values = [], []
    for piece in (full, torch.cat([full, torch.full((3, 6), -1)])):
        model.zero_grad()
        torch.manual_seed(0)
        value = trainer.loss_of(model, piece, proposal)
        value.backward()
        values.append(value.item())
        gradients.append(torch.cat([one.grad.flatten() for one in model.parameters()]))
    assert values[0] == pytest.approx(values[1], rel=1e-6)
    assert gradients[1].isfinite().all()
    assert torch.allclose(*gradients, atol=1e-6)


def test_means_are_over_what_counts():
    there = torch.tensor([True, False, True])
    assert mean_where(torch.tensor([1.0, torch.inf, 3.0]), there).item() == 2.0
    assert mean_where(torch.ones(3), torch.zeros(3, dtype=torch.bool)).item() == 0.0
    logits = torch.tensor([[0.0, math.log(3.0)], [5.0, 0.0]])
    assert softmax_where(logits, torch.tensor([1, -1])).item() == pytest.approx(math.log(4 / 3))
    assert softmax_where(logits, torch.tensor([-1, -1])).item() == 0.0


@pytest.mark.parametrize("seed", range(5))
def test_an_epoch_shows_every_event_once_and_no_piece_holds_two_users(seed):
    random = np.random.default_rng(seed)
    lengths = random.integers(0, 40, 30)
    users = np.repeat(np.arange(30), lengths)
    starts, stops = pieces(lengths, 9, random)
    shown = np.concatenate([np.arange(a, b) for a, b in zip(starts, stops, strict=True)])
    assert sorted(shown.tolist()) == list(range(len(users)))
    assert (stops - starts).max() <= 9
    assert (stops > starts).all()
    assert (users[starts] == users[stops - 1]).all()


def test_long_sequences_are_cut_elsewhere_in_every_epoch_and_short_ones_never():
    random = np.random.default_rng(0)
    cuts = [pieces(np.array([5, 100]), 10, random)[0].tolist() for _ in range(4)]
    assert len({tuple(one) for one in cuts}) > 1
    assert all(one[:2] == [0, 5] for one in cuts)


def test_batches_hold_the_pieces_of_an_epoch_filled_up_behind(monkeypatch):
    events = log([0, 1, 2], [3], [], [4, 5, 6, 7, 0, 1, 2, 3], n_items=8)
    shown = []
    monkeypatch.setattr(ConstantTrainer, "loss_of", lambda self, model, piece, proposal: shown.append(piece))
    trainer = replace(TINY, max_history=3, batch_size=2)
    batches = trainer._batches(None, events, 0, CPU)
    for epoch in range(3):
        shown.clear()
        steps = [loss() for loss in batches(epoch)]
        assert len(steps) <= trainer._steps(events)
        rows = [row.tolist() for piece in shown for row in piece]
        assert all(len(row) == 4 for row in rows)
        assert all(not (a < 0 <= b) for row in rows for a, b in pairwise(row))
        met = sorted(item for row in rows for item in row if item >= 0)
        assert met == sorted(events.items.tolist())


@pytest.mark.parametrize("ahead", [1, 3])
def test_what_is_foretold_is_one_of_the_next_events_of_the_piece(ahead):
    piece = torch.tensor([[1, 2, 3, 4, -1, -1], [5, 6, 7, 8, 9, 10], [-1] * 6])
    torch.manual_seed(0)
    drawn = torch.stack([ahead_of(piece, ahead) for _ in range(200)])
    for row, events in enumerate(piece.tolist()):
        real = [one for one in events if one >= 0]
        for at in range(6):
            wanted = set(real[at : at + ahead]) or {-1}
            assert set(drawn[:, row, at].tolist()) == wanted


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_learns_what_is_common(loss):
    """Most users meet item 0 alone, the others item 1 alone."""
    events = log(*([0] * 20 for _ in range(20)), *([1] * 20 for _ in range(8)), n_items=6)
    trainer = replace(TINY, loss=loss, epochs=30, learning_rate=0.05, alpha=0.0)
    scores = trainer.learn(events).scores(torch.tensor([[2]]))
    assert scores.argsort(descending=True)[0, :2].tolist() == [0, 1]


def judged(monkeypatch, *verdicts):
    """Training hears these judgements; the weights at each of them."""
    told, kept = iter(verdicts), []

    def judge_of(model, *_):
        def judge():
            kept.append(model.said.detach().clone())
            return next(told)

        return judge

    monkeypatch.setattr(looped, "judge_of", judge_of)
    return kept


def test_the_best_epoch_stays_and_every_judgement_is_heard(monkeypatch):
    kept, heard = judged(monkeypatch, 0.1, 0.4, 0.2, 0.3, 0.9), []
    trainer = replace(TINY, epochs=5, patience=2, learning_rate=0.1)
    model = trainer.learn(chains(), watch=heard.append)
    assert heard == list(model.judged) == [0.1, 0.4, 0.2, 0.3]
    assert torch.equal(model.said, kept[1])
    assert not torch.equal(kept[1], kept[2])


def test_the_judge_is_asked_as_the_trainer_says(monkeypatch):
    asked = []
    monkeypatch.setattr(looped, "judge_of", lambda model, *rest: asked.append(rest))
    split = half_history(chains(), seed=0, held_out=0.2)
    model = replace(TINY, early_stop_metric="ndcg@5", validation_cases=7).learn(split.train, split.valid, seed=3)
    assert asked == [(split.valid, 3, "ndcg@5", 7)]
    assert list(model.judged) == []


def test_nothing_to_learn_from_still_gives_a_model_that_answers():
    model = TINY.learn(nothing())
    assert not model.training
    assert model.scores(torch.tensor([[0, 1]])).isfinite().all()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"loss": "hinge"}, "loss must be one of softmax, sampled, bce, got 'hinge'"),
        ({"early_stop_metric": "auc"}, "early_stop_metric must be recall@k or ndcg@k"),
        ({"negatives": 0}, "negatives must lie between"),
        ({"ahead": 0}, "ahead must lie between"),
        ({"device": "tpu"}, 'device must be "auto"'),
    ],
)
def test_settings_no_training_can_run_with_are_refused(wrong, said):
    with pytest.raises(ConfigError, match=said):
        replace(TINY, **wrong).learn(chains())


@pytest.mark.parametrize("trainer", [SASRecTrainer(), BERT4RecTrainer(), FMLPTrainer(batch_size=2048)])
def test_a_softmax_that_no_memory_holds_is_refused_with_what_to_do(trainer):
    events = Interactions.of(np.array([0, 0]), np.array([0, 1]), n_items=2_000_000)
    with pytest.raises(ConfigError, match=r'over 2,000,000 items.*say loss = "sampled"'):
        trainer.learn(events)
