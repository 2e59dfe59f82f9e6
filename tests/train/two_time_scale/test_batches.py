import numpy as np
import torch

from shortlist.train.two_time_scale.batches import DeviceEvents, batches_of
from shortlist.train.two_time_scale.sequences import Sequences, whole
from tests.train.two_time_scale.worlds import tastes

CPU = torch.device("cpu")


def collected(events, sequences, epoch=0, size=100):
    found = []

    def loss(batch, generator):
        found.append(batch)
        return torch.rand((), generator=generator)

    batches, steps = batches_of(DeviceEvents.of(events, CPU), sequences, loss, size, seed=3)
    values = [one().item() for one in batches(epoch)]
    return found, values, steps


def every_user(events):
    return whole(events, np.ones(events.n_users, bool), 30, known=True)


def test_events_of_a_batch_are_those_of_its_sequences():
    events = tastes()
    sequences = Sequences(np.array([3, 0]), np.array([5, 1]), np.array([7, -1]))
    ((batch,), _, _) = collected(events, sequences)
    order = [7, -1] if batch.users.tolist() == [7, -1] else [-1, 7]
    spans = {7: events.items[3:5].tolist(), -1: [events.items[0], -1]}
    assert batch.piece.tolist() == [spans[one] for one in order]
    assert batch.targets.tolist() == [item for one in order for item in spans[one] if item >= 0]
    assert torch.equal(batch.piece[batch.row, batch.place], batch.targets)
    assert dict(zip(batch.users.tolist(), batch.before.tolist(), strict=True)) == {7: events.items[2], -1: -1}


def test_every_event_is_in_one_batch():
    events = tastes()
    found, _, steps = collected(events, every_user(events))
    targets = torch.cat([one.targets for one in found])
    assert sorted(targets.tolist()) == sorted(events.items.tolist())
    assert abs(len(found) - steps) <= 1
    assert all(one.piece.shape[1] == int(one.place.max()) + 1 for one in found)


def test_same_epoch_has_the_same_batches_and_random_numbers():
    events = tastes()
    one, other, next_one = (collected(events, every_user(events), epoch) for epoch in (0, 0, 1))
    assert all(torch.equal(a.piece, b.piece) for a, b in zip(one[0], other[0], strict=True))
    assert one[1] == other[1] != next_one[1]


def test_events_have_their_strengths():
    events = tastes()
    weights = np.linspace(1, 2, len(events)).astype(np.float32)
    weighted = type(events).of(events.users, events.items, events.times, weights, n_items=events.n_items)
    found, _, _ = collected(weighted, every_user(weighted))
    total = sum(float(one.weights.sum()) for one in found)
    np.testing.assert_allclose(total, weighted.strengths.sum(), rtol=1e-5)
