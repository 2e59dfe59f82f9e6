"""Columns of the catalogue as features of a ranker: scaled numbers, codes of text values, tags."""

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
from shortlist.data.catalog import is_list, is_text
from shortlist.errors import ArtifactError, ConfigError

SKIPPED = ("title",)  # free text
MAX_VALUES = 1023  # of a text column; the rest share code 0
MAX_TAGS = 1023  # of all list columns together
MAX_TAGS_PER_ITEM = 8  # the most frequent ones
MAX_MULTI_HOT = 64  # the most frequent tags that are features of their own
CLIP = 10.0  # largest scaled number, in standard deviations
HUGE = 1e100  # larger numbers are clipped, so that squares do not overflow
NUMBERS = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)


@dataclass(frozen=True, eq=False)
class CatalogColumns:
    """Every item's columns by row: scaled numbers, codes of text values (0 = none or rare), tags (-1 = none)."""

    names: tuple[str, ...]  # of the columns that are used
    numbers: Tensor  # float32 [N, F]: mean 0 and std 1 over trained items; a flag where some are missing
    codes: Tensor  # int64 [N, C]
    tags: Tensor  # int64 [N, T]

    @classmethod
    def of(cls, catalog: Catalog, trained: NDArray[np.bool_], only: Sequence[str] = ()) -> Self:
        """The columns of a catalogue, scaled and coded by the items that occur in training (`trained` [N]).

        Text columns whose values are nearly all different (ids, links) are left out, unless `only` names them.
        """
        table = catalog.table
        if missing := [name for name in only if name not in table.column_names]:
            known = ", ".join(table.column_names) or "none"
            raise ConfigError(f"columns: {missing[0]!r} is not a column of the catalogue; it has {known}")
        names = [name for name in only or table.column_names if only or name not in SKIPPED]
        read = {name: _read(table[name], trained, bool(only)) for name in names}
        kept = {name: one for name, one in read.items() if one is not None}
        tags = {name: one.tags for name, one in kept.items() if one.tags is not None}
        numbers = _stacked([one.numbers for one in kept.values()], len(trained), np.float32)
        codes = _stacked([one.codes for one in kept.values()], len(trained), np.int64)
        return cls(tuple(kept), *map(torch.from_numpy, (numbers, codes, _tag_rows(tags, trained))))

    def tensors(self) -> dict[str, Tensor]:
        """Its tensors, by the names that `build` expects."""
        return {"columns.numbers": self.numbers, "columns.codes": self.codes, "columns.tags": self.tags}

    @classmethod
    def build(cls, names: Sequence[str], tensors: Mapping[str, Tensor]) -> Self:
        """Rebuild the columns from their names and tensors."""
        try:
            made = cls(tuple(names), *(tensors[f"columns.{what}"] for what in ("numbers", "codes", "tags")))
        except KeyError as error:
            raise ArtifactError(f"columns: tensor {error} is missing; make the artifact again") from error
        if (
            any(one.dim() != 2 for one in made.tensors().values())
            or len({*map(len, made.tensors().values())}) > 1
        ):
            raise ArtifactError("columns: expected tables of one row per item; make the artifact again")
        if not made._valid():
            raise ArtifactError(
                "columns: expected numbers, codes from 0 and tags from -1; the artifact is damaged, make it again"
            )
        return made

    def _valid(self) -> bool:
        kinds = (self.numbers.dtype, self.codes.dtype, self.tags.dtype)
        whole = kinds == (torch.float32, torch.int64, torch.int64) and bool(self.numbers.isfinite().all())
        return whole and not bool((self.codes < 0).any() | (self.tags < -1).any())

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of codes of each text column, code 0 included."""
        return (
            tuple(int(one) + 1 for one in self.codes.amax(0))
            if len(self.codes)
            else (1,) * self.codes.shape[1]
        )

    @cached_property
    def n_tags(self) -> int:
        """The number of tags."""
        return int(self.tags.max()) + 1 if self.tags.numel() else 0

    @cached_property
    def multi_hot(self) -> Tensor:
        """1 where an item has a tag, for the most frequent tags, float32 [N, M]."""
        count = min(self.n_tags, MAX_MULTI_HOT)
        places = torch.where(self.tags < count, self.tags + 1, 0)  # 0 = none or rare
        return torch.zeros(len(self.tags), count + 1).scatter_(1, places, 1.0)[:, 1:]

    def match(self, history: Tensor, rows: Tensor) -> Tensor:
        """How well candidates match the history [B, K, C + 1]: for each text column the share of the history with the
        same value, for tags the mean share of the history over the candidate's tags."""
        known = (history >= 0) & (history < len(self.codes))  # [B, H]
        weight = known / known.sum(1, keepdim=True).clamp(min=1)
        past = history.masked_fill(~known, 0)
        same = [
            _shares(codes[past], weight, size).gather(1, codes[rows])
            for codes, size in zip(self.codes.unbind(1), self.sizes, strict=True)
        ]
        return torch.stack([*same, self._tag_match(past, weight, rows)], dim=-1)

    def _tag_match(self, past: Tensor, weight: Tensor, rows: Tensor) -> Tensor:
        if not self.n_tags:
            return torch.zeros(rows.shape)
        tags = self.tags[past].flatten(1) + 1  # [B, H*T], 0 = none
        shares = _shares(tags, weight.repeat_interleave(self.tags.shape[1], dim=1), self.n_tags + 1)
        own = self.tags[rows] + 1  # [B, K, T]
        matched = shares.gather(1, own.flatten(1)).view(own.shape)
        return matched.sum(-1) / (own > 0).sum(-1).clamp(min=1)


def _shares(codes: Tensor, weight: Tensor, size: int) -> Tensor:
    """The total weight of each code [B, size]; code 0 (no value) matches nothing."""
    shares = torch.zeros(len(codes), size).scatter_add_(1, codes, weight)
    return shares.masked_fill(torch.arange(size)[None] == 0, 0.0)


@dataclass(frozen=True, eq=False)
class _Column:
    """A parsed column: numbers [N, 1 or 2], or codes [N], or tags per item."""

    numbers: NDArray[np.float32] | None = None
    codes: NDArray[np.int64] | None = None
    tags: list[list[str]] | None = None


def _stacked(parts: Sequence[NDArray[Any] | None], count: int, kind: type[Any]) -> NDArray[Any]:
    """Columns side by side [N, any], also when there is none."""
    present = [one for one in parts if one is not None]
    return np.ascontiguousarray(np.column_stack([np.empty((count, 0)), *present]), dtype=kind)


def _read(column: pa.ChunkedArray, trained: NDArray[np.bool_], requested: bool) -> _Column | None:
    kind = column.type
    if is_list(kind):
        if pa.types.is_floating(kind.value_type):
            return None  # a vector, not tags
        rows = [[str(one) for one in row or () if one is not None] for row in column.to_pylist()]
        return _tags(rows, trained, requested)
    if is_text(kind) or pa.types.is_dictionary(kind):
        return _texts(["" if one is None else str(one) for one in column.to_pylist()], trained, requested)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("s"), safe=False).cast(pa.int64())  # whole seconds
    elif not any(is_kind(kind) for is_kind in NUMBERS):
        return None
    return _scaled(
        np.array([np.nan if one is None else one for one in column.to_pylist()], np.float64), trained
    )


def _texts(values: list[str], trained: NDArray[np.bool_], requested: bool) -> _Column | None:
    """Texts as codes by descending frequency."""
    counts = Counter(one for one, counted in zip(values, trained, strict=True) if one and counted)
    if not _is_informative(counts, requested):
        return None
    rows = _by_frequency({one: count for one, count in counts.items() if requested or count > 1}, MAX_VALUES)
    return _Column(codes=np.array([rows.get(one, -1) + 1 for one in values], np.int64))


def _tags(rows: list[list[str]], trained: NDArray[np.bool_], requested: bool) -> _Column | None:
    counts = Counter(tag for row, counted in zip(rows, trained, strict=True) if counted for tag in set(row))
    return _Column(tags=rows) if _is_informative(counts, requested) else None


def _is_informative(counts: Mapping[str, int], requested: bool) -> bool:
    """Whether most values are shared by several items, or the column was requested."""
    shared = sum(count for count in counts.values() if requested or count > 1)
    return bool(counts) and shared >= sum(counts.values()) / 2


def _scaled(values: NDArray[np.float64], trained: NDArray[np.bool_]) -> _Column | None:
    """Numbers with mean 0 and std 1, and a column of flags where some are missing."""
    present = np.isfinite(values)
    values = np.clip(values, -HUGE, HUGE)
    sample = values[present & trained]
    if not len(sample):
        return None
    std = sample.std() if np.ptp(sample) else 0.0  # equal numbers have a std above 0 by rounding
    z = (np.where(present, values, 0.0) - sample.mean()) / (std or 1.0)
    z = np.where(present, np.clip(z, -CLIP, CLIP), 0.0)
    columns = ([z] if std else []) + ([] if present.all() else [~present])
    return _Column(numbers=np.column_stack(columns).astype(np.float32)) if columns else None


def _tag_rows(tags: Mapping[str, list[list[str]]], trained: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The tags of all list columns [N, T], the most frequent ones of each item."""
    items = np.flatnonzero(trained)
    counts = Counter(
        (name, tag) for name, lists in tags.items() for item in items for tag in set(lists[item])
    )
    rows = _by_frequency(counts, MAX_TAGS)
    own = [
        sorted(
            {rows[name, tag] for name, lists in tags.items() for tag in lists[item] if (name, tag) in rows}
        )
        for item in range(len(trained) if rows else 0)
    ]
    width = min(max(map(len, own), default=0), MAX_TAGS_PER_ITEM)
    table = np.full((len(trained), width), -1, np.int64)
    for item, found in enumerate(own):
        table[item, : len(found[:width])] = found[:width]
    return table


def _by_frequency(counts: Mapping[Any, int], most: int) -> dict[Any, int]:
    """Positions of the most frequent keys; ties in alphabetical order."""
    order = sorted(counts, key=lambda one: (-counts[one], one))
    return {one: place for place, one in enumerate(order[:most])}
