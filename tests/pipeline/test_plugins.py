"""Stages of other modules: a recipe file imports them, a bundle uses only what the user has imported."""

import sys
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from shortlist.errors import ArtifactError, ConfigError
from shortlist.grammar import Filter
from shortlist.pipeline import Request, load_recommender, parse_recipe, plugins, read_recipe
from shortlist.pipeline.plugins import add_entry_points, load_plugins, source_hash
from shortlist.pipeline.registry import TYPES
from shortlist.train import train

MODULE = '''
from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.grammar import Filter, Scorer
from shortlist.models.model import Model
from shortlist.settings import setting

__version__ = "1.5"


@dataclass(frozen=True, eq=False, repr=False)
class Multiples(Filter):
    """Keep the items whose row is a multiple of `of`."""

    of: int = setting(2, "Divisor of the kept rows.", least=1)

    def keep(self, query, found):
        return found.items % self.of == 0


@dataclass(frozen=True, eq=False, repr=False)
class Counts(Scorer):
    """Score items by their number of events."""

    counts: Tensor

    @classmethod
    def fit(cls, settings, context):
        counts = torch.bincount(torch.tensor(context.events.items), minlength=len(context.catalog))
        return cls(counts.float(), **settings)

    def score(self, query, found):
        return self.counts[found.items.clamp(min=0)]


class Last(Model):
    """The reversed order of the catalogue."""

    def scores(self, history, user=None):
        return torch.arange(self.config.n_items).float().expand(len(history), -1)


def helper():
    """No stage."""
'''

RECIPE = """
name = "plugged"
pipeline = "last % 60 >> multiples >> counts % 5"

[stages.last]
type = "toy_plugin:Last"

[stages.multiples]
type = "toy_plugin:Multiples"
of = 3

[stages.counts]
type = "toy_plugin:Counts"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder with a module and a recipe; both are forgotten afterwards."""
    (tmp_path / "toy_plugin.py").write_text(MODULE)
    (tmp_path / "plugged.toml").write_text(RECIPE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    forget()


def forget():
    sys.modules.pop("toy_plugin", None)
    for name in [name for name in TYPES if name.startswith("toy_plugin:")]:
        del TYPES[name]


def test_recipe_with_classes_of_a_module_is_trained_saved_and_loaded(folder, world):
    trained = train("plugged.toml", world, "bundle")
    recorded = {
        (one.type, one.module, one.name, one.version) for one in load_recommender("bundle").about.plugins
    }
    assert recorded == {
        (f"toy_plugin:{name}", "toy_plugin", name, "1.5") for name in ("Last", "Multiples", "Counts")
    }
    rows = trained.recommend(Request(history=[])).items[0]
    assert all(row % 3 == 0 for row in rows.tolist() if row >= 0)
    forget()
    with pytest.raises(
        ArtifactError, match=r"bundle: needs the class toy_plugin:.*--plugin toy_plugin .*version 1.5"
    ):
        load_recommender("bundle")
    assert "toy_plugin" not in sys.modules
    load_plugins(["toy_plugin.py"])
    assert load_recommender("bundle").recommend(Request(history=[])).items[0].tolist() == rows.tolist()


def test_text_of_a_recipe_imports_nothing(folder):
    with pytest.raises(
        ConfigError, match=r"t.toml:5: .*needs the class toy_plugin:Last.*--plugin toy_plugin"
    ):
        parse_recipe(RECIPE, "t.toml")
    assert "toy_plugin" not in sys.modules
    load_plugins(["toy_plugin"])
    assert parse_recipe(RECIPE, "t.toml").stages["multiples"].settings == {"of": 3}


REFUSALS = {
    "a module that does not exist": (
        "toy_plugin:Last",
        "toy_plugim:Last",
        "no module 'toy_plugim' in the Python path or in",
    ),
    "a class that does not exist": (
        "Multiples",
        "Multiple",
        r"has no class 'Multiple'; it has .*; did you mean Multiples\?",
    ),
    "a function": (
        "toy_plugin:Last",
        "toy_plugin:helper",
        "toy_plugin:helper must be a Nominator, .* or a Model, got <function",
    ),
    "an abstract kind": ("toy_plugin:Last", "shortlist.grammar:Stage", "must be a Nominator"),
    "a module that fails": ("toy_plugin:Last", "broken:Last", "the module broken failed: ZeroDivisionError"),
    "a module that needs a package": (
        "toy_plugin:Last",
        "needy:Last",
        "the module needy needs the package 'no_such_package'",
    ),
    "a setting of the class": (
        "of = 3",
        "off = 3",
        r"plugged.toml:10: .*unknown key 'off'; expected one of of; did you mean of\?",
    ),
}


@pytest.mark.parametrize(("old", "new", "message"), REFUSALS.values(), ids=REFUSALS.keys())
def test_wrong_plugin_is_refused_with_file_and_line(folder, old, new, message):
    (folder / "broken.py").write_text("1 / 0\n")
    (folder / "needy.py").write_text("import no_such_package\n")
    (folder / "plugged.toml").write_text(RECIPE.replace(old, new))
    with pytest.raises(ConfigError, match=rf"plugged\.toml:\d+: (?s:.)*{message}|{message}"):
        read_recipe("plugged.toml")


def test_file_that_hides_a_module_is_refused(folder):
    (folder / "json.py").write_text("")
    with pytest.raises(ConfigError, match="a module 'json' exists already; rename the file"):
        load_plugins(["json.py"])
    with pytest.raises(ConfigError, match=r"gone.py: no such file"):
        load_plugins(["gone.py"])


def test_entry_point_of_an_installed_package_is_a_type(folder, monkeypatch):
    points = EntryPoints([EntryPoint("every-third", "toy_plugin:Multiples", plugins.GROUP)])
    monkeypatch.setattr(plugins, "entry_points", points.select)
    recipe = RECIPE.replace('"toy_plugin:Multiples"', '"every-third"').replace("toy_plugin:Last", "sasrec")
    load_plugins(["toy_plugin"])
    assert parse_recipe(recipe).stages["multiples"].type == "every-third"
    del TYPES["every-third"]
    add_entry_points()
    assert TYPES["every-third"].__name__ == "Multiples"


def test_source_hash_of_a_plugin_changes_with_its_module_and_with_that_of_its_base(folder):
    (folder / "derived_plugin.py").write_text(
        "import toy_plugin\n\n\nclass Own(toy_plugin.Last):\n    pass\n"
    )

    def loaded():
        for name in ("toy_plugin", "derived_plugin"):
            sys.modules.pop(name, None)
        load_plugins(["toy_plugin.py", "derived_plugin.py"])
        return [
            source_hash([kind])
            for kind in (sys.modules["toy_plugin"].Last, sys.modules["derived_plugin"].Own)
        ]

    before = loaded()
    assert loaded() == before
    (folder / "toy_plugin.py").write_text(MODULE.replace("arange(self", "zeros(self"))
    assert all(new != old for new, old in zip(loaded(), before, strict=True))
    sys.modules.pop("derived_plugin")


def test_source_hash_of_shipped_classes_is_empty_and_typed_code_counts_as_new_in_every_process(monkeypatch):
    assert source_hash([Filter, TYPES["explore"]]) == ""
    typed = type("Typed", (Filter,), {"__module__": "typed_code"})
    before = source_hash([typed])
    monkeypatch.setattr(plugins, "NO_SOURCE", "another process")
    assert source_hash([typed]) != before
