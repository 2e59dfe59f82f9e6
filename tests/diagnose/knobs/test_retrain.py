from dataclasses import replace

import numpy as np
import pytest

from shortlist.diagnose.knobs.retrain import Variant, check_variants, retrain_variants, variants
from shortlist.diagnose.sample import hits_per_request, sample_users
from shortlist.errors import ConfigError
from shortlist.pipeline import load_recommender, parse_recipe
from shortlist.train.pipeline import train_pipeline

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

POPULAR = """
name = "popular"
pipeline = "popular % 20"

[stages.popular]
type = "popular"
"""


@pytest.fixture(scope="module")
def bundle_with_tree(tree_bundle):
    return load_recommender(tree_bundle)


def test_tree_has_variants_with_other_branches_and_nothing_else_changes(bundle_with_tree):
    recipe = bundle_with_tree.recipe
    found = variants(recipe)
    assert [(one.stage, one.knob, one.setting) for one in found] == [
        ("tree", "branch", "4"),
        ("tree", "branch", "8"),
    ]
    changed = found[0].recipe.stages["tree"]
    assert changed.train == {**recipe.stages["tree"].train, "branch": 4}
    assert changed.settings == recipe.stages["tree"].settings
    assert found[0].recipe.stages["seen"] is recipe.stages["seen"]


def test_ranker_has_variants_with_other_modes_and_negatives():
    found = [(one.knob, one.setting) for one in variants(parse_recipe(RANKED))]
    assert [one for one in found if one[0] == "mode"] == [("mode", "original"), ("mode", "mixed")]
    assert [one for one in found if one[0] == "negatives"] == [
        ("negatives", "catalogue"),
        ("negatives", "both"),
    ]


def test_stages_that_count_events_once_have_the_same_variants(bundle_with_tree):
    ranked = RANKED + 'weights = "implicit"\n'
    assert len(variants(parse_recipe(ranked))) == len(variants(parse_recipe(RANKED)))
    tree = bundle_with_tree.recipe
    config = replace(tree.stages["tree"], train={**tree.stages["tree"].train, "weights": "implicit"})
    found = variants(replace(tree, stages={**tree.stages, "tree": config}))
    assert [one.recipe.stages["tree"].train["weights"] for one in found] == ["implicit"] * 2


def test_bundle_without_variants_or_recipe_is_refused(bundle_with_tree):
    assert variants(None) == variants(parse_recipe(POPULAR)) == ()
    with pytest.raises(ConfigError, match="retrain needs a ranker with training modes"):
        check_variants(replace(bundle_with_tree, recipe=parse_recipe(POPULAR)))
    with pytest.raises(ConfigError, match="holds no recipe, so it cannot be trained again"):
        check_variants(replace(bundle_with_tree, recipe=None))


def test_variant_is_trained_like_the_bundle_and_measured_on_the_same_users(bundle_with_tree, world):
    sample = sample_users(world.split().test, len(world.catalog), 40, 0)
    variant = variants(bundle_with_tree.recipe)[0]
    (result,) = retrain_variants((variant,), bundle_with_tree, world, world.split(), sample)
    made = train_pipeline(variant.recipe, world, 0)
    difference = hits_per_request(made.pipeline, sample) - hits_per_request(bundle_with_tree.pipeline, sample)
    assert result.gain.mean == pytest.approx(np.mean(difference / sample.n_relevant))
    assert result.needs_training
    assert (result.stage, result.knob, result.setting) == ("tree", "branch", "4")


def test_unchanged_recipe_gains_nothing(bundle_with_tree, world):
    sample = sample_users(world.split().test, len(world.catalog), 40, 0)
    made = train_pipeline(bundle_with_tree.recipe, world, 0)
    hits = [hits_per_request(one.pipeline, sample) for one in (made, bundle_with_tree.as_measured())]
    assert np.array_equal(*hits)


def test_training_that_is_refused_says_why(bundle_with_tree, world):
    sample = sample_users(world.split().test, len(world.catalog), 40, 0)
    recipe = bundle_with_tree.recipe
    bad = replace(recipe.stages["tree"], train={**recipe.stages["tree"].train, "branch": 1})
    variant = Variant("tree", "branch", "1", replace(recipe, stages={**recipe.stages, "tree": bad}))
    (result,) = retrain_variants((variant,), bundle_with_tree, world, world.split(), sample)
    assert result.gain is None
    assert "branch" in result.why
