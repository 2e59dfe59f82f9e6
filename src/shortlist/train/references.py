"""Settings of a stage that name other stages of its recipe."""

from collections.abc import Iterator, Sequence

from shortlist.pipeline import Recipe

MODEL_KEYS = ("start", "by", "pools")  # settings that name a stage whose model or item pools are used
COLUMN_KEYS = ("nominators",)  # settings that name stages whose scores and ranks are used


def stages_used(recipe: Recipe, name: str) -> tuple[str, ...]:
    """The other stages that the settings of a stage name; it cannot be trained without them."""
    return tuple(dict.fromkeys(used for _, used in references(recipe, name, (*MODEL_KEYS, *COLUMN_KEYS))))


def references(recipe: Recipe, name: str, keys: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs (setting, stage): the settings of a stage, of those in `keys`, that name other stages of the recipe."""
    config = recipe.stages[name]
    for settings in (config.train, config.settings):
        for key in keys:
            value = settings.get(key, ())
            names = value if isinstance(value, list | tuple) else (value,)
            yield from ((key, used) for used in names if used in recipe.stages and used != name)
