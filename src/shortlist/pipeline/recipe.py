"""A pipeline as a TOML file: an expression and a table of settings for every stage."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from keyword import iskeyword
from pathlib import Path
from typing import Any

from torch import Tensor

from shortlist.errors import ArtifactError, ConfigError, did_you_mean
from shortlist.grammar import Pipeline, Stage, leaves
from shortlist.pipeline.expression import GUARDS, names_in, parse
from shortlist.pipeline.placeholders import placeholder
from shortlist.pipeline.plugins import add_plugin_type
from shortlist.pipeline.registry import REPLACED, TYPES, type_name
from shortlist.settings import check_settings

Types = Mapping[str, type[Stage]]
Weights = Mapping[str, Mapping[str, Tensor]]  # stage -> tensors


@dataclass(frozen=True)
class StageConfig:
    """One stage of a recipe: type, settings, and settings of its training."""

    type: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    train: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    """The content of a TOML file; nothing in it is trained yet."""

    name: str
    expression: str
    stages: Mapping[str, StageConfig]
    training: Mapping[str, Any] = field(default_factory=dict)
    path: str = "pipeline"

    def where(self, stage: str) -> str:
        """The location of a stage, for error messages."""
        return f"{self.path}: [stages.{stage}]"


def read_recipe(path: Path | str, types: Types = TYPES) -> Recipe:
    """Read a TOML file; unknown keys and wrong values are refused with their line.

    A type such as "package.module:Class" imports that module, from the Python path or the current folder.
    """
    path = Path(path)
    if not path.is_file():
        raise ConfigError(
            f"{path}: no such file; expected a recipe in TOML; `shortlist recipe list` lists the shipped ones"
        )
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text ({error})") from error
    return parse_recipe(text, str(path), types, imports=True)


def parse_recipe(text: str, path: str = "pipeline", types: Types = TYPES, *, imports: bool = False) -> Recipe:
    """The recipe in TOML text; runs no code of modules that are not imported yet, unless `imports` is set."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise ConfigError(
            f"{path}:{line[1] if line else text.count(chr(10)) + 1}: is not TOML: {error}"
        ) from error
    return recipe_of({"name": Path(path).stem, "train": {}} | values, path, text, types, imports)


def recipe_of(
    values: Mapping[str, Any], path: str, text: str = "", types: Types = TYPES, imports: bool = False
) -> Recipe:
    """The recipe of these values; `text` is the file they come from, for the lines in messages."""
    _check_top(values, path, text)
    stages = {
        name: _stage_config(name, table, path, text, types, imports)
        for name, table in values["stages"].items()
    }
    used = names_in(values["pipeline"], f"{_at(path, text, '', 'pipeline')}: pipeline")
    _check_use(used, stages, path, text)
    pending = {name: placeholder(types[one.type], name) for name, one in stages.items()}
    parse(values["pipeline"], pending, f"{_at(path, text, '', 'pipeline')}: pipeline")
    return Recipe(values["name"], values["pipeline"], stages, values["train"], path)


def assemble(recipe: Recipe, weights: Weights, types: Types = TYPES) -> Pipeline:
    """The pipeline of a recipe with the tensors of its stages."""
    built = {name: _built(recipe, name, weights.get(name, {}), types) for name in recipe.stages}
    return parse(recipe.expression, built, f"{recipe.path}: pipeline")


def to_recipe(pipeline: Pipeline, name: str = "pipeline", types: Types = TYPES) -> Recipe:
    """The recipe of a pipeline, from which it can be assembled again."""
    stages: dict[str, StageConfig] = {}
    for stage in leaves(pipeline):
        _check_name(stage.title, f"stage {stage.title!r}")
        if stage.title in stages:
            raise ConfigError(f"two stages are called {stage.title!r}; give one of them another name=...")
        stages[stage.title] = _config_of(stage, types)
    return Recipe(name, repr(_with_names(pipeline)), stages)


def to_toml(recipe: Recipe) -> str:
    """A recipe as TOML text."""
    lines = [f"name = {toml_value(recipe.name)}", f"pipeline = {_text(recipe.expression)}"]
    if recipe.training:
        lines += ["", "[train]", *_pairs(recipe.training)]
    for name, stage in recipe.stages.items():
        lines += ["", f"[stages.{name}]", f"type = {toml_value(stage.type)}", *_pairs(stage.settings)]
        if stage.train:
            lines += ["", f"[stages.{name}.train]", *_pairs(stage.train)]
    return "\n".join(lines) + "\n"


def line_of(text: str, table: str, key: str = "") -> int:
    """The line of a table or of a key in it; 1 when it cannot be found."""
    inside = not table
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[\s*(.+?)\s*\]", line)
        if header:
            inside = header.group(1) == table
            if inside and not key:
                return number
        elif inside and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", line):
            return number
    return 1


def _at(path: str, text: str, table: str, key: str = "") -> str:
    """File and line of a table or key; the file alone for values that come from elsewhere."""
    return f"{path}:{line_of(text, table, key)}" if text else path


def _stage_config(name: str, table: object, path: str, text: str, types: Types, imports: bool) -> StageConfig:
    where = f"{_at(path, text, f'stages.{name}')}: [stages.{name}]"
    if not isinstance(table, dict) or not isinstance(table.get("type"), str):
        raise ConfigError(f"{where}: expected a table with a type of {', '.join(types)}")
    _check_name(name, where)
    if types is TYPES:
        add_plugin_type(table["type"], where, imports)
    if table["type"] not in types:
        raise ConfigError(f"{where}: {_unknown_type(table['type'], types)}")
    settings = {key: value for key, value in table.items() if key not in ("type", "train")}
    for key, value in settings.items():
        at = _at(path, text, f"stages.{name}", key)
        hint = f"; settings of its training belong in [stages.{name}.train]"
        check_settings({key: value}, types[table["type"]].declared(), f"{at}: [stages.{name}]", hint)
    if not isinstance(table.get("train", {}), dict):
        at = _at(path, text, f"stages.{name}", "train")
        raise ConfigError(f"{at}: [stages.{name}]: train must be a table, got {table['train']!r}")
    return StageConfig(table["type"], settings, table.get("train", {}))


def _unknown_type(name: str, types: Types) -> str:
    replaced = f"; write {REPLACED[name]}" if name in REPLACED else ""
    return (
        f'unknown type {name!r}{replaced}; expected one of {", ".join(types)}, or "package.module:Class" for a '
        f"stage of your own{did_you_mean(name, types)}"
    )


def _check_name(name: str, where: str) -> None:
    """Refuse a stage name that cannot be used in an expression."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ConfigError(f"{where}: a stage's name must be letters, digits and _, got {name!r}")
    if iskeyword(name) or name in GUARDS:
        raise ConfigError(f"{where}: {name!r} is a reserved word; choose another name")


def _built(recipe: Recipe, name: str, tensors: Mapping[str, Tensor], types: Types) -> Stage:
    config = recipe.stages[name]
    try:
        return types[config.type].build({**config.settings, "name": name}, tensors)
    except ArtifactError as error:
        raise ArtifactError(f"{recipe.where(name)}: {error}") from error
    except (TypeError, KeyError, IndexError, ValueError, ArithmeticError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"{recipe.where(name)}: the stage cannot be built ({reason}); is it trained?"
        ) from error


def _config_of(stage: Stage, types: Types) -> StageConfig:
    kind = type_name(stage, types)
    if kind is None:
        raise ConfigError(
            f"stage {stage.title!r}: {type(stage).__name__} is not among the known types; pass types="
        )
    declared = {one.name for one in stage.declared()}
    return StageConfig(kind, {name: value for name, value in stage.settings().items() if name in declared})


def _with_names(stage: Stage) -> Stage:
    """The same pipeline, every leaf with its title as its name."""
    return (
        stage.map(lambda child: _with_names(_unnamed(child)))
        if stage.children()
        else stage.renewed(name=stage.title)
    )


def _unnamed(stage: Stage) -> Stage:
    if stage.name and stage.children():
        raise ConfigError(
            f"{stage.name!r}: only leaf stages have names in TOML; remove the name of {stage!r}"
        )
    return stage


def _check_use(used: list[str], stages: Mapping[str, StageConfig], path: str, text: str) -> None:
    for name in used:
        if name not in stages:
            at = _at(path, text, "", "pipeline")
            hint = did_you_mean(name, stages)
            raise ConfigError(f"{at}: stage {name!r} has no table [stages.{name}]{hint}")
    for name in stages:
        if name not in used:
            at = _at(path, text, f"stages.{name}")
            raise ConfigError(f"{at}: [stages.{name}] is not used in the pipeline; use it or remove it")


def _check_top(values: Mapping[str, Any], path: str, text: str) -> None:
    known = {"name": "text", "pipeline": "text", "stages": "table", "train": "table"}
    for key in [*values, *(key for key in known if key not in values)]:
        at = _at(path, text, key) if isinstance(values.get(key), dict) else _at(path, text, "", key)
        if key not in known:
            expected = f"expected one of {', '.join(sorted(known))}{did_you_mean(key, known)}"
            raise ConfigError(f"{at}: unknown key {key!r}; {expected}")
        if not isinstance(values.get(key), str if known[key] == "text" else dict):
            raise ConfigError(f"{at}: expected a {known[key]} {key!r}, got {values.get(key)!r}")


def _pairs(settings: Mapping[str, Any]) -> list[str]:
    return [f"{_key(name)} = {toml_value(value)}" for name, value in settings.items()]


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


def _text(text: str) -> str:
    """A text in TOML: one of several lines stays on several lines."""
    lines = [toml_value(line)[1:-1] for line in text.split("\n")]
    return toml_value(text) if len(lines) == 1 else '"""\n' + "\n".join(lines) + '"""'


def toml_value(value: object) -> str:
    """A plain value in TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + "".join(_ESCAPES.get(mark, mark) for mark in value) + '"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(_pairs(value))}}}"
    return repr(value)


_ESCAPES = {'"': '\\"', "\\": "\\\\", **{chr(code): f"\\u{code:04x}" for code in [*range(32), 127]}}
