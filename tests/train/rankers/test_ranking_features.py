"""Sheets hold what events and the catalogue say, and follow the events when they are renewed."""

import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError
from shortlist.train.context import RequestBatch, TrainContext
from shortlist.train.rankers.features import learned_sheet, own_settings, renewed_sheet


@pytest.fixture
def context(world) -> TrainContext:
    empty = torch.full((1, 2), torch.nan)
    columns = {"n.rank": empty, "n.score": empty, "other": empty}
    round_ = RequestBatch(
        Query.of([[1]]),
        Candidates.of(torch.tensor([[1, 2]]), torch.zeros(1, 2), columns),
        torch.tensor([[1]]),
    )
    return TrainContext(world.split().train, world.catalog, rounds=(round_,))


def test_all_nominators_are_heard_unless_some_are_named(context):
    assert learned_sheet({}, context, 30.0, "rank").features.nominators == ("n",)
    assert learned_sheet({"nominators": []}, context, 30.0, "rank").features.nominators == ()
    with pytest.raises(ConfigError, match="rank: nominators names 'nobody'; expected some of n"):
        learned_sheet({"nominators": ["nobody"]}, context, 30.0, "rank")


def test_all_columns_are_read_unless_some_are_named(context):
    assert "category" in learned_sheet({}, context, 30.0, "rank").columns.names
    only = learned_sheet({"columns": ["category"]}, context, 30.0, "rank")
    assert only.columns.names == ("category",)
    with pytest.raises(ConfigError, match="'nobody' is no column of the catalogue"):
        learned_sheet({"columns": ["nobody"]}, context, 30.0, "rank")


def test_a_renewed_sheet_knows_the_counts_of_all_events(world, context):
    made = learned_sheet({}, context, 30.0, "rank")
    renewed = renewed_sheet(made, TrainContext(world.events, world.catalog), 30.0)
    assert renewed.features.popularity.tolist() == world.events.popularity.tolist()
    assert made.features.popularity.sum() < renewed.features.popularity.sum()
    assert renewed.columns is made.columns


def test_without_times_lately_is_always(context):
    made = learned_sheet(
        {}, TrainContext(context.events, context.catalog, "order", rounds=context.rounds), 30.0, "rank"
    )
    assert torch.equal(made.features.lately, made.features.popularity)


def test_settings_of_the_sheet_are_not_those_of_the_stage():
    assert own_settings({"name": "rank", "nominators": ["a"], "columns": []}) == {"name": "rank"}
