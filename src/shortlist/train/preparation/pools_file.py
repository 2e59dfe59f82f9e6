"""Item pools in a file: a line of JSON for each nominator."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shortlist.data import Vocabulary
from shortlist.errors import ConfigError, DataError, did_you_mean
from shortlist.nominate.pools import Bools, Pools

EXAMPLE = '{"nominator": "towers", "items": ["a", "b"]}'


def read_pool(path: Path, nominator: str, items: Vocabulary) -> tuple[Bools, int]:
    """The items in the pool of a nominator [N], and how many of its items are not among `items`."""
    if not path.is_file():
        raise ConfigError(
            f"pools: expected a file or a stage of the recipe, found no file {path}; write a line for each nominator: "
            f"{EXAMPLE}"
        )
    found: dict[str, tuple[int, list[Any]]] = {}
    for number, line in enumerate(_text(path).splitlines(), start=1):
        if line.strip():
            where = f"{path}:{number}"
            name, ids = _line(line, where)
            if name in found:
                raise DataError(
                    f"{where}: {name!r} has a pool in line {found[name][0]} already; keep one of both"
                )
            found[name] = (number, ids)
    if nominator not in found:
        raise DataError(
            f"{path}: expected a line for the nominator {nominator!r}, got {', '.join(found) or 'none'}"
            f"{did_you_mean(nominator, found)}; add {json.dumps({'nominator': nominator, 'items': ['ITEM']})}"
        )
    line_number, ids = found[nominator]
    return _rows(ids, items, f"{path}:{line_number}")


def write_pools(path: Path, pools: Pools, nominators: Sequence[str], items: Vocabulary) -> None:
    """A file that `read_pool` reads, from pools of rows of `items` and the names of their nominators."""
    if len(nominators) != pools.n_nominators:
        raise ConfigError(
            f"pools: expected a name for each of {pools.n_nominators} nominators, got {len(nominators)}"
        )
    rows = map(np.flatnonzero, pools.matrix)
    lines = [
        json.dumps({"nominator": name, "items": items.ids_of(own)})
        for name, own in zip(nominators, rows, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: expected text in UTF-8, got other bytes ({error}); save it as UTF-8"
        ) from error


def _line(line: str, where: str) -> tuple[str, list[Any]]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{where}: expected JSON such as {EXAMPLE}, got {line[:60]!r} ({error})") from error
    name, ids = (value.get("nominator"), value.get("items")) if isinstance(value, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(ids, list) or not ids:
        raise DataError(
            f"{where}: expected a nominator and at least one item, such as {EXAMPLE}, got {line[:60]!r}"
        )
    return name, ids


def _rows(ids: list[Any], items: Vocabulary, where: str) -> tuple[Bools, int]:
    kinds = {type(one) for one in ids}
    if not kinds <= {int, str}:
        raise DataError(f"{where}: expected item ids as text or whole numbers, got {ids[0]!r} among them")
    rows = items.rows(ids)
    known = rows[rows >= 0]
    if not len(known):
        raise DataError(
            f"{where}: none of {len(ids)} items is in the catalogue, the first is {ids[0]!r}; the file belongs to "
            "other data, or its ids have another type"
        )
    mask = np.zeros(len(items), np.bool_)
    mask[known] = True
    return mask, len(rows) - len(known)
