from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from shortlist.data import Interactions
from shortlist.errors import ConfigError
from shortlist.testing.stages import check_stage
from shortlist.train import TrainContext
from shortlist.train.models.counting.last_click import LastClickTrainer
from shortlist.train.registry import make_trainer


def log(*sequences):
    users = np.repeat(np.arange(len(sequences)), [len(one) for one in sequences])
    return Interactions.of(users, np.concatenate(sequences), n_items=6)


def test_transitions_are_counted_within_a_user_and_in_order():
    model = LastClickTrainer().learn(log([0, 1, 2], [0, 1], [3]))
    rows, counts, total = model.followed(torch.tensor([[0], [1], [2], [3]]))
    assert rows[:, 0].tolist() == [1, 2, -1, -1]
    assert counts[:, 0].tolist() == [2.0, 1.0, 0.0, 0.0]
    assert total.tolist() == [2.0, 1.0, 0.0, 0.0]
    assert torch.allclose(model.popularity, torch.tensor([2, 2, 1, 1, 0, 0]) / 6)


def test_most_frequent_next_items_are_stored_and_all_transitions_count_in_the_total():
    model = LastClickTrainer(neighbours=2).learn(log([0, 5], [0, 4], [0, 3], [0, 3], [1, 2]))
    rows, counts, total = model.followed(torch.tensor([[0]]))
    assert rows.tolist() == [[3, 4]]
    assert counts.tolist() == [[2.0, 1.0]]
    assert total.tolist() == [4.0]


def test_counts_equal_a_plain_counter(world):
    events = world.split().train
    plain = Counter()
    for user in range(events.n_users):
        plain.update(pairwise(events.items[events.of_user(user)].tolist()))
    model = LastClickTrainer(neighbours=10_000).learn(events)
    last = torch.arange(events.n_items)[:, None]
    rows, counts, _ = model.followed(last)
    found = {
        (item, row): count
        for item in range(len(rows))
        for row, count in zip(rows[item].tolist(), counts[item].tolist(), strict=True)
        if row >= 0
    }
    assert found == dict(plain)


def test_in_a_pipeline_it_is_a_nominator(world):
    stage = LastClickTrainer().fit({"name": "last"}, TrainContext(world.split().train, world.catalog))
    check_stage(stage, len(world.items))


def test_no_events_are_accepted():
    empty = Interactions.of(np.empty(0, int), np.empty(0, int), n_users=2, n_items=3)
    assert LastClickTrainer().learn(empty).scores(torch.tensor([[0]])).tolist() == [[0.0, 0.0, 0.0]]


def test_invalid_settings_are_refused():
    with pytest.raises(ConfigError, match="backoff must lie between"):
        make_trainer("last-click", backoff=0.0)
    with pytest.raises(ConfigError, match="neighbours must lie between"):
        LastClickTrainer(neighbours=0)


def test_transition_counts_by_the_weight_of_its_second_event():
    events = replace(log([0, 1, 2], [0, 1, 1]), weights=np.array([1, 2, 3, 4, 5, 6], np.float32))
    strengths = [one / 3.5 for one in (1, 2, 3, 4, 5, 6)]
    rows, counts, total = LastClickTrainer().learn(events).followed(torch.tensor([[0], [1]]))
    assert rows[:, 0].tolist() == [1, 1]
    assert counts[0, 0].item() == pytest.approx(strengths[1] + strengths[4])
    assert counts[1, :2].tolist() == pytest.approx([strengths[5], strengths[2]])
    assert total.tolist() == pytest.approx([strengths[1] + strengths[4], strengths[2] + strengths[5]])
