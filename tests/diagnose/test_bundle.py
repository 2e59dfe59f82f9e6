import re
from dataclasses import replace

import pytest

import shortlist
from shortlist.artifact.as_json import as_json
from shortlist.diagnose import Diagnosis, diagnose
from shortlist.diagnose.bundle import dependents_of
from shortlist.diagnose.findings.summary import summary
from shortlist.errors import ConfigError
from shortlist.pipeline import load_recommender
from shortlist.pipeline.recipe import StageConfig

MS = re.compile(r"[\d.]+ ms\b")


@pytest.fixture(scope="module")
def found(bundle, world) -> Diagnosis:
    return diagnose(load_recommender(bundle), world)


def test_validation_users_are_the_default(found, bundle, world):
    split = world.split(**load_recommender(bundle).about.split)
    assert found.sample.on == "valid"
    assert found.sample.held_out == found.users == len(split.valid)
    assert "validation users" in found.sample.part


def test_test_users_are_diagnosed_on_request(bundle, world):
    found = diagnose(load_recommender(bundle), world, on="test", users=30)
    assert (found.sample.on, found.sample.part, found.users) == ("test", "test users", 30)


def test_room_is_callable_as_its_function(bundle, world, found):
    assert without_times(shortlist.diagnose(load_recommender(bundle), world)) == without_times(found)


def without_times(found: Diagnosis) -> Diagnosis:
    """The same with no times in the sentences of its findings, which differ from run to run."""
    hidden = [
        replace(one, what=MS.sub("? ms", one.what), knob=MS.sub("? ms", one.knob)) for one in found.findings
    ]
    return replace(found, findings=tuple(hidden))


def test_diagnosis_holds_the_facts_of_the_bundle(found, bundle):
    recommender = load_recommender(bundle)
    assert found.about == recommender.about
    assert found.pipeline == repr(recommender.pipeline)
    assert found.seconds is None
    assert as_json(found)["about"]["training"].keys() == recommender.about.training.keys()


def test_stages_that_start_from_a_nominator_are_known(found, bundle):
    assert found.dependents == {"towers": ("prerank",)}
    assert dependents_of(None) == {}
    recipe = load_recommender(bundle).recipe
    prerank = replace(recipe.stages["prerank"], train={})
    assert dependents_of(replace(recipe, stages={**recipe.stages, "prerank": prerank})) == {}


def test_stages_that_use_vectors_or_columns_of_a_nominator_are_known(bundle):
    recipe = load_recommender(bundle).recipe
    vectors = StageConfig("diverse", train={"by": "towers"})
    columns = StageConfig("mlp-ranker", {"nominators": ["covisit", "towers"]})
    by_category = StageConfig("diverse", train={"by": "category"})
    own = {"towers": recipe.stages["towers"], "covisit": recipe.stages["covisit"]}
    changed = replace(recipe, stages={**own, "diverse": vectors, "rank": columns, "other": by_category})
    assert dependents_of(changed) == {"towers": ("diverse", "rank"), "covisit": ("rank",)}


def test_folders_are_opened(found, bundle, data_folder):
    assert without_times(diagnose(bundle, str(data_folder))) == without_times(found)


def test_text_has_the_summary_the_stages_and_the_findings(found):
    text = str(found)
    assert text.startswith(summary(found)[0])
    assert all(stage.name in text for stage in found.stages)
    assert all(finding.text in text for finding in found.findings)
    assert found.findings[0].text == " ".join(
        (found.findings[0].what, found.findings[0].why, found.findings[0].knob)
    )


def test_no_finding_advises_removing_a_nominator_that_another_stage_starts_from(found):
    assert not any(
        "Remove" in finding.knob and "'towers'" in finding.knob.split("Keep")[0] for finding in found.findings
    )


def test_other_data_and_unknown_parts_are_refused(bundle, world):
    recommender = load_recommender(bundle)
    with pytest.raises(ConfigError, match="trained on other data"):
        diagnose(replace(recommender, about=replace(recommender.about, fingerprint="other")), world)
    with pytest.raises(ConfigError, match="expected test or valid"):
        diagnose(recommender, world, on="train")


def test_tree_options_are_refused_without_a_tree(bundle, world):
    with pytest.raises(ConfigError, match="k and beam can be set for trees only"):
        diagnose(load_recommender(bundle), world, k=5, beam=5)


def test_trees_are_diagnosed(tree_bundle, world):
    found = diagnose(load_recommender(tree_bundle), world, users=20, k=5, beam=200)
    tree = found.trees["tree"]
    assert (tree.k, tree.beam, tree.users) == (5, 200, 20)
    assert {knob.setting for knob in found.knobs if knob.knob == "branch"} == {"4", "8"}
    assert all(knob.gain is None for knob in found.knobs if knob.needs_training)


def test_budget_is_searched_on_request(bundle, world, monkeypatch):
    monkeypatch.setattr("shortlist.diagnose.bundle.SECONDS", 1.0)
    found = diagnose(load_recommender(bundle), world, users=30, budget="0.5s")
    assert found.budget.budget_ms == 500
    with pytest.raises(ConfigError, match="expected a time above 0"):
        diagnose(load_recommender(bundle), world, budget="soon")
