from dataclasses import replace

import numpy as np
import pytest

from shortlist.artifact.store import load
from shortlist.diagnose.knobs.retrain import Trial, has_recipe, recipe_of, retrained, trials
from shortlist.diagnose.sample import panel, returned
from shortlist.errors import ConfigError
from shortlist.pipeline import load_recommender, parse_recipe, save_recommender
from shortlist.progress import silent
from shortlist.train import train

RANKED = """
name = "ranked"
pipeline = "popular % 20 >> rank % 5"

[stages.popular]
type = "popular"

[stages.rank]
type = "din-ranker"

[stages.rank.train]
negatives = "candidates"
"""


def test_a_tree_is_tried_with_other_branches_and_nothing_else_changes(tree_bundle):
    recipe = recipe_of(tree_bundle)
    found = trials(recipe)
    assert [(one.stage, one.label, one.setting) for one in found] == [
        ("tree", "branch", "4"),
        ("tree", "branch", "8"),
    ]
    changed = found[0].recipe.stages["tree"]
    assert changed.train == {**recipe.stages["tree"].train, "branch": 4}
    assert changed.settings == recipe.stages["tree"].settings
    assert found[0].recipe.stages["seen"] is recipe.stages["seen"]


def test_a_ranker_is_tried_with_other_modes_and_negatives_than_its_own():
    found = [(one.label, one.setting) for one in trials(parse_recipe(RANKED))]
    own = "harmonised"
    assert ("mode", own) not in found
    assert [one for one in found if one[0] == "mode"] == [("mode", "original"), ("mode", "mixed")]
    assert [one for one in found if one[0] == "negatives"] == [
        ("negatives", "catalogue"),
        ("negatives", "both"),
    ]


def test_pipelines_that_nothing_is_known_to_better_are_left_alone(bundle):
    assert trials(recipe_of(bundle)) == ()


def test_a_trial_is_trained_as_the_bundle_was_and_asked_for_the_same_users(tree_bundle, world):
    recommender = load_recommender(tree_bundle)
    asked = panel(world.split().test, len(world.catalog), 40, 0)
    one = trials(recipe_of(tree_bundle))[0]
    (knob,) = retrained((one,), recommender, world, 0, asked, silent)
    made = train(one.recipe, world, 0)
    apart = returned(made.pipeline, asked) - returned(recommender.pipeline, asked)
    assert knob["gain"]["mean"] == pytest.approx(apart.sum() / asked.wanted.sum())
    assert knob["needs_training"]
    assert (knob["stage"], knob["label"], knob["setting"]) == ("tree", "branch", "4")


def test_the_unchanged_recipe_gains_exactly_nothing(tree_bundle, world):
    recommender = load_recommender(tree_bundle)
    asked = panel(world.split().test, len(world.catalog), 40, 0)
    made = train(recipe_of(tree_bundle), world, 0)
    assert np.array_equal(returned(made.pipeline, asked), returned(recommender.pipeline, asked))


def test_a_bundle_without_its_recipe_cannot_be_trained_again(tree_bundle, tmp_path):
    lineage = load(tree_bundle).lineage
    save_recommender(load_recommender(tree_bundle), tmp_path / "bare", lineage)
    assert has_recipe(tree_bundle)
    assert not has_recipe(tmp_path / "bare")
    with pytest.raises(ConfigError, match=r"holds no recipe.toml, so it cannot be trained again"):
        recipe_of(tmp_path / "bare")


def test_a_training_that_is_refused_says_why_and_the_others_go_on(tree_bundle, world):
    recommender = load_recommender(tree_bundle)
    asked = panel(world.split().test, len(world.catalog), 40, 0)
    recipe = recipe_of(tree_bundle)
    bad = replace(recipe.stages["tree"], train={**recipe.stages["tree"].train, "branch": 1})
    trial = Trial("tree", "branch", "1", replace(recipe, stages={**recipe.stages, "tree": bad}))
    (knob,) = retrained((trial,), recommender, world, 0, asked, silent)
    assert knob["gain"] is None
    assert "branch" in knob["why"]
