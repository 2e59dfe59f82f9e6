"""Settings by dotted keys: checked like a file, stored like a file."""

import pytest

from shortlist.errors import ConfigError
from shortlist.pipeline import parse_recipe, shipped_recipe, to_toml
from shortlist.pipeline.recipe_settings import parse_settings, with_settings


@pytest.fixture
def recipe():
    return shipped_recipe("classic")


def test_values_are_toml_and_bare_words_are_text():
    texts = (
        "a=3",
        "b=0.5",
        "c=true",
        "d=word",
        'e="3"',
        "f=[1, 2]",
        "g=popular % 3 >> seen",
        "h=",
        "i=[4",
        "j=1\nk=2",
    )
    assert parse_settings(texts) == {
        **{"a": 3, "b": 0.5, "c": True, "d": "word", "e": "3", "f": [1, 2]},
        **{"g": "popular % 3 >> seen", "h": "", "i": "[4", "j": "1\nk=2"},
    }


@pytest.mark.parametrize("text", ["epochs", "=3", " = 3"])
def test_text_without_key_or_value_is_refused(text):
    with pytest.raises(ConfigError, match=r"--set: expected KEY=VALUE such as stages.sasrec.train.epochs=20"):
        parse_settings([text])


def test_changed_recipe_holds_the_new_values_and_the_file_keeps_the_old(recipe):
    settings = {"name": "mine", "train.requests": 50, "stages.seen.last": 9, "stages.towers.train.epochs": 1}
    changed = with_settings(recipe, settings)
    again = parse_recipe(to_toml(changed), "again.toml")
    for one in (changed, again):
        assert (one.name, one.training["requests"], one.stages["seen"].settings["last"]) == ("mine", 50, 9)
        assert one.stages["towers"].train["epochs"] == 1
    assert recipe.name == "classic"
    assert with_settings(recipe, {}) is recipe


def test_new_pipeline_drops_stages_it_does_not_use_and_may_have_new_ones(recipe):
    settings = {
        "stages.random.temperature": 0.1,
        "pipeline": "popular % 9 >> random % 3",
        "stages.random.type": "explore",
    }
    changed = with_settings(recipe, settings)
    assert list(changed.stages) == ["popular", "random"]
    assert changed.stages["random"].settings == {"temperature": 0.1}


REFUSALS = {
    "a stage that does not exist": (
        {"stages.tower.train.epochs": 1},
        "no stage 'tower'; .*did you mean towers?",
    ),
    "a key without stages.": ({"towers.train.epochs": 1}, "did you mean stages.towers.train.epochs?"),
    "a key of nothing": ({"epochs": 1}, "unknown key 'epochs'; expected name, pipeline, train.KEY"),
    "an unknown setting": (
        {"stages.seen.lats": 1},
        r"unknown key 'lats'; expected one of last; did you mean last\?",
    ),
    "a training setting of the stage": (
        {"stages.towers.epochs": 1},
        r"settings of its training belong in \[stages.towers.train\]",
    ),
    "a value of another type": ({"stages.seen.last": "x"}, "last must be a whole number, got 'x'"),
    "a name that is no text": ({"name": 3}, "expected a text 'name', got 3"),
    "an unknown type": ({"stages.seen.type": "sen"}, "unknown type 'sen'.*did you mean seen?"),
    "a pipeline with an unknown stage": ({"pipeline": "popular % 3 >> sen"}, "stage 'sen' has no table"),
}


@pytest.mark.parametrize(("settings", "message"), REFUSALS.values(), ids=REFUSALS.keys())
def test_wrong_setting_is_refused_with_the_file_and_the_change(recipe, settings, message):
    key = next(iter(settings)).replace(".", r"\.")
    with pytest.raises(ConfigError, match=rf"classic\.toml with {key} = .*{message}"):
        with_settings(recipe, settings)
