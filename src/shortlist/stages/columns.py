"""What the catalogue says of items, as numbers, values and tags that a ranker can read."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import Catalog
from shortlist.errors import ArtifactError, ConfigError

SKIPPED = ("title",)  # words for people
MOST_VALUES = 1023  # of a column of text; the rest are "another one"
MOST_TAGS = 1023  # of all lists together
WIDEST = 8  # tags of an item, the most frequent first
FAR = 10.0  # a number so many spreads off says no more than "far off"
HUGE = 1e100  # beyond it, squares are no numbers
BAR = "|"  # between the words of a list that is one text
NUMBERS = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)


@dataclass(frozen=True, eq=False)
class Columns:
    """Every item's columns by row: numbers scaled, values of texts as codes (0 = none or rare), tags (-1 = none)."""

    names: tuple[str, ...]  # of the columns that are read
    numbers: (
        Tensor  # float32 [N, F]: mean 0 and spread 1 over items that were met; a flag where some are missing
    )
    codes: Tensor  # int64 [N, C]
    tags: Tensor  # int64 [N, T]

    @classmethod
    def of(cls, catalog: Catalog, met: NDArray[np.bool_], only: Sequence[str] = ()) -> Self:
        """The columns of a catalogue; scales and values are those of items that were `met` [N] in training.

        Texts that are nearly all different (ids, links) say nothing and are left out, unless `only` names columns.
        """
        table = catalog.table
        if missing := [name for name in only if name not in table.column_names]:
            known = ", ".join(table.column_names) or "none"
            raise ConfigError(f"columns: {missing[0]!r} is no column of the catalogue; it has {known}")
        names = [name for name in only or table.column_names if only or name not in SKIPPED]
        read = {name: _read(table[name], met, bool(only)) for name in names}
        kept = {name: one for name, one in read.items() if one is not None}
        words = {name: one.words for name, one in kept.items() if one.words is not None}
        numbers = _beside([one.numbers for one in kept.values()], len(met), np.float32)
        codes = _beside([one.codes for one in kept.values()], len(met), np.int64)
        return cls(tuple(kept), *map(torch.from_numpy, (numbers, codes, _tags(words, met))))

    def tensors(self) -> dict[str, Tensor]:
        """What it is made of, by the names `build` knows."""
        return {"columns.numbers": self.numbers, "columns.codes": self.codes, "columns.tags": self.tags}

    @classmethod
    def build(cls, names: Sequence[str], tensors: Mapping[str, Tensor]) -> Self:
        """The columns back from their names and tensors."""
        try:
            made = cls(tuple(names), *(tensors[f"columns.{what}"] for what in ("numbers", "codes", "tags")))
        except KeyError as error:
            raise ArtifactError(f"columns: its tensors lack {error}; make the artifact again") from error
        if (
            any(one.dim() != 2 for one in made.tensors().values())
            or len({*map(len, made.tensors().values())}) > 1
        ):
            raise ArtifactError("columns: expected tables of one row per item; make the artifact again")
        if not made._sound():
            raise ArtifactError(
                "columns: expected numbers, codes from 0 and tags from -1; the artifact is damaged, make it again"
            )
        return made

    def _sound(self) -> bool:
        kinds = (self.numbers.dtype, self.codes.dtype, self.tags.dtype)
        whole = kinds == (torch.float32, torch.int64, torch.int64) and bool(self.numbers.isfinite().all())
        return whole and not bool((self.codes < 0).any() | (self.tags < -1).any())

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many codes each column of text has, 0 among them."""
        return (
            tuple(int(one) + 1 for one in self.codes.amax(0))
            if len(self.codes)
            else (1,) * self.codes.shape[1]
        )

    @cached_property
    def n_tags(self) -> int:
        """How many tags there are."""
        return int(self.tags.max()) + 1 if self.tags.numel() else 0

    def likeness(self, history: Tensor, rows: Tensor) -> Tensor:
        """How far candidates are like the history [B, K, C + 1]: by each text the share of the history with the same
        value, by tags the mean share of the history that has each of the candidate's."""
        there = (history >= 0) & (history < len(self.codes))  # [B, H]
        weight = there / there.sum(1, keepdim=True).clamp(min=1)
        past = history.masked_fill(~there, 0)
        alike = [
            _shares(codes[past], weight, size).gather(1, codes[rows])
            for codes, size in zip(self.codes.unbind(1), self.sizes, strict=True)
        ]
        return torch.stack([*alike, self._tagged(past, weight, rows)], dim=-1)

    def _tagged(self, past: Tensor, weight: Tensor, rows: Tensor) -> Tensor:
        if not self.n_tags:
            return torch.zeros(rows.shape)
        met = self.tags[past].flatten(1) + 1  # [B, H*T], 0 = none
        shares = _shares(met, weight.repeat_interleave(self.tags.shape[1], dim=1), self.n_tags + 1)
        own = self.tags[rows] + 1  # [B, K, T]
        told = shares.gather(1, own.flatten(1)).view(own.shape)
        return told.sum(-1) / (own > 0).sum(-1).clamp(min=1)


def _shares(codes: Tensor, weight: Tensor, size: int) -> Tensor:
    """The weight of each code [B, size]; code 0 is nothing, which nothing is like."""
    shares = torch.zeros(len(codes), size).scatter_add_(1, codes, weight)
    return shares.masked_fill(torch.arange(size)[None] == 0, 0.0)


@dataclass(frozen=True, eq=False)
class _Column:
    """A column as read: numbers [N, 1 or 2], or codes [N], or lists of words."""

    numbers: NDArray[np.float32] | None = None
    codes: NDArray[np.int64] | None = None
    words: list[list[str]] | None = None


def _beside(parts: Sequence[NDArray[Any] | None], count: int, kind: type[Any]) -> NDArray[Any]:
    """Columns side by side [N, any], also when there is none."""
    there = [one for one in parts if one is not None]
    return np.ascontiguousarray(np.column_stack([np.empty((count, 0)), *there]), dtype=kind)


def _read(column: pa.ChunkedArray, met: NDArray[np.bool_], asked: bool) -> _Column | None:
    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        if pa.types.is_floating(kind.value_type):
            return None  # a vector is no list of words
        told = [[str(one) for one in row or () if one is not None] for row in column.to_pylist()]
        return _words(told, met, asked)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        return _texts(["" if one is None else str(one) for one in column.to_pylist()], met, asked)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("s"), safe=False).cast(pa.int64())  # parts of a second do not count
    elif not any(is_kind(kind) for is_kind in NUMBERS):
        return None
    return _scaled(np.array([np.nan if one is None else one for one in column.to_pylist()], np.float64), met)


def _texts(values: list[str], met: NDArray[np.bool_], asked: bool) -> _Column | None:
    """Texts as codes by how frequent they are, or as words where bars stand between them."""
    if any(BAR in one for one in values):
        return _words([[word for word in one.split(BAR) if word] for one in values], met, asked)
    counts = Counter(one for one, there in zip(values, met, strict=True) if one and there)
    if not _tells(counts, asked):
        return None
    rows = _ranked({one: count for one, count in counts.items() if asked or count > 1}, MOST_VALUES)
    return _Column(codes=np.array([rows.get(one, -1) + 1 for one in values], np.int64))


def _words(rows: list[list[str]], met: NDArray[np.bool_], asked: bool) -> _Column | None:
    counts = Counter(word for row, there in zip(rows, met, strict=True) if there for word in set(row))
    return _Column(words=rows) if _tells(counts, asked) else None


def _tells(counts: Mapping[str, int], asked: bool) -> bool:
    """Whether texts say something: most of what items have is what others have, too, or somebody asked for them."""
    shared = sum(count for count in counts.values() if asked or count > 1)
    return bool(counts) and shared >= sum(counts.values()) / 2


def _scaled(values: NDArray[np.float64], met: NDArray[np.bool_]) -> _Column | None:
    """Numbers with mean 0 and spread 1, and a column of flags where some are missing."""
    there = np.isfinite(values)
    values = np.clip(values, -HUGE, HUGE)
    seen = values[there & met]
    if not len(seen):
        return None
    spread = seen.std() if np.ptp(seen) else 0.0  # rounding alone is no spread
    z = np.where(
        there, np.clip((np.where(there, values, 0.0) - seen.mean()) / (spread or 1.0), -FAR, FAR), 0.0
    )
    columns = ([z] if spread else []) + ([] if there.all() else [~there])
    return _Column(numbers=np.column_stack(columns).astype(np.float32)) if columns else None


def _tags(words: Mapping[str, list[list[str]]], met: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The words of all lists as tags [N, T], each item's most frequent ones."""
    counts = Counter(
        (name, word) for name, rows in words.items() for at in np.flatnonzero(met) for word in set(rows[at])
    )
    rows = _ranked(counts, MOST_TAGS)
    own = [
        sorted(
            {rows[name, word] for name, rows_ in words.items() for word in rows_[at] if (name, word) in rows}
        )
        for at in range(len(met) if rows else 0)
    ]
    tags = np.full((len(met), min(max(map(len, own), default=0), WIDEST)), -1, np.int64)
    for at, some in enumerate(own):
        tags[at, : len(some[:WIDEST])] = some[:WIDEST]
    return tags


def _ranked(counts: Mapping[Any, int], most: int) -> dict[Any, int]:
    """Things by their place among the most frequent; of equals the first in the alphabet."""
    order = sorted(counts, key=lambda one: (-counts[one], one))
    return {one: place for place, one in enumerate(order[:most])}
