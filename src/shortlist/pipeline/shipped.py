"""Recipes that are part of the package, by name."""

from pathlib import Path

from shortlist.errors import ConfigError, did_you_mean
from shortlist.pipeline.recipe import Recipe, read_recipe

FOLDER = Path(__file__).with_name("recipes")


def shipped_names() -> list[str]:
    """The names of all shipped recipes."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def shipped_recipe(name: str) -> Recipe:
    """The shipped recipe of this name."""
    if name == "auto":
        raise ConfigError(
            "recipe 'auto' is composed for a data set; print it with: shortlist plan --data DATA"
        )
    if name not in shipped_names():
        hint = did_you_mean(name, shipped_names())
        raise ConfigError(
            f"recipe {name!r}: expected a TOML file or one of {', '.join(shipped_names())}{hint}"
        )
    return read_recipe(FOLDER / f"{name}.toml")


def find_recipe(path: Path | str) -> Recipe:
    """The recipe in a file, or the shipped recipe of this name; a folder of that name does not hide it."""
    plain = Path(path).suffix == "" and len(Path(path).parts) == 1
    return shipped_recipe(str(path)) if plain and not Path(path).is_file() else read_recipe(path)
