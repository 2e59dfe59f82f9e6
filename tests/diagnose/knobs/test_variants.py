from dataclasses import replace

import pytest

from shortlist.diagnose.knobs.variants import ENOUGH, check_variants, variants
from shortlist.errors import ConfigError
from shortlist.pipeline import TrainingHistory, load_recommender, parse_recipe
from shortlist.pipeline.recipe_settings import parse_settings, with_settings
from shortlist.train.registry import check_training

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


def of(found, knob):
    return [(one.stage, one.setting) for one in found if one.knob == knob]


def test_variants_change_every_trained_stage_the_pool_and_the_cuts(recipe):
    found = variants(recipe)
    assert of(found, "epochs") == [("towers", "15"), ("prerank", "10"), ("rank", "40")]
    assert of(found, "nominator") == [("pool", "ease % 100"), ("pool", "sasrec % 100")]  # it has co-visit
    assert of(found, "cut") == [("prerank", "160"), ("rank", "80")]
    assert of(found, "limits") == [("pool", "doubled")]
    assert ("rank", "boosted-ranker") in of(found, "type")
    assert of(found, "start") == [("prerank", "none")]


def test_stage_that_another_one_uses_is_never_left_out(recipe):
    left_out = [stage for stage, _ in of(variants(recipe), "removed")]
    assert left_out == [
        "popular",
        "covisit",
        "prerank",
        "diverse",
    ]  # prerank starts from towers; rank is the last


def test_every_variant_is_a_recipe_that_its_options_make(recipe):
    for one in variants(recipe):
        check_training(one.changed)
        options = one.options.replace("'", "").split("--set ")[1:]
        typed = with_settings(recipe, parse_settings([option.strip() for option in options]))
        assert (typed.stages, typed.expression) == (one.changed.stages, one.changed.expression)


def test_training_that_early_stopping_ended_is_not_made_longer(recipe):
    stopped = TrainingHistory(6, ENOUGH, best_epoch=3, converged=True)
    short = replace(stopped, max_epochs=2)  # two epochs are too few to believe it
    found = variants(recipe, histories={"rank": stopped, "prerank": short})
    assert of(found, "epochs") == [("towers", "15"), ("prerank", "10")]


def test_tree_has_variants_with_other_branches_and_nothing_else_changes(tree_bundle):
    recipe = load_recommender(tree_bundle).recipe
    found = [one for one in variants(recipe) if one.knob == "branch"]
    assert of(found, "branch") == [("tree", "4"), ("tree", "8")]
    changed = found[0].changed.stages["tree"]
    assert changed.train == {**recipe.stages["tree"].train, "branch": 4}
    assert changed.settings == recipe.stages["tree"].settings
    assert found[0].changed.stages["seen"] == recipe.stages["seen"]


def test_ranker_has_variants_with_other_modes_and_negatives():
    found = variants(parse_recipe(RANKED))
    assert of(found, "mode") == [("rank", "original"), ("rank", "mixed")]
    assert of(found, "negatives") == [("rank", "catalogue"), ("rank", "both")]


def test_stages_that_count_events_once_have_the_same_variants(tree_bundle):
    ranked = RANKED + 'weights = "implicit"\n'
    assert len(variants(parse_recipe(ranked))) == len(variants(parse_recipe(RANKED)))
    tree = load_recommender(tree_bundle).recipe
    config = replace(tree.stages["tree"], train={**tree.stages["tree"].train, "weights": "implicit"})
    found = variants(replace(tree, stages={**tree.stages, "tree": config}))
    branches = [one for one in found if one.knob == "branch"]
    assert [one.changed.stages["tree"].train["weights"] for one in branches] == ["implicit"] * 2


def test_bundle_without_recipe_is_refused(tree_bundle):
    assert variants(None) == ()
    with pytest.raises(ConfigError, match="holds no recipe, so it cannot be trained again"):
        check_variants(replace(load_recommender(tree_bundle), recipe=None))


def test_settings_of_the_caller_are_the_only_variant(bundle):
    (one,) = check_variants(load_recommender(bundle), {"stages.rank.train.epochs": 3})
    assert (one.stage, one.options) == ("rank", "--set stages.rank.train.epochs=3")
    with pytest.raises(ConfigError, match="no stage 'rnk'"):
        check_variants(load_recommender(bundle), {"stages.rnk.train.epochs": 3})
