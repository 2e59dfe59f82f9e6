"""Ranking features are counted from events and the catalogue, and counted again when renewed."""

from dataclasses import replace

import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError
from shortlist.stages import MLPScorer
from shortlist.stages.ranking_features import ITEMS, REPEATS
from shortlist.train.context import RequestBatch, TrainContext
from shortlist.train.rankers.ranking_features import ranking_features, renewed_features


@pytest.fixture
def context(world) -> TrainContext:
    empty = torch.full((1, 2), torch.nan)
    columns = {"n.rank": empty, "n.score": empty, "other": empty}
    batch = RequestBatch(
        Query.of([[1]]),
        Candidates.of(torch.tensor([[1, 2]]), torch.zeros(1, 2), columns),
        torch.tensor([[1]]),
    )
    return TrainContext(world.split().train, world.catalog, batches=(batch,))


def test_all_nominators_are_features_by_default(context):
    assert ranking_features({}, context, 30.0, "rank").nominators == ("n",)
    assert ranking_features({"nominators": []}, context, 30.0, "rank").nominators == ()
    with pytest.raises(ConfigError, match="rank: unknown nominator 'nobody'; expected some of n"):
        ranking_features({"nominators": ["nobody"]}, context, 30.0, "rank")


def test_all_columns_are_features_by_default(context):
    assert "category" in ranking_features({}, context, 30.0, "rank").columns.names
    only = ranking_features({"columns": ["category"]}, context, 30.0, "rank")
    assert only.columns.names == ("category",)
    with pytest.raises(ConfigError, match="'nobody' is not a column of the catalogue"):
        ranking_features({"columns": ["nobody"]}, context, 30.0, "rank")


def test_renewed_features_have_the_counts_of_all_events(world, context):
    made = ranking_features({}, context, 30.0, "rank")
    renewed = renewed_features(made, TrainContext(world.events, world.catalog), 30.0)
    assert renewed.popularity.tolist() == world.events.popularity.tolist()
    assert made.popularity.sum() < renewed.popularity.sum()
    assert renewed.columns is made.columns


def test_without_timestamps_all_events_are_recent(context):
    made = ranking_features(
        {}, TrainContext(context.events, context.catalog, "order", batches=context.batches), 30.0, "rank"
    )
    assert torch.equal(made.recent_popularity, made.popularity)


def test_settings_of_features_are_not_fields_of_the_stage():
    assert MLPScorer.own_settings({"name": "rank", "nominators": ["a"], "columns": []}) == {"name": "rank"}


def test_columns_of_nominators_that_score_the_pool_are_features(context):
    empty = torch.full((1, 2), torch.nan)
    batch = context.batches[0]
    scored = replace(batch, found=batch.found.add({"n.z": empty, "n.max": empty, "other.z": empty}))
    made = ranking_features({}, replace(context, batches=(scored,)), 30.0, "rank")
    assert made.extras == ("n.z", "n.max", "n.scored", *ITEMS, *REPEATS, "age")
    new = replace(scored, query=Query.of([[]]))  # no candidate is an item of the history
    assert set(REPEATS).isdisjoint(
        ranking_features({}, replace(context, batches=(new,)), 30.0, "rank").extras
    )
    assert "mean_z" not in ranking_features({}, context, 30.0, "rank").extras
    renewed = renewed_features(made, context, 30.0)
    assert renewed.extras == made.extras


def test_age_is_the_time_since_the_first_event_and_needs_times(world, context):
    made = ranking_features({}, context, 30.0, "rank")
    events = context.events
    for item in range(0, events.n_items, 7):
        times = events.times[events.items == item]
        expected = (context.ends - times.min()) / 86_400_000 if len(times) else -1.0
        assert float(made.age[item]) == pytest.approx(expected, rel=1e-5)
    order = replace(context, clock="order")
    assert {"age", "trend"}.isdisjoint(ranking_features({}, order, 30.0, "rank").extras)
