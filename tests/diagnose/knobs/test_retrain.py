from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from shortlist.diagnose.knobs.retrain import NO_TIME, retrain_variants
from shortlist.diagnose.knobs.variants import Variant, variants
from shortlist.diagnose.sample import hits_per_request, sample_users
from shortlist.grammar import leaves, map_leaves
from shortlist.pipeline import load_recommender, parse_recipe
from shortlist.pipeline.recipe_settings import with_settings
from shortlist.train.models.trainer import ModelTrainer
from shortlist.train.pipeline import train_pipeline

FUNNEL = """
name = "funnel"
pipeline = "popular % 30 + ease % 40 >> seen >> rank % 20"

[stages.popular]
type = "popular"

[stages.ease]
type = "ease"

[stages.seen]
type = "seen"

[stages.rank]
type = "feature-ranker"

[stages.rank.train]
epochs = 2
"""


@pytest.fixture(scope="module")
def bundle_with_tree(tree_bundle):
    return load_recommender(tree_bundle)


@pytest.fixture(scope="module")
def funnel(world):
    return train_pipeline(parse_recipe(FUNNEL), world, 0).recommender


@pytest.fixture(scope="module")
def sample(world):
    return sample_users(world.split().test, len(world.catalog), 40, 0)


def named(recipe, knob, stage):
    return next(one for one in variants(recipe) if (one.knob, one.stage) == (knob, stage))


def test_variant_is_trained_like_the_bundle_and_measured_on_the_same_users(bundle_with_tree, world, sample):
    variant = named(bundle_with_tree.recipe, "branch", "tree")
    (result,) = retrain_variants((variant,), bundle_with_tree.as_measured(), world, world.split(), sample)
    made = train_pipeline(variant.changed, world, 0).recommender
    measured = bundle_with_tree.as_measured().pipeline
    difference = hits_per_request(made.pipeline, sample) - hits_per_request(measured, sample)
    assert result.gain.mean == pytest.approx(np.mean(difference / sample.n_relevant))
    assert result.needs_training
    assert result.seconds > 0
    assert 0 < result.p_value <= 1
    assert (result.stage, result.knob, result.setting) == ("tree", "branch", "4")


def test_nominators_that_did_not_change_are_not_fitted_again(funnel, world, sample, monkeypatch):
    fits, original = Counter(), ModelTrainer.fit
    monkeypatch.setattr(
        ModelTrainer, "fit", lambda self, *given: fits.update([self.model.__name__]) or original(self, *given)
    )
    tried = tuple(
        named(funnel.recipe, knob, stage)
        for knob, stage in (("epochs", "rank"), ("removed", "popular"), ("limits", "pool"))
    )
    found = retrain_variants(tried, funnel, world, world.split(), sample)
    assert [one.gain is not None for one in found] == [True] * 3
    assert fits["EASE"] == 3  # two folds and the training events, for four trainings


def test_candidates_of_fewer_nominators_are_those_of_a_training_without_the_others(funnel, world, sample):
    variant = named(funnel.recipe, "removed", "popular")
    (result,) = retrain_variants((variant,), funnel, world, world.split(), sample)
    made = train_pipeline(variant.changed, world, 0).recommender
    difference = hits_per_request(made.pipeline, sample) - hits_per_request(funnel.pipeline, sample)
    assert result.gain.mean == pytest.approx(sample.recall(difference).mean, abs=0.02)


def test_stage_fitted_on_old_events_is_named_by_fitting_it_again(funnel, world, sample):
    split = world.split()
    few = replace(split, in_train=split.in_train & (np.arange(len(split.events)) % 20 == 0))
    alone = with_settings(funnel.recipe, {"pipeline": "ease % 40"})
    (stale,) = leaves(train_pipeline(alone, world, 0, few).recommender.pipeline)
    pipeline = map_leaves(funnel.pipeline, lambda leaf: stale if leaf.title == "ease" else leaf)
    found = retrain_variants((), replace(funnel, pipeline=pipeline), world, world.split(), sample)
    assert [(one.stage, one.knob) for one in found] == [("ease", "fit")]
    assert found[0].gain.mean > 0


def test_bundle_that_is_up_to_date_gains_nothing_by_training_again(funnel, world, sample):
    assert retrain_variants((), funnel, world, world.split(), sample) == ()


def test_changes_without_time_are_reported(funnel, world, sample):
    tried = variants(funnel.recipe)
    found = retrain_variants(tried, funnel, world, world.split(), sample, minutes=0.0)
    assert [one.why for one in found] == [f"{NO_TIME} within --minutes 0"] * len(tried)


def test_training_that_is_refused_says_why(bundle_with_tree, world, sample):
    variant = Variant("tree", "branch", "1", {"stages.tree.train.branch": 1}, bundle_with_tree.recipe)
    (result,) = retrain_variants((variant,), bundle_with_tree.as_measured(), world, world.split(), sample)
    assert result.gain is None
    assert "branch" in result.why
