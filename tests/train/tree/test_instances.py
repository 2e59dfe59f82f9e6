import numpy as np
import pytest
import torch

from shortlist.data import Interactions, sliding
from shortlist.train.tree.instances import drop_history, instances_of
from tests.train.tree.small import cyclic_events

CPU = torch.device("cpu")


def uneven(seed=0):
    """Users with 0 to 12 events."""
    random = np.random.default_rng(seed)
    users = np.repeat(np.arange(25), random.integers(0, 13, 25))
    return Interactions.of(users, random.integers(0, 30, len(users)), n_users=26, n_items=30)


@pytest.mark.parametrize(("max_history", "min_history"), [(6, 2), (3, 5), (20, 1)])
def test_instances_are_the_windows_of_the_log(max_history, min_history):
    events = uneven()
    windows = sliding(events, max_history + 1, min_history)
    found = instances_of(events, max_history, min_history, "every", CPU)
    rows = np.random.default_rng(1).permutation(len(windows))
    query, labels = windows.batch(rows)
    assert len(found) == len(windows) > 20
    assert torch.equal(found.histories(torch.from_numpy(rows)), query.history)
    assert torch.equal(found.targets(torch.from_numpy(rows)), labels)


def test_last_gives_one_instance_per_user_with_enough_history():
    events = uneven()
    found = instances_of(events, 6, 3, "last", CPU)
    rows = torch.arange(len(found))
    longer = [user for user in range(events.n_users) if events.lengths[user] > 3]
    assert found.ends.tolist() == [int(events.starts[user + 1]) - 1 for user in longer]
    assert found.targets(rows).tolist() == [int(events.items[events.of_user(user)][-1]) for user in longer]


def test_histories_are_padded_on_the_left():
    events = Interactions.of(np.array([0, 0, 0, 1, 1]), np.array([4, 5, 6, 7, 8]))
    found = instances_of(events, 4, 1, "every", CPU)
    assert found.histories(torch.tensor([1, 2])).tolist() == [[-1, -1, 4, 5], [-1, -1, -1, 7]]
    assert found.targets(torch.tensor([1, 2])).tolist() == [6, 8]


def test_take_selects_rows():
    found = instances_of(cyclic_events(), 5, 2, "every", CPU)
    rows = torch.tensor([40, 3, 17])
    assert torch.equal(found.take(rows).histories(torch.arange(3)), found.histories(rows))
    assert torch.equal(found.take(rows).targets(torch.arange(3)), found.targets(rows))


@pytest.mark.parametrize("which", ["every", "last"])
@pytest.mark.parametrize(
    "events",
    [
        Interactions.of(np.empty(0, int), np.empty(0, int), n_users=3, n_items=5),
        Interactions.of(np.arange(4), np.arange(4)),
    ],
    ids=["no events", "one event each"],
)
def test_a_log_without_histories_has_no_instances(events, which):
    assert len(instances_of(events, 5, 2, which, CPU)) == 0


def test_histories_and_targets_are_int64():
    found = instances_of(cyclic_events(), 5, 2, "every", CPU)
    assert found.items.dtype == torch.int32  # a log of a billion events is four bytes an event
    rows = torch.arange(3)
    assert found.histories(rows).dtype == found.targets(rows).dtype == torch.int64


def test_a_target_ahead_is_one_of_the_next_events_of_the_user():
    events = uneven()
    found, generator = instances_of(events, 6, 2, "every", CPU), torch.Generator().manual_seed(0)
    rows = torch.arange(len(found)).repeat(30)
    sampled = found.items[found.events_ahead(rows, 3, generator)].view(30, -1)
    for at in range(len(found)):
        end, last = int(found.ends[at]), int(found.lasts[at])
        assert last == events.starts[events.users[end] + 1] - 1
        assert set(sampled[:, at].tolist()) <= set(events.items[end : min(end + 3, last + 1)].tolist())
    assert torch.equal(found.events_ahead(rows, 1, generator), found.ends[rows])


def test_history_dropout_pads_a_share_and_changes_nothing_else():
    generator = torch.Generator().manual_seed(0)
    histories = torch.arange(1, 20_001).view(100, 200)
    left = drop_history(histories, 0.3, generator)
    gone = left < 0
    assert 0.28 < gone.float().mean() < 0.32
    assert torch.equal(left[~gone], histories[~gone])
    assert drop_history(histories, 0.0, generator) is histories
