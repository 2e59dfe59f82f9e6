"""Change settings of a recipe by dotted keys: `stages.sasrec.train.epochs`, `train.requests`, `pipeline`, `name`."""

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from shortlist.errors import ConfigError, did_you_mean
from shortlist.pipeline.expression import names_in
from shortlist.pipeline.recipe import Recipe, Types, recipe_of, toml_value
from shortlist.pipeline.registry import TYPES

KEYS = "name, pipeline, train.KEY, stages.NAME.KEY or stages.NAME.train.KEY"


def parse_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Settings from `KEY=VALUE`: values are TOML, and what is not TOML is text."""
    return dict(_pair(text) for text in texts)


def with_settings(recipe: Recipe, settings: Mapping[str, Any], types: Types = TYPES) -> Recipe:
    """The recipe with these settings, checked like a file; a new `pipeline` drops the stages it does not use."""
    if not settings:
        return recipe
    changes = ", ".join(f"{key} = {toml_value(value)}" for key, value in settings.items())
    path = f"{recipe.path} with {changes}"
    values = _values(recipe)
    for key, value in sorted(settings.items(), key=lambda pair: not pair[0].endswith(".type")):
        _put(values, key, value, path)
    if isinstance(values["pipeline"], str) and "pipeline" in settings:
        used = names_in(values["pipeline"], f"{path}: pipeline")
        values["stages"] = {name: table for name, table in values["stages"].items() if name in used}
    return recipe_of(values, path, types=types, imports=True)


def _pair(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not (key.strip() and equals):
        raise ConfigError(f"--set: expected KEY=VALUE such as stages.sasrec.train.epochs=20, got {text!r}")
    try:
        parsed = tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()
    return key.strip(), parsed["value"] if len(parsed) == 1 else value.strip()


def _values(recipe: Recipe) -> dict[str, Any]:
    stages = {
        name: {"type": one.type, **one.settings, "train": dict(one.train)}
        for name, one in recipe.stages.items()
    }
    return {
        "name": recipe.name,
        "pipeline": recipe.expression,
        "train": dict(recipe.training),
        "stages": stages,
    }


def _put(values: dict[str, Any], key: str, value: Any, path: str) -> None:
    match key.split("."):
        case ["name" | "pipeline"]:
            values[key] = value
        case ["train", name]:
            values["train"][name] = value
        case ["stages", stage, name]:
            _stage(values, stage, path, new=name == "type")[name] = value
        case ["stages", stage, "train", name]:
            _stage(values, stage, path)["train"][name] = value
        case [stage, *_] if stage in values["stages"]:
            raise ConfigError(f"{path}: unknown key {key!r}; did you mean stages.{key}?")
        case _:
            raise ConfigError(f"{path}: unknown key {key!r}; expected {KEYS}")


def _stage(values: dict[str, Any], name: str, path: str, new: bool = False) -> dict[str, Any]:
    stages: dict[str, dict[str, Any]] = values["stages"]
    if name not in stages and not new:
        known = f"the recipe has {', '.join(stages)}{did_you_mean(name, stages)}"
        raise ConfigError(f"{path}: no stage {name!r}; {known}")
    return stages.setdefault(name, {"train": {}})
