from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch

from shortlist.data import Interactions
from shortlist.errors import ConfigError
from shortlist.testing.stages import check_stage
from shortlist.train import TrainContext
from shortlist.train.models.last_click import LastClickTrainer


def log(*sequences):
    users = np.repeat(np.arange(len(sequences)), [len(one) for one in sequences])
    return Interactions.of(users, np.concatenate(sequences), n_items=6)


def test_steps_are_counted_within_a_user_and_in_order():
    model = LastClickTrainer().learn(log([0, 1, 2], [0, 1], [3]))
    rows, counts, total = model.followed(torch.tensor([[0], [1], [2], [3]]))
    assert rows[:, 0].tolist() == [1, 2, -1, -1]
    assert counts[:, 0].tolist() == [2.0, 1.0, 0.0, 0.0]
    assert total.tolist() == [2.0, 1.0, 0.0, 0.0]
    assert torch.allclose(model.share, torch.tensor([2, 2, 1, 1, 0, 0]) / 6)


def test_the_most_frequent_are_kept_equal_ones_by_row_and_the_rest_still_counts_as_steps():
    model = LastClickTrainer(neighbours=2).learn(log([0, 5], [0, 4], [0, 3], [0, 3], [1, 2]))
    rows, counts, total = model.followed(torch.tensor([[0]]))
    assert rows.tolist() == [[3, 4]]
    assert counts.tolist() == [[2.0, 1.0]]
    assert total.tolist() == [4.0]


def test_it_counts_what_a_plain_count_counts(world):
    events = world.split().train
    plain = Counter()
    for user in range(events.n_users):
        met = events.items[events.of_user(user)].tolist()
        plain.update(pairwise(met))
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


def test_nothing_to_learn_from_is_no_error():
    empty = Interactions.of(np.empty(0, int), np.empty(0, int), n_users=2, n_items=3)
    assert LastClickTrainer().learn(empty).scores(torch.tensor([[0]])).tolist() == [[0.0, 0.0, 0.0]]


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ConfigError, match="neighbours from 1 and a backoff above 0"):
        LastClickTrainer(backoff=0)
