import pytest
import torch

from shortlist.models.sequence.bert4rec import BERT4Rec
from shortlist.train.models import bert4rec
from shortlist.train.models.bert4rec import BERT4RecTrainer, hidden_places, padding_first
from tests.train.logs import chains


def sequences(lengths, width):
    """Sequences of these lengths, padding first, every item its own."""
    found = torch.full((len(lengths), width), -1)
    for row, length in enumerate(lengths):
        found[row, width - length :] = torch.arange(length) + 100 * row
    return found


@pytest.mark.parametrize("share", [0.01, 0.2, 0.35, 1.0])
def test_a_share_of_the_items_is_hidden_at_least_one_and_never_padding(share):
    lengths = [0, 1, 2, 5, 10, 19, 20]
    sequence = sequences(lengths, 20)
    for seed in range(5):
        torch.manual_seed(seed)
        chosen, counts = hidden_places(sequence, share, mask_last_share=0.0)
        hidden = counts.sum(1).tolist()
        assert hidden == [0, *(max(int(length * share + 1e-6), 1) for length in lengths[1:])]
        for row in range(len(lengths)):
            places = chosen[row][counts[row]]
            assert len(set(places.tolist())) == len(places)
            assert (sequence[row, places] >= 0).all()


def test_the_lot_falls_on_every_item_alike():
    torch.manual_seed(0)
    chosen, counts = hidden_places(sequences([5] * 4000, 8), 0.4, mask_last_share=0.0)
    often = torch.bincount(chosen[counts], minlength=8) / 4000
    assert often[:3].tolist() == [0.0, 0.0, 0.0]
    assert often[3:].tolist() == pytest.approx([0.4] * 5, abs=0.04)  # five standard deviations


def test_a_tail_is_the_last_item_alone():
    sequence = sequences([0, 1, 4, 10], 10)
    chosen, counts = hidden_places(sequence, 0.5, mask_last_share=1.0)
    assert counts.sum(1).tolist() == [0, 1, 1, 1]
    assert chosen[counts].tolist() == [9, 9, 9]
    torch.manual_seed(0)
    _, counts = hidden_places(sequences([10] * 4000, 10), 0.5, mask_last_share=0.25)
    assert (counts.sum(1) == 1).float().mean().item() == pytest.approx(0.25, abs=0.035)


@pytest.mark.parametrize("tail", [0.0, 0.5, 1.0])
def test_what_must_be_told_is_never_shown(tail, monkeypatch):
    """Also where the last place was drawn by lot and is the tail, too."""
    trainer = BERT4RecTrainer(width=8, max_history=9, mask_share=0.5, mask_last_share=tail, device="cpu")
    seen = {}
    forward = BERT4Rec.forward
    monkeypatch.setattr(
        BERT4Rec,
        "forward",
        lambda self, sequence, gaps: (
            seen.update(sequence=sequence, gaps=gaps) or forward(self, sequence, gaps)
        ),
    )
    monkeypatch.setattr(
        bert4rec,
        "place_loss",
        lambda trainer, known, vectors, wanted, proposal: seen.update(wanted=wanted) or known.sum(),
    )
    torch.manual_seed(0)
    model = trainer.model(10)
    piece = torch.stack([torch.randperm(10) for _ in range(200)])
    piece[:50, 6:] = -1
    trainer.loss_of(model, piece, None)
    for sequence, gaps, wanted in zip(seen["sequence"], seen["gaps"], seen["wanted"], strict=True):
        told = wanted[wanted >= 0].tolist()
        assert sorted(sequence[gaps].tolist()) == sorted(told)
        assert told


def test_an_empty_piece_changes_nothing():
    trainer = BERT4RecTrainer(width=8, max_history=5, dropout=0.0, mask_share=1.0, mask_last_share=0.0, device="cpu")
    torch.manual_seed(0)
    model = trainer.model(6)
    full = torch.tensor([[0, 1, 2, -1, -1, -1], [3, 4, 5, 0, 1, 2]])
    found = []
    for piece in (full, torch.cat([full, torch.full((2, 6), -1)])):
        model.zero_grad()
        loss = trainer.loss_of(model, piece, None)
        loss.backward()
        found.append(torch.cat([loss.detach()[None], *(one.grad.flatten() for one in model.parameters())]))
    assert torch.allclose(*found, atol=1e-6)


def test_padding_goes_first_and_items_keep_their_order():
    assert padding_first(torch.tensor([[3, 1, -1, -1], [-1, 5, -1, 2], [-1] * 4])).tolist() == [
        [-1, -1, 3, 1],
        [-1, -1, 5, 2],
        [-1] * 4,
    ]


def test_it_learns_a_pattern_by_heart():
    trainer = BERT4RecTrainer(
        width=16,
        blocks=1,
        max_history=8,
        epochs=60,
        batch_size=16,
        learning_rate=5e-3,
        dropout=0.0,
        mask_share=0.3,
        mask_last_share=0.5,
        device="cpu",
    )
    model = trainer.learn(chains())
    with torch.no_grad():
        found = model.scores(torch.tensor([[5, 6, 7, 8, 9, 0, 1, 2], [12, 13, 14, 15, 16, 17, 18, 19]]))
    assert found.argmax(1).tolist() == [3, 10]
