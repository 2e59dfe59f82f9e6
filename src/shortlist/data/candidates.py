"""The one currency: what is still in the running for each request."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import torch
from torch import Tensor

RRF = 60.0  # reciprocal rank fusion: the usual offset, so that the first ranks do not drown the rest


@dataclass(frozen=True)
class Note:
    """Something a stage wants known of its work: a degradation, a count of scores that were no numbers."""

    stage: str
    what: str  # "degraded", "nonfinite", "repeats"
    detail: str = ""
    count: Tensor | None = None  # [B]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Items, scores and where they came from, every array [B, K]; only `valid` places count.

    `slot` is the place the item has had since the pool: it stays with the item through every stage, so that a trace
    can tell what became of it. `origin` says whose each slot was: the nominator that named the item first.
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
        """Candidates from item rows (negative = none) and their scores."""
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
        """The position of the nominator that named each item first [B, K]."""
        return self.origin[self.slot]

    def keep(self, mask: Tensor) -> "Candidates":
        """Say no to everything outside `mask` [B, K]; nothing can be brought back."""
        valid = self.valid & mask
        return Candidates(self.items, self.scores, valid, self.slot, self.origin, self.columns, self.notes)

    def score(self, scores: Tensor) -> "Candidates":
        """The same candidates with other scores [B, K]."""
        return Candidates(self.items, scores, self.valid, self.slot, self.origin, self.columns, self.notes)

    def nonfinite_last(self, stage: str) -> "Candidates":
        """The same candidates, scores that are no finite number below all others and counted in a note."""
        if math.isfinite(self.scores.sum()):  # one number tells whether a closer look is needed
            return self
        broken = ~torch.isfinite(self.scores) & self.valid
        if not bool(broken.any()):
            return self
        note = Note(stage, "nonfinite", "scores that are no finite number sink", broken.sum(1))
        return self.score(self.scores.masked_fill(broken, -torch.inf)).note(note)

    def add(self, columns: Mapping[str, Tensor]) -> "Candidates":
        """The same candidates with further columns, each [B, K]."""
        return replace(self, columns=Joined(self.columns, columns)) if columns else self

    def note(self, *notes: Note) -> "Candidates":
        """The same candidates with something said of them."""
        return replace(self, notes=self.notes + notes)

    def take(self, positions: Tensor) -> "Candidates":
        """The candidates at `positions` [B, k]; a negative position is an empty place."""
        taken = self._gathered(positions.clamp(min=0))
        return taken.keep(positions >= 0)

    def best(self, k: int) -> "Candidates":
        """The k best by score; equal scores keep their order, so that a slate is reproducible."""
        order = self.sort_keys().sort(dim=1, descending=True, stable=True).indices
        return self._gathered(order[:, :k])

    def sort_keys(self) -> Tensor:
        """Scores for ordering [B, K]: what is no finite number lies below all numbers, empty places below that."""
        low = torch.finfo(self.scores.dtype).min
        finite = torch.nan_to_num(self.scores, nan=low, posinf=low, neginf=low)
        return finite.masked_fill(~self.valid, -torch.inf)

    def _gathered(self, at: Tensor) -> "Candidates":
        """The candidates at places that exist [B, k]."""
        return Candidates(
            self.items.gather(1, at),
            self.scores.gather(1, at),
            self.valid.gather(1, at),
            self.slot.gather(1, at),
            self.origin,
            Taken(self.columns, at),
            self.notes,
        )


def merge(found: Sequence[Candidates], names: Sequence[str]) -> Candidates:
    """Pool what several nominators found, best first; a repeat stays with the first that named it.

    The columns `NAME.score` and `NAME.rank` (from 0) tell what each nominator thought, NaN where it was silent.
    The pooled score is the sum of 1 / (60 + rank): nominators' own scores share no scale.
    """
    items = torch.cat([part.items for part in found], dim=1)  # [B, K]
    valid = torch.cat([part.valid for part in found], dim=1)
    scores = torch.cat([part.scores for part in found], dim=1)
    source, place, rank, weight = _layout(tuple(part.shape[1] for part in found), items.device)  # [K] each
    first, leads = first_places(items, valid, source)  # [B, K]
    leads = leads & valid
    fused = torch.zeros_like(scores).scatter_add_(1, first, leads * weight)
    return Candidates(
        items,
        fused,
        valid & (first == place),
        place.expand(items.shape),
        source,
        _word_of_each(torch.where(leads, first, len(place)), source, rank, scores, names),
        tuple(note for part in found for note in part.notes),
    )


@lru_cache(maxsize=64)
def _nothing(count: int, device: torch.device) -> Candidates:
    items = torch.empty((count, 0), dtype=torch.int64, device=device)
    return Candidates.of(items, torch.empty((count, 0), device=device))


@lru_cache(maxsize=64)
def _layout(widths: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """For nominators of these widths side by side: whose each place is, its number, its rank, and what that weighs."""
    wide = torch.tensor(widths, device=device)
    source = torch.arange(len(widths), device=device).repeat_interleave(wide)
    place = torch.arange(len(source), device=device)
    rank = (place - (wide.cumsum(0) - wide)[source]).to(torch.float32)
    return source, place, rank, 1.0 / (RRF + rank)


def first_places(items: Tensor, valid: Tensor, source: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """For every place the first valid place of its row with the same item, and whether it leads its source [B, K].

    A place leads when no earlier place of the same `source` [K] holds its item; without sources, of the row.
    """
    width = items.shape[1]
    place = torch.arange(width, device=items.device).expand(items.shape)
    if width == 0:
        return place, valid
    keys = torch.where(valid, items, -1 - place)  # empty places match nothing
    ordered, order = keys.sort(dim=1, stable=True)
    fresh = torch.ones_like(valid)
    fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    head = torch.where(fresh, place, 0).cummax(dim=1).values  # where each run of equal items begins
    first = torch.empty_like(place).scatter_(1, order, order.gather(1, head))
    if source is None:
        return first, first == place
    turns = source[order]
    fresh[:, 1:] |= turns[:, 1:] != turns[:, :-1]
    return first, torch.empty_like(fresh).scatter_(1, order, fresh)


def _word_of_each(
    at: Tensor, source: Tensor, rank: Tensor, scores: Tensor, names: Sequence[str]
) -> dict[str, Tensor]:
    """Scores and ranks written at their places [B, K], a column per nominator; the place K swallows repeats."""
    count, width = scores.shape
    flat = source * (width + 1) + at
    empty = torch.full((count, len(names) * (width + 1)), torch.nan, device=scores.device)
    said = empty.scatter(1, flat, scores).view(count, len(names), width + 1)
    ranks = empty.scatter_(1, flat, rank.expand(scores.shape)).view(count, len(names), width + 1)
    columns = {f"{name}.score": said[:, number, :-1] for number, name in enumerate(names)}
    return columns | {f"{name}.rank": ranks[:, number, :-1] for number, name in enumerate(names)}


def repeats(positions: Tensor) -> Tensor:
    """Where a position stands for the second time in its row [B, k]; negative ones never do."""
    if positions.shape[1] > 64:
        return ~first_places(positions, positions >= 0)[1]
    # A short row is compared with itself faster than it is sorted.
    alike = (positions[:, :, None] == positions[:, None, :]).tril(-1).any(-1)
    return alike & (positions >= 0)


class Taken(Mapping[str, Tensor]):
    """Columns at chosen positions, gathered when they are asked for: most stages ask for few of them."""

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


class Joined(Mapping[str, Tensor]):
    """Columns with further ones laid over them, none of them gathered for it."""

    def __init__(self, under: Mapping[str, Tensor], over: Mapping[str, Tensor]) -> None:
        self._under, self._over = under, over

    def __getitem__(self, name: str) -> Tensor:
        return self._over[name] if name in self._over else self._under[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._over
        yield from (name for name in self._under if name not in self._over)

    def __len__(self) -> int:
        return sum(1 for _ in self)
