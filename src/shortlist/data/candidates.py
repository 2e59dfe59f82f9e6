"""Candidates: the items that each request still considers, with scores and columns."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import torch
from torch import Tensor

RRF = 60.0  # offset of reciprocal rank fusion (Cormack et al., 2009)


@dataclass(frozen=True)
class Note:
    """A remark of a stage for the trace: a degradation, a count of non-finite scores."""

    stage: str
    what: str  # "degraded", "nonfinite", "repeats"
    detail: str = ""
    count: Tensor | None = None  # [B]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Items, scores and sources, every array [B, K]; only `valid` positions count.

    `slot` is the position of an item in the pool. It stays with the item through every stage, so a trace can follow the
    item. `origin` is the nominator of each slot: the first one that nominated the item.
    """

    items: Tensor  # int64
    scores: Tensor  # float32
    valid: Tensor  # bool
    slot: Tensor  # int64
    origin: Tensor  # int64 [slots], shared by all stages
    columns: Mapping[str, Tensor] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()

    @classmethod
    def of(cls, items: Tensor, scores: Tensor, columns: Mapping[str, Tensor] | None = None) -> "Candidates":
        """Candidates from item rows (negative = empty) and their scores."""
        count, width = items.shape
        slot = torch.arange(width, device=items.device)
        valid, origin = items >= 0, torch.zeros_like(slot)
        return cls(items, scores.to(torch.float32), valid, slot.expand(count, width), origin, columns or {})

    @classmethod
    def none(cls, count: int, device: torch.device | str = "cpu") -> "Candidates":
        """No candidates for `count` requests."""
        return _nothing(count, torch.device(device))

    @property
    def shape(self) -> tuple[int, int]:
        return self.items.shape[0], self.items.shape[1]

    @property
    def source(self) -> Tensor:
        """The index of the first nominator that nominated each item [B, K]."""
        return self.origin[self.slot]

    def keep(self, mask: Tensor) -> "Candidates":
        """Remove everything outside `mask` [B, K]; a removed candidate cannot come back."""
        valid = self.valid & mask
        return Candidates(self.items, self.scores, valid, self.slot, self.origin, self.columns, self.notes)

    def score(self, scores: Tensor) -> "Candidates":
        """The same candidates with other scores [B, K]."""
        return Candidates(self.items, scores, self.valid, self.slot, self.origin, self.columns, self.notes)

    def nonfinite_last(self, stage: str) -> "Candidates":
        """The same candidates with non-finite scores set to -inf and counted in a note."""
        if math.isfinite(self.scores.sum()):  # one sum shows whether any score can be non-finite
            return self
        broken = ~torch.isfinite(self.scores) & self.valid
        if not bool(broken.any()):
            return self
        note = Note(stage, "nonfinite", "non-finite scores are ranked last", broken.sum(1))
        return self.score(self.scores.masked_fill(broken, -torch.inf)).note(note)

    def add(self, columns: Mapping[str, Tensor]) -> "Candidates":
        """The same candidates with further columns, each [B, K]."""
        return replace(self, columns=JoinedColumns(self.columns, columns)) if columns else self

    def note(self, *notes: Note) -> "Candidates":
        """The same candidates with further notes."""
        return replace(self, notes=self.notes + notes)

    def take(self, positions: Tensor) -> "Candidates":
        """The candidates at `positions` [B, k]; a negative position is empty."""
        return self._gather(positions.clamp(min=0)).keep(positions >= 0)

    def best(self, k: int) -> "Candidates":
        """The k best by score; equal scores keep their order, so a slate is reproducible."""
        order = self.sort_keys().sort(dim=1, descending=True, stable=True).indices
        return self._gather(order[:, :k])

    def sort_keys(self) -> Tensor:
        """Scores for sorting [B, K]: non-finite scores below all finite ones, empty positions last."""
        low = torch.finfo(self.scores.dtype).min
        finite = torch.nan_to_num(self.scores, nan=low, posinf=low, neginf=low)
        return finite.masked_fill(~self.valid, -torch.inf)

    def _gather(self, at: Tensor) -> "Candidates":
        """The candidates at valid positions [B, k]."""
        return Candidates(
            self.items.gather(1, at),
            self.scores.gather(1, at),
            self.valid.gather(1, at),
            self.slot.gather(1, at),
            self.origin,
            GatheredColumns(self.columns, at),
            self.notes,
        )


def merge(found: Sequence[Candidates], names: Sequence[str]) -> Candidates:
    """Pool the candidates of several nominators; an item belongs to the first one that nominated it.

    The columns `NAME.score` and `NAME.rank` (from 0) hold each nominator's score and rank, NaN where it did not
    nominate the item. The pooled score is the sum of 1 / (60 + rank): scores of nominators have no common scale.
    """
    items = torch.cat([part.items for part in found], dim=1)  # [B, K]
    valid = torch.cat([part.valid for part in found], dim=1)
    scores = torch.cat([part.scores for part in found], dim=1)
    source, position, rank, weight = _layout(tuple(part.shape[1] for part in found), items.device)  # [K] each
    first, leads = first_positions(items, valid, source)  # [B, K]
    leads = leads & valid
    fused = torch.zeros_like(scores).scatter_add_(1, first, leads * weight)
    return Candidates(
        items,
        fused,
        valid & (first == position),
        position.expand(items.shape),
        source,
        _nominator_columns(torch.where(leads, first, len(position)), source, rank, scores, names),
        tuple(note for part in found for note in part.notes),
    )


@lru_cache(maxsize=64)
def _nothing(count: int, device: torch.device) -> Candidates:
    items = torch.empty((count, 0), dtype=torch.int64, device=device)
    return Candidates.of(items, torch.empty((count, 0), device=device))


@lru_cache(maxsize=64)
def _layout(widths: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Source, position, rank and RRF weight of each position, for nominators of these widths side by side."""
    wide = torch.tensor(widths, device=device)
    source = torch.arange(len(widths), device=device).repeat_interleave(wide)
    position = torch.arange(len(source), device=device)
    rank = (position - (wide.cumsum(0) - wide)[source]).to(torch.float32)
    return source, position, rank, 1.0 / (RRF + rank)


def first_positions(items: Tensor, valid: Tensor, source: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """For every position: the first valid position of its row with the same item, and whether it leads [B, K].

    A position leads if no earlier position of the same `source` [K] holds its item; without sources, of the row.
    """
    width = items.shape[1]
    position = torch.arange(width, device=items.device).expand(items.shape)
    if width == 0:
        return position, valid
    keys = torch.where(valid, items, -1 - position)  # empty positions match nothing
    ordered, order = keys.sort(dim=1, stable=True)
    starts = torch.ones_like(valid)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    head = torch.where(starts, position, 0).cummax(dim=1).values  # first position of each run of equal items
    first = torch.empty_like(position).scatter_(1, order, order.gather(1, head))
    if source is None:
        return first, first == position
    sources = source[order]
    starts[:, 1:] |= sources[:, 1:] != sources[:, :-1]
    return first, torch.empty_like(starts).scatter_(1, order, starts)


def _nominator_columns(
    at: Tensor, source: Tensor, rank: Tensor, scores: Tensor, names: Sequence[str]
) -> dict[str, Tensor]:
    """Scores and ranks of each nominator as columns [B, K]; position K collects repeats and is cut off."""
    count, width = scores.shape
    flat = source * (width + 1) + at
    empty = torch.full((count, len(names) * (width + 1)), torch.nan, device=scores.device)
    own = empty.scatter(1, flat, scores).view(count, len(names), width + 1)
    ranks = empty.scatter_(1, flat, rank.expand(scores.shape)).view(count, len(names), width + 1)
    columns = {f"{name}.score": own[:, number, :-1] for number, name in enumerate(names)}
    return columns | {f"{name}.rank": ranks[:, number, :-1] for number, name in enumerate(names)}


def repeats(positions: Tensor) -> Tensor:
    """Mask of positions that occur earlier in their row [B, k]; negative ones never count."""
    if positions.shape[1] > 64:
        return ~first_positions(positions, positions >= 0)[1]
    # For short rows, comparing all pairs is faster than sorting.
    repeated = (positions[:, :, None] == positions[:, None, :]).tril(-1).any(-1)
    return repeated & (positions >= 0)


class GatheredColumns(Mapping[str, Tensor]):
    """Columns at chosen positions, gathered on first access: most stages read few of them."""

    def __init__(self, columns: Mapping[str, Tensor], at: Tensor) -> None:
        self._columns, self._at = columns, at
        self._gathered: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._gathered:
            self._gathered[name] = self._columns[name].gather(1, self._at)
        return self._gathered[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


class JoinedColumns(Mapping[str, Tensor]):
    """Columns with further ones on top; joining does not gather any column."""

    def __init__(self, under: Mapping[str, Tensor], over: Mapping[str, Tensor]) -> None:
        self._under, self._over = under, over

    def __getitem__(self, name: str) -> Tensor:
        return self._over[name] if name in self._over else self._under[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._over
        yield from (name for name in self._under if name not in self._over)

    def __len__(self) -> int:
        return sum(1 for _ in self)
