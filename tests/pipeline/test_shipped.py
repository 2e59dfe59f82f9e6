"""Recipes that are part of the package."""

import pytest

from shortlist.errors import ConfigError
from shortlist.pipeline import find_recipe, shipped_recipe
from shortlist.pipeline.shipped import FOLDER, shipped_names

TREES = ("tdm", "jtm", "otm", "plt", "dtr-u", "dtr-t", "dtr-t-rl")


def test_every_shipped_recipe_can_be_parsed():
    assert {"classic", "explore", "untimed", *TREES} <= set(shipped_names())
    for name in shipped_names():
        assert shipped_recipe(name).name == name


def test_existing_file_takes_precedence_over_a_shipped_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_recipe("classic").name == "classic"
    assert find_recipe(FOLDER / "untimed.toml").name == "untimed"
    text = (FOLDER / "untimed.toml").read_text()
    (tmp_path / "classic").write_text(text)
    assert find_recipe("classic").name == "untimed"


def test_folder_with_the_name_of_a_recipe_does_not_hide_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "classic").mkdir()  # as `shortlist train classic --out classic` makes it
    assert find_recipe("classic").stages == shipped_recipe("classic").stages


def test_unknown_name_is_refused_with_the_existing_names():
    with pytest.raises(ConfigError, match=", ".join(shipped_names())):
        find_recipe("clasic")
    with pytest.raises(ConfigError, match="no such file"):
        find_recipe("clasic.toml")
