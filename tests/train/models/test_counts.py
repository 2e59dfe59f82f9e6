import numpy as np
import pyarrow as pa
import pytest
import torch

from shortlist.data import Catalog, Interactions, Vocabulary
from shortlist.errors import ConfigError
from shortlist.testing.stages import check_stage
from shortlist.train.context import DAY, TrainContext
from shortlist.train.models.counts import (
    AvailableTrainer,
    DiverseTrainer,
    ExploreTrainer,
    PopularTrainer,
    RecentTrainer,
    SeenTrainer,
)


@pytest.fixture
def context() -> TrainContext:
    """Item 0 was popular long ago, item 2 of late; item 3 was never met."""
    items = np.array([0, 0, 0, 1, 2, 2])
    times = np.array([0, 1, 2, 3, 100 * DAY, 101 * DAY])
    events = Interactions.of(np.arange(6), items, times, n_items=4)
    table = pa.table({"title": ["a", "b", "c", "d"], "category": ["x", "y", "x", "z"]})
    return TrainContext(events, Catalog(Vocabulary.of(["a", "b", "c", "d"]), table))


def test_popular_of_all_time_and_of_late_differ(context):
    assert PopularTrainer().fit({"name": "all"}, context).order.tolist() == [0, 2, 1, 3]
    late = PopularTrainer().fit({"name": "late", "days": 30.0}, context)
    assert late.order.tolist()[0] == 2
    assert late.share[0].item() == 1.0
    check_stage(late, 4)


def test_a_window_of_days_needs_times(context):
    untimed = TrainContext(context.events, context.catalog, clock="order")
    with pytest.raises(ConfigError, match="knows only the order"):
        PopularTrainer().fit({"days": 3.0}, untimed)


def test_recent_orders_by_first_event_and_leaves_out_what_was_never_met(context):
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
def test_available_turns_lists_into_rows(context, trainer, settings, expected):
    stage = trainer.fit(settings, context)
    assert stage.allowed.tolist() == expected
    check_stage(stage, 4)


@pytest.mark.parametrize(
    ("trainer", "settings"), [(AvailableTrainer(deny=("q",)), {}), (AvailableTrainer(), {"only": ["q"]})]
)
def test_available_refuses_names_nobody_knows(context, trainer, settings):
    with pytest.raises(ConfigError, match="'q'"):
        trainer.fit(settings, context)


def test_diverse_by_category_makes_equal_categories_alike(context):
    stage = DiverseTrainer().fit({}, context)
    likeness = stage.vectors @ stage.vectors.T
    assert likeness[0, 2].item() == 1.0
    assert likeness[0, 1].item() == 0.0


def test_diverse_refuses_a_stage_without_vectors(context):
    with pytest.raises(ConfigError, match="'nobody'"):
        DiverseTrainer(by="nobody").fit({}, context)


def test_many_categories_get_short_vectors():
    count = 300
    names = [f"c{number}" for number in range(count)]
    catalog = Catalog(Vocabulary.of(names), pa.table({"title": names, "category": names}))
    events = Interactions.of(np.zeros(count), np.arange(count))
    vectors = DiverseTrainer().fit({}, TrainContext(events, catalog)).vectors
    assert vectors.shape == (count, 64)
    assert torch.allclose(vectors.norm(dim=1), torch.ones(count))
    assert (vectors @ vectors.T - torch.eye(count)).abs().max() < 0.7


def test_seen_and_explore_take_their_settings(context):
    assert SeenTrainer().fit({"last": 3}, context).last == 3
    assert ExploreTrainer().fit({"temperature": 0.5}, context).temperature == 0.5
