"""The trace of a run: how many candidates entered every stage and were kept, removed or cut. Nothing vanishes."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from shortlist.data import Candidates, Note, Query
from shortlist.errors import ConservationError

RETURNED = -1
EMPTY = -2


@dataclass(frozen=True, eq=False)
class Part:
    """The candidates of one nominator of the pool."""

    name: str
    ms: float
    nominated: Candidates

    @property
    def count(self) -> Tensor:
        """Number of nominated items [B]."""
        return self.nominated.valid.sum(1)


@dataclass(frozen=True, eq=False)
class Step:
    """The candidates `before` a stage, scored or filtered but `before_cut`, and `after` its cut."""

    name: str
    kind: str
    ms: float
    before: Candidates
    before_cut: Candidates
    after: Candidates
    notes: tuple[Note, ...] = ()
    parts: tuple[Part, ...] = ()

    @property
    def entered(self) -> Tensor:
        """Number of candidates before the stage [B]; for the pool, of distinct nominated items."""
        return (self.before_cut if self.parts else self.before).valid.sum(1)

    @property
    def kept(self) -> Tensor:
        """Number of candidates after the stage [B]."""
        return self.after.valid.sum(1)

    @property
    def removed(self) -> Tensor:
        """Number of candidates removed by a filter [B]."""
        return self.entered - self.before_cut.valid.sum(1)

    @property
    def cut(self) -> Tensor:
        """Number of candidates that passed but were not among the best k [B]."""
        return self.before_cut.valid.sum(1) - self.kept

    @property
    def threshold(self) -> Tensor:
        """The lowest score that was kept [B], +inf where nothing was."""
        scores = self.after.scores.masked_fill(~self.after.valid, torch.inf)
        return scores.amin(1) if scores.shape[1] else scores.new_full((len(scores),), torch.inf)


@dataclass(frozen=True)
class StageCounts:
    """The funnel of one request at one stage: entered = kept + removed + cut."""

    name: str
    kind: str
    entered: int
    kept: int
    removed: int
    cut: int
    ms: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Trace:
    """The steps of a run; the path of every candidate can be computed from them."""

    steps: tuple[Step, ...]
    query: Query

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(step.name for step in self.steps)

    @property
    def nominated(self) -> Candidates:
        """All nominated candidates, each item once [B, K0]."""
        return self.steps[0].before_cut

    @cached_property
    def fate(self) -> Tensor:
        """The step at which every candidate left, -1 if it was returned, -2 for an empty place [B, K0]."""
        fate = torch.full(self.nominated.items.shape, EMPTY, device=self.nominated.items.device)
        alive = self.nominated.valid
        for number, step in enumerate(self.steps):
            kept = self._present(step.after)
            fate = torch.where(alive & ~kept, number, fate)
            alive = alive & kept
        return torch.where(alive, RETURNED, fate)

    @cached_property
    def removed_by_filter(self) -> Tensor:
        """Whether a candidate was removed by a filter and not by a cut [B, K0]."""
        removed = torch.zeros_like(self.nominated.valid)
        for number, step in enumerate(self.steps):
            removed |= (self.fate == number) & ~self._present(step.before_cut)
        return removed

    def scores(self, number: int) -> Tensor:
        """The score of every nominated candidate at a step, NaN where it had left [B, K0]."""
        found = self.steps[number].before_cut
        return self._placed(found, found.scores, torch.nan)

    def ranks(self, number: int) -> Tensor:
        """The rank from 1 of every nominated candidate at a step before its cut, 0 where absent [B, K0]."""
        found = self.steps[number].before_cut
        order = found.sort_keys().argsort(dim=1, descending=True, stable=True)
        return self._placed(found, order.argsort(dim=1) + 1, 0)

    def check(self) -> "Trace":
        """Raise unless nominated = returned + cut + removed, disjoint and without repeats."""
        given = self.nominated
        _check_unique(self.steps[0].name, given)
        for step in self.steps:
            for found in (step.before_cut, step.after):
                if found.items is not given.items:  # the same items with fewer valid ones have no new repeats
                    _check_unique(step.name, found)
                if found is not given:
                    self._check_given(step.name, found, given)
                given = found
        left = sum(step.removed + step.cut for step in self.steps)
        if not bool((self.nominated.valid.sum(1) == self.steps[-1].kept + left).all()):
            raise ConservationError("nominated candidates are not returned + cut + removed")
        return self

    @property
    def degraded(self) -> tuple[Note, ...]:
        """Notes of stages that failed or were late and were skipped."""
        return tuple(note for step in self.steps for note in step.notes if note.what == "degraded")

    def counts(self, row: int = 0) -> tuple[StageCounts, ...]:
        """The funnel of one request, stage by stage."""
        return tuple(
            StageCounts(
                step.name,
                step.kind,
                entered=int(step.entered[row]),
                kept=int(step.kept[row]),
                removed=int(step.removed[row]),
                cut=int(step.cut[row]),
                ms=round(step.ms, 3),
                notes=tuple(note.what for note in step.notes if note.count is None or int(note.count[row])),
            )
            for step in self.steps
        )

    def __str__(self) -> str:
        lines = [f"{'stage':<16}{'kind':<11}{'in':>7}{'kept':>7}{'removed':>9}{'cut':>7}{'ms':>9}"]
        for step in self.steps:
            counts = (step.entered, step.kept, step.removed, step.cut)
            shown = [f"{count.sum().item() / max(len(self.query), 1):g}" for count in counts]
            lines.append(
                f"{step.name:<16}{step.kind:<11}{shown[0]:>7}{shown[1]:>7}{shown[2]:>9}{shown[3]:>7}{step.ms:>9.2f}"
            )
            shares = [(part.name, part.count.sum().item() / max(len(self.query), 1)) for part in step.parts]
            lines += [f"  {name:<14}nominated {share:g}" for name, share in shares]
            lines += [f"  {note.stage}: {note.what}: {note.detail}" for note in step.notes]
        return "\n".join(lines)

    def _present(self, found: Candidates) -> Tensor:
        """Which nominated candidates are still among `found` [B, K0]."""
        return self._placed(found, found.valid, False)

    def _placed(self, found: Candidates, values: Tensor, otherwise: float) -> Tensor:
        """Values of `found` [B, K] in the order of the nominated candidates [B, K0]."""
        count, width = self.nominated.shape
        # Empty places write into an extra column, which is dropped.
        at = found.slot.masked_fill(~found.valid, width)
        return values.new_full((count, width + 1), otherwise).scatter(1, at, values)[:, :-1]

    def _check_given(self, name: str, found: Candidates, given: Candidates) -> None:
        """Raise unless every candidate was among `given`, with the slot it got in the pool."""
        renamed = found.valid & (self._placed(given, given.items, -1).gather(1, found.slot) != found.items)
        if bool(renamed.any()):
            raise ConservationError(f"{name}: returned candidates that it was not given")


def _check_unique(name: str, found: Candidates) -> None:
    places = -1 - torch.arange(found.shape[1], device=found.items.device)
    ordered = torch.where(found.valid, found.items, places).sort(1).values
    if bool((ordered[:, 1:] == ordered[:, :-1]).any()):
        raise ConservationError(f"{name}: returned the same item twice")
