from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch

from shortlist.data import Catalog, Interactions, Vocabulary
from shortlist.errors import ConfigError
from shortlist.testing.stages import check_stage
from shortlist.train.context import DAY, TrainContext
from shortlist.train.models.counting.counts import (
    AvailableTrainer,
    DiverseTrainer,
    PopularTrainer,
    RecentTrainer,
)
from shortlist.train.registry import make_trainer


@pytest.fixture
def context() -> TrainContext:
    """Item 0 was popular long ago, item 2 is popular now; item 3 has no events."""
    items = np.array([0, 0, 0, 1, 2, 2])
    times = np.array([0, 1, 2, 3, 100 * DAY, 101 * DAY])
    events = Interactions.of(np.arange(6), items, times, n_items=4)
    table = pa.table({"title": ["a", "b", "c", "d"], "category": ["x", "y", "x", "z"]})
    return TrainContext(events, Catalog(Vocabulary.of(["a", "b", "c", "d"]), table))


def test_popularity_of_all_time_and_of_a_window_differ(context):
    assert PopularTrainer().fit({"name": "all"}, context).order.tolist() == [0, 2, 1, 3]
    trending = PopularTrainer().fit({"name": "trending", "days": 30.0}, context)
    assert trending.order.tolist()[0] == 2
    assert trending.share[0].item() == 1.0
    check_stage(trending, 4)


def test_a_window_of_days_needs_times(context):
    untimed = TrainContext(context.events, context.catalog, clock="order")
    with pytest.raises(ConfigError, match="has only the order"):
        PopularTrainer().fit({"days": 3.0}, untimed)


def test_recent_orders_by_first_event_and_omits_items_without_events(context):
    recent = RecentTrainer().fit({}, context)
    assert recent.order.tolist() == [2, 1, 0]
    assert recent.age[0].item() == pytest.approx(1.0)
    check_stage(recent, 4)


@pytest.mark.parametrize(
    ("trainer", "settings", "expected"),
    [
        (AvailableTrainer(), {}, [True, True, True, True]),
        (AvailableTrainer(allow=("a", "b")), {}, [True, True, False, False]),
        (AvailableTrainer(deny=("b",)), {}, [True, False, True, True]),
        (AvailableTrainer(), {"only": ["x"]}, [True, False, True, False]),
        (AvailableTrainer(deny=("a",)), {"never": ["z"]}, [False, True, True, False]),
    ],
)
def test_available_turns_lists_into_a_mask(context, trainer, settings, expected):
    stage = trainer.fit(settings, context)
    assert stage.allowed.tolist() == expected
    check_stage(stage, 4)


@pytest.mark.parametrize(
    ("trainer", "settings"), [(AvailableTrainer(deny=("q",)), {}), (AvailableTrainer(), {"only": ["q"]})]
)
def test_available_refuses_unknown_ids(context, trainer, settings):
    with pytest.raises(ConfigError, match="'q'"):
        trainer.fit(settings, context)


def test_items_of_the_same_category_are_similar(context):
    stage = DiverseTrainer().fit({}, context)
    similarity = stage.vectors @ stage.vectors.T
    assert similarity[0, 2].item() == 1.0
    assert similarity[0, 1].item() == 0.0


def test_similarity_of_category_sets_is_their_overlap(context):
    sets = [["x", "y"], ["y"], ["x", "y", "z"], None]
    several = replace(context, catalog=Catalog(context.catalog.vocabulary, pa.table({"category": sets})))
    vectors = DiverseTrainer().fit({}, several).vectors
    known = [set(one or ()) for one in sets]
    overlap = [
        [len(a & b) / max(len(a) * len(b), 1) ** 0.5 for b in known] for a in known
    ]  # 0 for an item without category
    torch.testing.assert_close(vectors @ vectors.T, torch.tensor(overlap))


def test_available_reads_every_category_of_an_item(context):
    sets = [["x", "y"], ["y"], ["z", "x"], None]
    several = replace(context, catalog=Catalog(context.catalog.vocabulary, pa.table({"category": sets})))
    assert AvailableTrainer().fit({"only": ["x"]}, several).allowed.tolist() == [True, False, True, False]
    assert AvailableTrainer().fit({"never": ["y"]}, several).allowed.tolist() == [False, False, True, True]


def test_diverse_refuses_a_stage_without_item_vectors(context):
    with pytest.raises(ConfigError, match="'nobody'"):
        DiverseTrainer(by="nobody").fit({}, context)


def test_many_categories_get_random_directions():
    count = 300
    names = [f"c{number}" for number in range(count)]
    catalog = Catalog(Vocabulary.of(names), pa.table({"title": names, "category": names}))
    events = Interactions.of(np.zeros(count), np.arange(count))
    vectors = DiverseTrainer().fit({}, TrainContext(events, catalog)).vectors
    assert vectors.shape == (count, 64)
    assert torch.allclose(vectors.norm(dim=1), torch.ones(count))
    assert (vectors @ vectors.T - torch.eye(count)).abs().max() < 0.7


def test_items_can_be_compared_by_the_vectors_of_a_nominator(context):
    towers = make_trainer("two-tower", width=4, hidden=4).fit({"name": "towers"}, context)
    stage = DiverseTrainer(by="towers").fit({}, replace(context, fitted={"towers": towers}))
    torch.testing.assert_close(stage.vectors, towers.model.vectors())


@pytest.mark.parametrize("days", [0.0, 30.0])
def test_event_of_weight_two_is_as_popular_as_two_events(context, days):
    weights = np.array([1, 2, 1, 1, 2, 1], np.float32)
    twice = np.repeat(np.arange(6), weights.astype(int))
    repeated = Interactions.of(
        np.arange(8), context.events.items[twice], context.events.times[twice], n_items=4
    )
    weighted = replace(context, events=replace(context.events, weights=weights))
    one, two = (
        PopularTrainer().fit({"days": days}, given) for given in (weighted, replace(context, events=repeated))
    )
    assert one.order.tolist() == two.order.tolist()
    assert torch.allclose(one.share, two.share)
