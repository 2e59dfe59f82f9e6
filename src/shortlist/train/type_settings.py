"""All settings of every stage type, for `shortlist settings` and for the tables of the docs.

`python -m shortlist.train.type_settings docs/guide/models.md` rewrites the tables of a page between the markers
`<!-- settings:sasrec -->` and `<!-- /settings -->`. `settings:sasrec:model` selects one part: stage, model or trainer.
"""

import re
import sys
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

from shortlist.errors import ConfigError, did_you_mean
from shortlist.models.registry import MODELS
from shortlist.pipeline.plugins import add_entry_points, add_plugin_type
from shortlist.pipeline.registry import REPLACED, TYPES
from shortlist.settings import Setting, settings_of
from shortlist.train.registry import train_settings

MARKED = re.compile(r"(<!-- settings:([\w-]+)(?::(\w+))? -->\n).*?(<!-- /settings -->)", re.DOTALL)


@dataclass(frozen=True)
class TypeSetting:
    """One setting of a stage type."""

    name: str
    table: str  # "[stages.NAME]" or "[stages.NAME.train]"
    part: str  # "stage", "model" or "trainer": whose setting it is
    type: str
    default: Any  # None also where no default exists
    required: bool
    least: float | None
    most: float | None
    choices: tuple[str, ...]
    range: str
    meaning: str


@dataclass(frozen=True)
class TypeSettings:
    """A stage type of recipes with all its settings."""

    type: str
    kind: str  # nominator, filter, hydrator, scorer or selector
    meaning: str
    settings: tuple[TypeSetting, ...]


def describe_types() -> tuple[TypeSettings, ...]:
    """All stage types with their settings, those of installed packages too, in the order of the table of types."""
    add_entry_points()
    return tuple(describe_type(name) for name in TYPES)


def describe_type(name: str) -> TypeSettings:
    """One stage type with its settings; ConfigError with similar names for an unknown one.

    "package.module:Class" imports the module.
    """
    add_plugin_type(name, f"type {name!r}", imports=True)
    if name not in TYPES:
        raise ConfigError(f"unknown type {name!r}{_hint(name) or '; `shortlist settings` lists all types'}")
    kind = TYPES[name]
    sizes = {one.name for one in settings_of(MODELS[name].Config)} if name in MODELS else set()
    stage = [_described(one, "[stages.NAME]", "stage") for one in kind.declared()]
    train = [
        _described(one, "[stages.NAME.train]", "model" if one.name in sizes else "trainer")
        for one in train_settings(name)
    ]
    return TypeSettings(name, kind.kind, _meaning(MODELS.get(name, kind)), (*stage, *train))


def markdown_table(name: str, part: str = "") -> str:
    """The settings of a type, or of one part of it, as a Markdown table."""
    rows = [one for one in describe_type(name).settings if part in ("", one.part)]
    lines = ["| setting | default | range | meaning |", "|---|---|---|---|"]
    lines += [f"| `{one.name}` | {_code(one)} | {one.range} | {one.meaning} |" for one in rows]
    return "\n".join(lines) + "\n"


def with_tables(text: str) -> str:
    """A Markdown page with its marked tables generated again."""
    return MARKED.sub(lambda found: found[1] + markdown_table(found[2], found[3] or "") + found[4], text)


def shown(value: Any) -> str:
    """A value as it is written in TOML; empty for none."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(shown(element) for element in value)}]"
    return (
        f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)
    )


def _described(one: Setting, table: str, part: str) -> TypeSetting:
    default = None if one.default is MISSING else one.default
    facts = (one.least, one.most, one.choices, one.range, one.meaning)
    return TypeSetting(one.name, table, part, one.type_name, default, one.required, *facts)


def _meaning(kind: type[Any]) -> str:
    """The first sentence of a docstring."""
    first = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
    return first.split(". ")[0].rstrip(".") + "."


def _hint(name: str) -> str:
    if name in REPLACED:
        return f", which was replaced by {REPLACED[name]}"
    return did_you_mean(name, TYPES)


def _code(one: TypeSetting) -> str:
    text = shown(one.default)
    return "required" if one.required else f"`{text}`" if text else ""


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:]):
        page.write_text(with_tables(page.read_text("utf-8")), "utf-8")
