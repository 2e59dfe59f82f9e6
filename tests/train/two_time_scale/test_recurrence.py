import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from shortlist.models.sequence.two_time_scale import READOUTS
from shortlist.train.two_time_scale import recurrence
from shortlist.train.two_time_scale.batches import DeviceEvents
from shortlist.train.two_time_scale.recurrence import (
    GROUP,
    LossSettings,
    full_softmax,
    group_loss,
    offered,
    readouts,
    training_only,
)
from tests.train.two_time_scale.worlds import random_model, tastes

EVENTS = tastes()
ACTIVE = int(EVENTS.lengths.argmax())
CPU = torch.device("cpu")


def sequences():
    """Three sequences of items, of lengths 5, 3 and 1, padding last."""
    return torch.tensor([[1, 2, 3, 4, 5], [6, 7, 7, -1, -1], [0, -1, -1, -1, -1]])


@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("readout", READOUTS)
def test_no_prediction_sees_its_own_item_or_a_later_one(readout, active):
    """Spec test 19: the prediction of event k has no gradient by the input of event j >= k."""
    model = random_model(EVENTS, readout)
    items = model._buffers.pop("items")
    model.items = torch.nn.Parameter(items.clone())
    piece = torch.tensor([[1, 2, 3, 4, 5]])
    users = torch.tensor([ACTIVE if active else -1])
    vectors = readouts(model, piece, torch.tensor([0]), users, active)
    candidates = torch.randn(vectors.shape[-1])  # the path through the candidates is not looked at
    for k in range(piece.shape[1]):
        (gradient,) = torch.autograd.grad(
            (vectors[0, k] * candidates).sum(), model.items, retain_graph=True, allow_unused=True
        )
        moved = set() if gradient is None else set(gradient.abs().sum(1).nonzero()[:, 0].tolist())
        assert moved <= {0, *piece[0, :k].tolist()}
        assert k == 0 or int(piece[0, k - 1]) in moved


@torch.no_grad()
@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("readout", READOUTS)
def test_readouts_are_those_of_one_step_per_event(readout, active):
    model = random_model(EVENTS, readout)
    users = torch.tensor([ACTIVE, ACTIVE, ACTIVE] if active else [-1, -1, -1])
    before = torch.tensor([9, -1, 3])
    found = readouts(model, sequences(), before, users, active)
    for row, items in enumerate(sequences()):
        state, last = model.starts(users[:1]), before[row : row + 1]
        for place, item in enumerate(items[items >= 0]):
            expected = model.readout(state, last, users[:1])[0]
            torch.testing.assert_close(found[row, place], expected, rtol=1e-5, atol=1e-5)
            state, last = model.step(state, item[None], users[:1]), item[None]


@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("softmax", [False, True])
def test_padding_changes_no_loss(softmax, active, monkeypatch):
    """Spec test 22: the mean loss of padded sequences is that of the sequences one by one, weighted by their events."""
    monkeypatch.setattr(recurrence, "mixed_negatives", lambda *_: (torch.arange(20), torch.zeros(20)))
    model, events = random_model(EVENTS), DeviceEvents.of(EVENTS, CPU)
    loss = group_loss(model, events, active, LossSettings(softmax, uniform=20, correction=False))
    starts, lengths = EVENTS.starts[[ACTIVE, 0, 1]], [9, 5, 1]

    def value(*rows):
        own = torch.tensor([lengths[row] for row in rows])
        none = torch.full_like(own, -1)
        users = torch.full_like(own, ACTIVE) if active else none
        edges = torch.stack([torch.tensor([int(starts[row]) for row in rows]), own, users, none])
        return loss(events.batch(edges, int(own.max()), int(own.sum())), torch.Generator())

    alone = sum(value(row) * lengths[row] for row in range(3)) / sum(lengths)
    torch.testing.assert_close(value(0, 1, 2), alone, rtol=1e-6, atol=1e-6)


def test_softmax_is_that_over_all_items():
    torch.manual_seed(0)
    users, items, targets = torch.randn(7, 4, requires_grad=True), torch.randn(9, 4), torch.randint(9, (7,))
    expected = F.cross_entropy(users @ items.T, targets)
    torch.testing.assert_close(full_softmax(users, items, targets, None), expected)
    weights = torch.tensor([1.0, 2, 0, 1, 1, 0, 3])
    losses = F.cross_entropy(users @ items.T, targets, reduction="none")
    torch.testing.assert_close(full_softmax(users, items, targets, weights), (losses * weights).sum() / 5)


def test_corrected_offers_have_the_optimum_of_the_softmax():
    """With many candidates, the corrected loss differs from the softmax by a constant alone; spec 1.1."""
    torch.manual_seed(0)
    events = DeviceEvents.of(tastes(200, n_items=2000), CPU)
    items, targets = torch.randn(2000, 4), torch.randint(2000, (300,))

    def difference(users, correction):
        settings = LossSettings(False, 40_000, correction)
        generator = torch.Generator().manual_seed(1)
        sampled = offered(items, users, targets, None, events, settings, generator)
        return sampled - full_softmax(users, items, targets, None)

    flat, steep = torch.randn(300, 4) / 3, torch.randn(300, 4)
    torch.testing.assert_close(difference(flat, True), difference(steep, True), rtol=0, atol=0.02)


def test_only_the_weights_of_one_group_are_trained():
    model = random_model(EVENTS, "plus")
    with training_only(model, GROUP[False]):
        trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert trained == {
        "start", "no_item", "mix.new.weight", *(name for name, _ in model.named_parameters() if "new_users" in name),
    }  # fmt: skip
    assert all(weight.requires_grad for weight in model.parameters())


def test_every_weight_belongs_to_one_group():
    for readout in READOUTS:
        for name, _ in random_model(EVENTS, readout).named_parameters():
            assert name.startswith(GROUP[False]) != name.startswith(GROUP[True])
