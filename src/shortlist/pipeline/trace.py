"""The account of a run: what every stage was given, kept, removed or cut. Nothing vanishes."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from shortlist.data import Candidates, Note, Query
from shortlist.errors import ConservationError

RETURNED = -1
NEVER = -2


@dataclass(frozen=True, eq=False)
class Part:
    """One nominator's share of the pool."""

    name: str
    ms: float
    named: Candidates

    @property
    def count(self) -> Tensor:
        """How many items it named [B]."""
        return self.named.valid.sum(1)


@dataclass(frozen=True, eq=False)
class Step:
    """One stage at work: `before` it, as it `judged` (scored, filtered), and `after` its cut."""

    name: str
    kind: str
    ms: float
    before: Candidates
    judged: Candidates
    after: Candidates
    notes: tuple[Note, ...] = ()
    parts: tuple[Part, ...] = ()

    @property
    def entered(self) -> Tensor:
        """How many candidates came in [B]; for the pool, how many distinct ones were named."""
        return (self.judged if self.parts else self.before).valid.sum(1)

    @property
    def kept(self) -> Tensor:
        """How many went on [B]."""
        return self.after.valid.sum(1)

    @property
    def removed(self) -> Tensor:
        """How many were said no to [B]."""
        return self.entered - self.judged.valid.sum(1)

    @property
    def cut(self) -> Tensor:
        """How many were allowed but not among the best [B]."""
        return self.judged.valid.sum(1) - self.kept

    @property
    def threshold(self) -> Tensor:
        """The lowest score that went on [B], +inf where nothing did."""
        scores = self.after.scores.masked_fill(~self.after.valid, torch.inf)
        return scores.amin(1) if scores.shape[1] else scores.new_full((len(scores),), torch.inf)


@dataclass(frozen=True, eq=False)
class Trace:
    """The steps of a run; every candidate's way can be told from them."""

    steps: tuple[Step, ...]
    query: Query

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(step.name for step in self.steps)

    @property
    def named(self) -> Candidates:
        """Everything that was nominated, each item once [B, K0]."""
        return self.steps[0].judged

    @cached_property
    def fate(self) -> Tensor:
        """For every nominated place the step it left at, -1 when returned, -2 when it held nothing [B, K0]."""
        fate = torch.full(self.named.items.shape, NEVER, device=self.named.items.device)
        alive = self.named.valid
        for number, step in enumerate(self.steps):
            stays = self._present(step.after)
            fate = torch.where(alive & ~stays, number, fate)
            alive = alive & stays
        return torch.where(alive, RETURNED, fate)

    @cached_property
    def removed_by_filter(self) -> Tensor:
        """Whether a candidate left because a stage said no, and not because of a cut [B, K0]."""
        removed = torch.zeros_like(self.named.valid)
        for number, step in enumerate(self.steps):
            removed |= (self.fate == number) & ~self._present(step.judged)
        return removed

    def scores(self, number: int) -> Tensor:
        """What every nominated candidate scored at a step, NaN where it was not there any more [B, K0]."""
        judged = self.steps[number].judged
        return self._placed(judged, judged.scores, torch.nan)

    def ranks(self, number: int) -> Tensor:
        """The rank, from 1, of every nominated candidate among those judged at a step, 0 where absent [B, K0]."""
        judged = self.steps[number].judged
        order = judged.sort_keys().argsort(dim=1, descending=True, stable=True)
        return self._placed(judged, order.argsort(dim=1) + 1, 0)

    def check(self) -> "Trace":
        """Raise unless nominated = returned + cut + removed, disjoint and without repeats."""
        given = self.named
        for step in self.steps:
            for found in (step.judged, step.after):
                _check_unique(step.name, found)
                self._check_given(step.name, found, given)
                given = found
        left = sum(step.removed + step.cut for step in self.steps)
        if not bool((self.named.valid.sum(1) == self.steps[-1].kept + left).all()):
            raise ConservationError("nominated is not returned + cut + removed")
        return self

    @property
    def degraded(self) -> tuple[Note, ...]:
        """Where a stage failed or was late and the pipeline went on without it."""
        return tuple(note for step in self.steps for note in step.notes if note.what == "degraded")

    def counts(self, row: int = 0) -> list[Mapping[str, object]]:
        """One request's funnel as plain values, a mapping per step."""
        return [
            {
                "name": step.name,
                "kind": step.kind,
                "in": int(step.entered[row]),
                "out": int(step.kept[row]),
                "removed": int(step.removed[row]),
                "cut": int(step.cut[row]),
                "ms": round(step.ms, 3),
                "notes": [note.what for note in step.notes if note.count is None or int(note.count[row])],
            }
            for step in self.steps
        ]

    def __str__(self) -> str:
        lines = [f"{'stage':<16}{'kind':<11}{'in':>7}{'kept':>7}{'removed':>9}{'cut':>7}{'ms':>9}"]
        for step in self.steps:
            counts = (step.entered, step.kept, step.removed, step.cut)
            shown = [f"{count.sum().item() / max(len(self.query), 1):g}" for count in counts]
            lines.append(
                f"{step.name:<16}{step.kind:<11}{shown[0]:>7}{shown[1]:>7}{shown[2]:>9}{shown[3]:>7}{step.ms:>9.2f}"
            )
            shares = [(part.name, part.count.sum().item() / max(len(self.query), 1)) for part in step.parts]
            lines += [f"  {name:<14}named {share:g}" for name, share in shares]
            lines += [f"  {note.stage}: {note.what}: {note.detail}" for note in step.notes]
        return "\n".join(lines)

    def _present(self, found: Candidates) -> Tensor:
        """Which nominated places a later field still holds [B, K0]."""
        return self._placed(found, found.valid, False)

    def _placed(self, found: Candidates, values: Tensor, otherwise: float) -> Tensor:
        """Values of a later field at the nominated places [B, K0]."""
        count, width = self.named.shape
        # Places that hold nothing write into a column of their own, which is dropped.
        at = found.slot.masked_fill(~found.valid, width)
        return values.new_full((count, width + 1), otherwise).scatter(1, at, values)[:, :-1]

    def _check_given(self, name: str, found: Candidates, given: Candidates) -> None:
        """Raise unless every candidate was there before, at the place it has had since the pool."""
        renamed = found.valid & (self._placed(given, given.items, -1).gather(1, found.slot) != found.items)
        if bool(renamed.any()):
            raise ConservationError(f"{name}: passed on candidates it was not given")


def _check_unique(name: str, found: Candidates) -> None:
    places = -1 - torch.arange(found.shape[1], device=found.items.device)
    ordered = torch.where(found.valid, found.items, places).sort(1).values
    if bool((ordered[:, 1:] == ordered[:, :-1]).any()):
        raise ConservationError(f"{name}: the same item stands twice in what it passed on")
