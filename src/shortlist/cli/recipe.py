"""shortlist recipe: show a recipe as TOML, and list the shipped ones."""

from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli.console.frame import Json, Settings, emit, errors_to_exit_codes
from shortlist.cli.console.output import Console, Table, echo, echo_lines
from shortlist.pipeline import Recipe, find_recipe, load_recommender, to_toml
from shortlist.pipeline.recipe_settings import parse_settings, with_settings
from shortlist.pipeline.shipped import shipped_names, shipped_recipe
from shortlist.train.registry import check_training

app = typer.Typer(help="Show a recipe as TOML, and list the shipped ones.", no_args_is_help=True)


@app.command("show")
@errors_to_exit_codes()
def show_command(
    recipe: Annotated[
        str,
        typer.Argument(
            help="A shipped recipe, a TOML file or a bundle; ./NAME for a bundle called like a recipe."
        ),
    ],
    settings: Settings = None,
    json: Json = False,
) -> None:
    """Print a recipe as TOML, with the changes of --set; redirect it to a file and edit that."""
    changes = parse_settings(settings or [])
    read = _recipe(recipe)
    changed = with_settings(read, changes)
    check_training(changed)
    if json:
        emit({**vars(changed), "toml": to_toml(changed)})
    else:
        text = to_toml(changed) if changes else _text(read)
        echo_lines(text.rstrip("\n"))


@app.command("list")
@errors_to_exit_codes()
def list_command(json: Json = False) -> None:
    """List the shipped recipes."""
    recipes = [shipped_recipe(name) for name in shipped_names()]
    if json:
        emit({"recipes": [{**vars(one), "about": _about(one)} for one in recipes]})
        return
    table = Table("recipe", "about")
    for one in recipes:
        table.add_row(one.name, _about(one))
    Console().print(table)
    echo("shortlist recipe show NAME prints a recipe; shortlist train NAME trains it")


def _recipe(name: str) -> Recipe:
    """A shipped recipe, or the one in a file or a bundle."""
    path = Path(name)
    if name in shipped_names() or not path.is_dir():
        return find_recipe(path)
    recipe = load_recommender(path).recipe
    return find_recipe(path / "recipe.toml") if recipe is None else recipe


def _text(recipe: Recipe) -> str:
    """The file as it is, with its comments."""
    path = Path(recipe.path)
    return path.read_text("utf-8") if path.is_file() else to_toml(recipe)


def _about(recipe: Recipe) -> str:
    """The comment on the first line of the file."""
    first = _text(recipe).partition("\n")[0]
    return first.removeprefix("# ") if first.startswith("# ") else ""
