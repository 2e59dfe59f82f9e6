"""The trainer of pooled nominators: user features, weights of events, refits, and what it refuses."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch

from shortlist.data import Interactions
from shortlist.errors import ConfigError, DataError
from shortlist.metrics.ranking import recall
from shortlist.testing import check_stage
from shortlist.train.context import TrainContext
from shortlist.train.pipeline import context_of
from shortlist.train.pools.pooled import PooledTrainer

QUICK = PooledTrainer(n_nominators=3, width=4, factors=6, epochs=2, negatives=3, instances=1500, device="cpu")


def test_features_of_users_are_part_of_a_request(world):
    ages = pa.table({"age": list(range(world.events.n_users))})
    context = context_of(replace(world, user_table=ages), world.split())
    stage = QUICK.fit({"name": "pooled"}, context)
    assert stage.user_features.shape == (world.events.n_users, 1)
    assert stage.model.experts.n_features == 7
    check_stage(stage, len(world.items))


def test_training_is_repeatable_and_its_history_is_noted(world):
    histories = {}
    context = replace(context_of(world, world.split()), note=histories.__setitem__)
    one, other = (QUICK.fit({"name": "it"}, context) for _ in range(2))
    assert all(
        torch.equal(a, b) for a, b in zip(one.tensors().values(), other.tensors().values(), strict=True)
    )
    assert histories["it"].epochs == len(histories["it"].validation) == 2


def test_a_refit_trains_for_the_best_number_of_epochs_without_validation(world):
    histories = {}
    context = replace(context_of(world, world.split(), best_epochs={"it": 1}), note=histories.__setitem__)
    QUICK.fit({"name": "it"}, context)
    assert histories["it"].epochs == 1
    assert histories["it"].validation == ()


def test_it_is_better_than_popular_items(world):
    split = world.split()
    stage = replace(QUICK, epochs=8, width=8, factors=24, negatives=6, instances=6000, batch_size=500).fit(
        {"name": "it", "exclude_seen": True, "limit": 20}, context_of(world, split)
    )
    query, relevant = split.test.query(), split.test.relevant()
    popular = torch.from_numpy((-split.train.popularity).argsort(kind="stable").copy())
    rows = zip(popular.expand(len(query), -1), query.history, strict=True)
    best = torch.stack([row[~torch.isin(row, seen)][:20] for row, seen in rows])
    found, base = (
        float(recall(lists, relevant, 20).nanmean()) for lists in (stage.nominate(query).items, best)
    )
    assert found > 1.2 * base


def test_more_nominators_than_items_are_trained_with_pools_that_overlap():
    events = Interactions.of(np.repeat(np.arange(20), 3), np.arange(60) % 4, n_users=20, n_items=4)
    context = TrainContext(events, catalog=None)  # type: ignore[arg-type]
    stage = replace(QUICK, n_nominators=6, factors=2, allocation="random").fit({"name": "it"}, context)
    assert stage.pools is not None
    assert stage.pools.overlap == 2
    check_stage(stage, 4)


def test_a_log_without_histories_is_refused(world):
    events = Interactions.of(np.arange(5), np.arange(5), n_users=5, n_items=5)
    with pytest.raises(DataError, match="users with at least two events, got none"):
        QUICK.fit({"name": "it"}, TrainContext(events, world.catalog))
    with pytest.raises(ConfigError, match="allocation must be one of gate, distilled, random, got 'hard'"):
        PooledTrainer(allocation="hard")
