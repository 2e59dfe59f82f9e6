"""A ranker over two-time-scale users: out-of-fold training, live states in service, refresh."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.artifact import Lineage
from shortlist.data import Query
from shortlist.models.sequence.two_time_scale import TwoTimeScale
from shortlist.models.user_vectors import state_key
from shortlist.pipeline import TYPES, Request, load_recommender, parse_recipe, run, save_recommender
from shortlist.pipeline.live.states import since_ms, state_models
from shortlist.state import UserEvent
from shortlist.train.bundle import train
from shortlist.train.context import TrainContext
from shortlist.train.pipeline_trainer import PipelineTrainer
from shortlist.train.registry import TRAINERS
from shortlist.train.renewal.refresh import refresh
from tests.train.renewal.test_refresh import early_events, log_of

RECIPE = """
name = "live"
pipeline = "states % 30 + popular % 30 >> seen >> rank % 10"
[stages.states]
type = "two-time-scale"
score_pool = true
[stages.states.train]
width = 8
epochs = 1
first_epochs = 1
threshold = 12
last = 4
prior = 1.0
negatives = 8
[stages.popular]
type = "popular"
[stages.seen]
type = "seen"
[stages.rank]
type = "feature-ranker"
[stages.rank.train]
epochs = 2
"""


@pytest.fixture(scope="module")
def parsed():
    return parse_recipe(RECIPE, "live.toml")


@pytest.fixture(scope="module")
def dataset(world):
    return log_of(world, early_events(world))


@pytest.fixture(scope="module")
def bundle(parsed, dataset):
    return train(parsed, replace(dataset, split_settings={"protocol": "global-time"}))


def model_of(recommender):
    (model,) = state_models(recommender.pipeline)
    return model


def live_events(recommender, user, count):
    first = since_ms(recommender) + 1000
    items = recommender.catalog.vocabulary.ids_of(range(count))
    return [UserEvent(user, item, first + at, at) for at, item in enumerate(items)]


def test_bundle_has_users_of_both_groups(bundle):
    users = torch.arange(len(bundle.users))
    active = model_of(bundle).active(users)
    assert bool(active.any())
    assert not bool(active.all())


def test_ranker_has_the_same_features_of_a_state_as_of_any_vector_model(bundle):
    names = next(stage for stage in bundle.pipeline.stages if stage.title == "rank").inner.features.names
    assert {"states.nominated", "states.rank", "states.z", "states.last", "states.max", "states.mean"} <= set(
        names
    )


@pytest.mark.parametrize("count", [1, 3, 10])
def test_rankers_read_live_states(bundle, count):
    """The slates are those of the whole history, for an active user, another known one and a new one."""
    model, users = model_of(bundle), torch.arange(len(bundle.users))
    active = model.active(users)
    known = [bundle.users.id(int(row)) for row in (active.nonzero()[0, 0], (~active).nonzero()[0, 0])]
    one = bundle.live()
    for user in (*known, "new"):
        before = one.recommend(Request(user=user))
        report = one.apply(live_events(one, user, count), 2**42)
        assert (report.applied, report.rejected) == (count, ())
        slate = one.recommend(Request(user=user))
        query = one.query([Request(user=user)])
        assert state_key(one.states.version) in query.context
        replayed = run(one.pipeline, Query(query.user, query.history, query.time, query.seed))
        assert slate.items.tolist() == replayed.items.tolist()
        torch.testing.assert_close(slate.scores, replayed.scores, rtol=1e-3, atol=1e-3)
        assert not torch.equal(slate.scores, before.scores)


def test_loaded_bundle_has_the_same_states(bundle, tmp_path):
    save_recommender(bundle, tmp_path / "b", Lineage())
    again = load_recommender(tmp_path / "b").live()
    one = bundle.live()
    assert one.states.version == again.states.version
    for each in (one, again):
        each.apply(live_events(each, "new", 3), 2**42)
    torch.testing.assert_close(one.states.query(["new"]), again.states.query(["new"]), rtol=1e-5, atol=1e-5)


def test_nominators_of_held_out_users_have_no_vector_of_theirs(parsed, world):
    """Candidates from other users: those users are new to the model of their fold."""
    split = world.split(protocol="half-history")
    work = PipelineTrainer.of(parsed, TYPES, TRAINERS)
    folds = work.folds(TrainContext(split.train, world.catalog, world.clock, 0), split)
    for fold in folds.parts:
        model = fold.stages["states"].model
        assert isinstance(model, TwoTimeScale)
        users = torch.cat([batch.query.user for batch in fold.batches])
        assert not bool(model.active(users).any())
        assert bool(model.active(torch.arange(world.events.n_users)).any())


def test_refreshed_bundle_continues_from_the_states_of_the_old_one(bundle, world):
    """Weights stay, so the vector of a user is the old one moved by the new events, live or in the histories."""
    later = log_of(world, np.ones(len(world.events), bool))
    new = refresh(bundle, later).bundle
    model = model_of(new)
    assert model is model_of(bundle)
    moved = 0
    for row in range(len(bundle.users)):
        user = bundle.users.id(row)
        old_history, history = bundle.history(Request(user)), new.history(Request(user))
        if history[: len(old_history)] != old_history or len(history) == len(old_history):
            continue
        moved += 1
        one, other = bundle.live(), new.live()
        items = new.catalog.vocabulary.ids_of(history[len(old_history) :])
        first = since_ms(bundle)
        one.apply([UserEvent(user, item, first + at, at) for at, item in enumerate(items)], 2**42)
        torch.testing.assert_close(one.states.query([user]), other.states.query([user]), rtol=1e-4, atol=1e-4)
        if moved == 5:
            break
    assert moved == 5
    added = [user for user in new.users.ids.to_pylist() if bundle.users.row(user) < 0]
    assert not bool(model.active(torch.tensor([new.users.row(user) for user in added])).any())


def test_bundle_that_is_trained_again_keeps_active_users(bundle, world):
    later = replace(
        log_of(world, np.ones(len(world.events), bool)), split_settings={"protocol": "global-time"}
    )
    again = refresh(bundle, later, retrain=True)
    if again.kept:
        assert model_of(again.bundle).config.n_users == len(again.bundle.users)
        assert bool(model_of(again.bundle).active(torch.arange(len(again.bundle.users))).any())
    assert again.comparison is not None
