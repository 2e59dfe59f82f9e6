"""Every verb on a bundle with a stage of the user's own, and with titles that try to control the terminal."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.data import Catalog, Dataset, save_dataset
from shortlist.errors import ArtifactError, visible
from shortlist.pipeline.registry import TYPES
from shortlist.serve import app_of

HOSTILE = (
    "[red]a[/]",
    "[/]",
    "[link=http://x]y",
    "\x1b[31mred",
    "\x1b]8;;http://x\x07z",
    "\u202eexe",
    "a\tb\nerror: c",
    "\x9bJ",
)

MODULE = '''
from dataclasses import dataclass

from shortlist.grammar import Scorer
from shortlist.settings import setting


@dataclass(frozen=True, eq=False, repr=False)
class Near(Scorer):
    """Prefer rows near the last one of the history."""

    reach: float = setting(10.0, "Distance that costs one point.", least=0.1)

    def score(self, query, found):
        return -(found.items - query.history[:, -1:]).abs().float() / self.reach
'''

RECIPE = """
name = "[red]mine\\u001b[/]"
pipeline = "popular % 40 >> seen >> near % 10"

[stages.popular]
type = "popular"

[stages.seen]
type = "seen"

[stages.near]
type = "hostile_plugin:Near"
"""


def run(*arguments: object, plugin: bool = True):
    forget()
    option = ["--plugin", "hostile_plugin.py"] if plugin else []
    return CliRunner().invoke(app, [*map(str, arguments), *option], env={"COLUMNS": "300"})


def forget() -> None:
    sys.modules.pop("hostile_plugin", None)
    TYPES.pop("hostile_plugin:Near", None)


@pytest.fixture(scope="module")
def folder(world: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set with hostile titles, a module, and a bundle trained with it."""
    folder = tmp_path_factory.mktemp("hostile")
    titles = [f"{HOSTILE[row % len(HOSTILE)]} {row}" for row in range(len(world.items))]
    categories = [f"[b]{row % 3}\x1b" for row in range(len(world.items))]
    table = pa.table({"title": titles, "category": categories})
    save_dataset(replace(world, catalog=Catalog(world.catalog.vocabulary, table)), folder / "data", "test")
    (folder / "hostile_plugin.py").write_text(MODULE)
    (folder / "mine.toml").write_text(RECIPE)
    return folder


@pytest.fixture(autouse=True)
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    monkeypatch.delenv("SHORTLIST_PLUGINS", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    forget()


@pytest.fixture
def trained(folder: Path) -> Path:
    if not (folder / "bundle").exists():
        options = (
            "--data",
            "data",
            "--out",
            "bundle",
            "--set",
            "stages.near.reach=3",
            "--set",
            "train.requests=50",
        )
        answer = run("train", "mine.toml", *options, plugin=False)  # a recipe file imports its module
        assert answer.exit_code == 0, answer.output
        assert_harmless(answer.output)
    return folder / "bundle"


def assert_harmless(text: str) -> None:
    assert visible(text, keep="\n") == text
    assert not re.search(r"^error: c", text, re.MULTILINE)


VERBS = {
    "recommend": ("recommend", "bundle", "--user", "u00003", "--trace", "--history", "[/] 1"),
    "explain": ("explain", "bundle", "--user", "u00003", "--item", "[red]a[/] 0"),
    "evaluate": ("evaluate", "bundle", "--data", "data"),
    "compare": ("compare", "bundle", "bundle", "--data", "data"),
    "diagnose": ("diagnose", "bundle", "--data", "data", "--users", "30"),
    "recipe": ("recipe", "show", "bundle"),
    "settings": ("settings", "hostile_plugin:Near"),
    "data": ("data", "report", "data"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_verb_prints_hostile_titles_as_text_and_uses_the_plugin(verb: str, trained: Path):
    for options in ((), ("--json",)):
        answer = run(*VERBS[verb], *options)
        assert answer.exit_code == 0, answer.output
        assert_harmless(answer.stdout)
        assert_harmless(answer.stderr)
        if options:
            json.loads(answer.stdout)


def test_titles_stand_in_the_slate_with_visible_escapes(trained: Path):
    text = run("recommend", "bundle", "-k", "30").stdout
    for title in HOSTILE[:6]:
        assert visible(title) in text
    assert r"[red]mine\x1b[/]" in text


def test_ambiguous_title_is_an_error_without_control_characters(trained: Path):
    answer = run("explain", "bundle", "--item", "\x1b[31mred")
    assert answer.exit_code == 2
    assert "may be one of" in answer.stderr
    assert_harmless(answer.stderr)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in ("settings", "data")])
def test_bundle_alone_imports_no_code(verb: str, trained: Path):
    answer = run(*VERBS[verb], plugin=False)
    assert answer.exit_code == 2
    assert "needs the class hostile_plugin:Near" in answer.stderr
    assert "add --plugin hostile_plugin (or set SHORTLIST_PLUGINS=hostile_plugin" in answer.stderr
    assert "hostile_plugin" not in sys.modules


def test_environment_variable_is_as_good_as_the_option(trained: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SHORTLIST_PLUGINS", "hostile_plugin")
    assert run("recommend", "bundle", plugin=False).exit_code == 0


def test_worker_process_of_the_service_imports_the_plugins(trained: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ArtifactError, match="needs the class hostile_plugin:Near"):
        app_of("bundle")
    monkeypatch.setenv("SHORTLIST_PLUGINS", "hostile_plugin.py")
    assert app_of("bundle").state.service.recommender.about.plugins[0].name == "Near"


def test_bundle_stores_the_recipe_with_the_settings(trained: Path):
    shown = json.loads(run("recipe", "show", "bundle", "--json").stdout)
    assert shown["stages"]["near"]["settings"] == {"reach": 3}
    assert shown["training"] == {"requests": 50}


def test_plugin_that_does_not_exist_is_refused(trained: Path):
    for name, message in (
        ("gone.py", "gone.py: no such file"),
        ("gone", "no module 'gone' in the Python path"),
    ):
        answer = run("recommend", "bundle", "--plugin", name, plugin=False)
        assert answer.exit_code == 2
        assert message in answer.stderr
