import pytest
import torch

from shortlist.models.sequence.bert4rec import BERT4Rec
from shortlist.train.models.bert4rec import BERT4RecTrainer, cut_last, masked_positions, padding_first
from shortlist.train.registry import make_trainer
from tests.train.logs import chains, log


def sequences(lengths, width):
    """Sequences of these lengths, padding first, with distinct items."""
    padded = torch.full((len(lengths), width), -1)
    for row, length in enumerate(lengths):
        padded[row, width - length :] = torch.arange(length) + 100 * row
    return padded


def model_and_trainer(n_items, **settings):
    trainer = make_trainer("bert4rec", width=8, device="cpu", **settings)
    torch.manual_seed(0)
    return trainer.begin(log(range(n_items), n_items=n_items), None), trainer


@pytest.mark.parametrize("share", [0.01, 0.2, 0.35, 1.0])
def test_share_of_the_items_is_masked_at_least_one_and_never_padding(share):
    lengths = [0, 1, 2, 5, 10, 19, 20]
    sequence = sequences(lengths, 20)
    for seed in range(5):
        torch.manual_seed(seed)
        chosen, counts = masked_positions(sequence, share, last_share=0.0)
        expected = [0, *(max(int(length * share + 1e-6), 1) for length in lengths[1:])]
        assert counts.sum(1).tolist() == expected
        for row in range(len(lengths)):
            positions = chosen[row][counts[row]]
            assert len(set(positions.tolist())) == len(positions)
            assert (sequence[row, positions] >= 0).all()


def test_every_item_is_masked_equally_often():
    torch.manual_seed(0)
    chosen, counts = masked_positions(sequences([5] * 4000, 8), 0.4, last_share=0.0)
    frequency = torch.bincount(chosen[counts], minlength=8) / 4000
    assert frequency[:3].tolist() == [0.0, 0.0, 0.0]
    assert frequency[3:].tolist() == pytest.approx([0.4] * 5, abs=0.04)  # five standard deviations


def test_last_share_masks_only_the_last_item():
    sequence = sequences([0, 1, 4, 10], 10)
    chosen, counts = masked_positions(sequence, 0.5, last_share=1.0)
    assert counts.sum(1).tolist() == [0, 1, 1, 1]
    assert chosen[counts].tolist() == [9, 9, 9]
    torch.manual_seed(0)
    _, counts = masked_positions(sequences([10] * 4000, 10), 0.5, last_share=0.25)
    assert (counts.sum(1) == 1).float().mean().item() == pytest.approx(0.25, abs=0.035)


@pytest.mark.parametrize("last_share", [0.0, 0.5, 1.0])
def test_targets_are_exactly_the_masked_items(last_share, monkeypatch):
    """Also if the last position was sampled and is masked as the last one too."""
    model, trainer = model_and_trainer(10, max_history=9, mask_share=0.5, mask_last_share=last_share)
    calls = {}
    forward = BERT4Rec.forward
    monkeypatch.setattr(
        BERT4Rec,
        "forward",
        lambda self, sequence, masked: (
            calls.update(sequence=sequence, masked=masked) or forward(self, sequence, masked)
        ),
    )
    monkeypatch.setattr(
        BERT4RecTrainer,
        "position_loss",
        lambda self, outputs, items, target, sampler, weights: calls.update(target=target) or outputs.sum(),
    )
    piece = torch.stack([torch.randperm(10) for _ in range(200)])
    piece[:50, 6:] = -1
    trainer.loss_of(model, piece, None)
    for sequence, masked, target in zip(calls["sequence"], calls["masked"], calls["target"], strict=True):
        targets = target[target >= 0].tolist()
        assert sorted(sequence[masked].tolist()) == sorted(targets)
        assert targets


def test_empty_piece_changes_neither_loss_nor_gradient():
    model, trainer = model_and_trainer(6, max_history=5, dropout=0.0, mask_share=1.0, mask_last_share=0.0)
    full = torch.tensor([[0, 1, 2, -1, -1, -1], [3, 4, 5, 0, 1, 2]])
    results = []
    for piece in (full, torch.cat([full, torch.full((2, 6), -1)])):
        model.zero_grad()
        loss = trainer.loss_of(model, piece, None)
        loss.backward()
        gradients = [weight.grad.flatten() for weight in model.parameters()]
        results.append(torch.cat([loss.detach()[None], *gradients]))
    assert torch.allclose(*results, atol=1e-6)


def test_padding_goes_first_and_items_keep_their_order():
    sequence = torch.tensor([[3, 1, -1, -1], [-1, 5, -1, 2], [-1] * 4])
    assert sequence.gather(1, padding_first(sequence)).tolist() == [
        [-1, -1, 3, 1],
        [-1, -1, 5, 2],
        [-1] * 4,
    ]


def test_it_learns_a_cycle_of_items():
    trainer = make_trainer(
        "bert4rec",
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
        scores = model.scores(torch.tensor([[5, 6, 7, 8, 9, 0, 1, 2], [12, 13, 14, 15, 16, 17, 18, 19]]))
    assert scores.argmax(1).tolist() == [3, 10]


def test_cut_sequences_keep_the_events_before_the_mask_and_predict_one_of_the_next():
    sequence = torch.tensor([[-1, 1, 2, 3, 4], [5, 6, 7, 8, 9], [-1, -1, -1, -1, 3]])
    chosen = torch.tensor([[4, 0], [2, 4], [4, 1]])
    counts = torch.tensor([[True, False], [True, True], [True, False]])
    torch.manual_seed(0)
    pairs = set()
    for _ in range(200):
        moved, answer = cut_last(sequence, chosen, counts, ahead=3)
        assert moved[1].tolist() == [0, 1, 2, 3, 4]  # two positions are masked: nothing is cut
        assert (moved[2].tolist(), answer.tolist()[1:]) == ([0, 1, 2, 3, 4], [2, 4])
        masked = int(moved[0, 4])  # the old position that is masked now
        pairs.add((int(sequence[0, masked]), int(sequence[0, answer[0]])))
    assert pairs == {(4, 4), (3, 3), (3, 4), (2, 2), (2, 3), (2, 4)}
