"""The settings a dataclass takes, and whether what a file says fits them."""

from collections.abc import Mapping
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from shortlist.errors import ConfigError


def check_settings(settings: Mapping[str, Any], allowed: Mapping[str, Any], where: str) -> None:
    """Refuse settings that do not exist or have another type than `allowed` (name -> type) says."""
    for name, value in settings.items():
        if name not in allowed:
            raise ConfigError(
                f"{where}: unknown key {name!r}; expected one of {', '.join(sorted(allowed)) or 'none'}"
            )
        if not _fits(value, allowed[name]):
            raise ConfigError(f"{where}: {name} must be {_spoken(allowed[name])}, got {value!r}")


def plain_fields(kind: type[Any]) -> dict[str, Any]:
    """The settings a dataclass takes: name -> type."""
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind) if f.init and _is_plain(hints[f.name])}


def _is_plain(hint: Any) -> bool:
    if get_origin(hint) in (tuple, list, UnionType, Union):
        return all(_is_plain(one) for one in get_args(hint) if one is not Ellipsis)
    return hint in (str, int, float, bool, NoneType)


def _fits(value: object, hint: Any) -> bool:
    if get_origin(hint) in (tuple, list):
        return isinstance(value, list | tuple) and all(_fits(one, get_args(hint)[0]) for one in value)
    if get_origin(hint) in (UnionType, Union):
        return any(_fits(value, one) for one in get_args(hint))
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, hint) and (hint is bool or not isinstance(value, bool))


def _spoken(hint: Any) -> str:
    if get_origin(hint) in (tuple, list):
        return f"a list of {_spoken(get_args(hint)[0])}"
    if get_origin(hint) in (UnionType, Union):
        return " or ".join(_spoken(one) for one in get_args(hint) if one is not NoneType)
    return {str: "text", int: "a whole number", float: "a number", bool: "true or false"}.get(hint, str(hint))
