"""Every wanted item on its way through a pipeline: where it got lost, and what each stage did."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Candidates, Note
from shortlist.data.membership import is_in
from shortlist.diagnose.offline import offline
from shortlist.diagnose.sample import Batch, UserSample, hits
from shortlist.diagnose.tree.beam import Asked, survival
from shortlist.errors import ConfigError
from shortlist.evaluate.losses import Bools, Ints, StageTrace
from shortlist.grammar import Pipeline, Selector, Stage, Top, kind_of
from shortlist.nominate import TreeNominator
from shortlist.pipeline import Trace, run
from shortlist.pipeline.guards import Guard
from shortlist.pipeline.recipe import leaves
from shortlist.pipeline.trace import RETURNED, Step

CATALOGUE = "catalogue"


@dataclass(frozen=True)
class Seat:
    """A stage of the pipeline as the account names it; `room` is how many it may pass on, `step` where it stands."""

    name: str
    kind: str
    room: int | None
    ordered_by: str | None  # whose scores decide what a cut here keeps
    step: int | None  # None: no step of the pipeline


@dataclass(frozen=True)
class Noted:
    """What a stage said of its work."""

    stage: str
    what: str  # "degraded", "nonfinite", "repeats"
    detail: str
    count: int


@dataclass(frozen=True, eq=False)
class Followed:
    """All pairs (case, wanted item) and what each stage did; the arrays over stages have one column per seat."""

    seats: tuple[Seat, ...]
    trace: StageTrace  # [n, S]
    case: Ints  # [n], the case of each pair
    item: Ints  # [n], its item row
    removed: Bools  # [n, S], lost because a stage said no
    no_room: Ints  # [C, S], of the wanted items lost, those for which the funnel has no place anyway
    kept: Ints  # [C, S], candidates after the stage
    short: Bools  # [C, S], fewer passed on than there was room for
    slate: Ints  # [C], wanted items in the slate, counted there and not by what stages passed on
    first: Bools  # [C], the first item of the slate is wanted
    named: dict[str, tuple[int, int]]  # by nominator: wanted items named, and those nobody else named
    notes: tuple[Noted, ...]

    def returned(self, cases: int) -> Ints:
        """How many wanted items came back to each case [C]."""
        kept = self.case[self.trace.alive[:, -1]]
        return np.bincount(kept, minlength=cases).astype(np.int64)


def follow(pipeline: Stage, one: UserSample, levels: bool = False) -> Followed:
    """Ask a panel and follow what it wants; `levels` tells the levels of a beam apart where a tree is all the pool.

    Wanted items outside the catalogue are lost at a stage of its own before the first, which is left out where there
    are none.
    """
    whole = offline(pipeline)
    tree = only_tree(whole) if levels else None
    if levels and tree is None:
        raise ConfigError("follow: levels=True needs a pool that is one tree; leave it out")
    seats = seats_of(whole, tree)
    with torch.no_grad():
        parts = [_passed(whole, batch, seats, one.n_items, tree) for batch in one.batches]
    return _joined(parts, seats, one)


def seats_of(pipeline: Pipeline, tree: TreeNominator | None = None) -> tuple[Seat, ...]:
    """The catalogue, the levels of the tree if it is looked into, and the stages."""
    seats, order = [Seat(CATALOGUE, CATALOGUE, None, None, None)], None
    if tree is not None:
        inner = range(1, tree.index.tree.shape.height)
        seats += [Seat(f"{tree.title} level {level}", "nominator", None, None, None) for level in inner]
    for number, stage in enumerate(pipeline.stages):
        kind = kind_of(stage)
        order = stage.title if kind in ("nominator", "scorer", "pipeline") else order
        seats.append(Seat(stage.title, kind, room_of(stage), order, number))
        order = stage.title if kind == "selector" else order
    return tuple(seats)


def room_of(stage: Stage) -> int | None:
    """How many candidates a stage may pass on, None where it does not say."""
    if isinstance(stage, Guard):
        return room_of(stage.inner)
    return stage.k if isinstance(stage, Top | Selector) else None


def narrowest(seats: tuple[Seat, ...]) -> int | None:
    """The fewest places of all cuts, None where there is no cut."""
    return min((seat.room for seat in seats if seat.room is not None), default=None)


def only_tree(pipeline: Pipeline) -> TreeNominator | None:
    """The tree that is all the pool of a pipeline, or None."""
    found = [leaf for part in pipeline.nominators for leaf in leaves(part)]
    return found[0] if len(found) == 1 and isinstance(found[0], TreeNominator) else None


@dataclass(frozen=True, eq=False)
class _Passed:
    """One batch."""

    items: Tensor  # int64 [B, R]
    there: Tensor  # bool [B, R]
    alive: Tensor  # bool [B, R, S]
    removed: Tensor  # bool [B, R, S]
    kept: Tensor  # int64 [B, S]
    short: Tensor  # bool [B, S]
    slate: Tensor  # int64 [B]
    first: Tensor  # bool [B]
    nominators: tuple[str, ...]
    named: Tensor  # bool [P, B, R], which nominators named each
    notes: tuple[Note, ...]


def _passed(
    pipeline: Pipeline, batch: Batch, seats: tuple[Seat, ...], n_items: int, tree: TreeNominator | None
) -> _Passed:
    slate = run(pipeline, batch.query)
    trace, truth = slate.trace.check(), batch.truth
    there, known = truth >= 0, (truth >= 0) & (truth < n_items)
    fate, no, by = _fates(trace, truth)
    steps = [_after(fate, number) & there for number in range(len(trace.steps))]
    levels = _levels(tree, batch, steps[0], known)
    removed = [(fate == number) & no for number in range(len(steps))]
    lead = len(seats) - len(steps)
    short = [_short(*one) for one in zip(seats[lead:], trace.steps, strict=True)]
    return _Passed(
        truth,
        there,
        torch.stack([known, *levels, *steps], -1),
        _led(torch.stack(removed, -1), lead, 0),
        _led(torch.stack([step.kept for step in trace.steps], -1), lead, n_items),
        _led(torch.stack(short, -1), lead, 0),
        torch.from_numpy(hits(slate.candidates, truth)),
        is_in(slate.items[:, :1], truth).any(1),
        tuple(part.name for part in trace.steps[0].parts),
        by,
        tuple(note for step in trace.steps for note in step.notes),
    )


def _led(values: Tensor, lead: int, by: int) -> Tensor:
    """Values of the steps with so many columns before them for what is no step."""
    return torch.cat([values.new_full((*values.shape[:-1], lead), by), values], -1)


def _fates(trace: Trace, truth: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For wanted items [B, R] the step each left at, whether it was said no to, and who named it [P, B, R].

    What nobody named left at the first step.
    """
    at, there = places(trace.named, truth)
    fate = torch.where(there, _at(trace.fate, at), 0)
    no = there & _at(trace.removed_by_filter, at)
    parts = trace.steps[0].parts
    ranks = [trace.named.columns[f"{part.name}.rank"] for part in parts]
    by = [there & ~torch.isnan(_at(rank, at)) for rank in ranks]
    return fate, no, torch.stack(by) if by else torch.zeros((0, *truth.shape), dtype=torch.bool)


def places(found: Candidates, items: Tensor) -> tuple[Tensor, Tensor]:
    """Where each item [B, R] stands among candidates, and whether it does."""
    width = found.shape[1]
    if not width:
        return torch.zeros_like(items), torch.zeros_like(items, dtype=torch.bool)
    keys, order = found.items.masked_fill(~found.valid, -1).sort(dim=1)
    at = torch.searchsorted(keys, items.contiguous()).clamp(max=width - 1)
    return order.gather(1, at), (keys.gather(1, at) == items) & (items >= 0)


def _at(values: Tensor, places: Tensor) -> Tensor:
    return values.gather(1, places) if values.shape[1] else values.new_zeros(places.shape)


def _after(fate: Tensor, number: int) -> Tensor:
    return (fate > number) | (fate == RETURNED)


def _levels(tree: TreeNominator | None, batch: Batch, named: Tensor, known: Tensor) -> list[Tensor]:
    """Whether wanted items were in reach of the beam after each inner level [B, R] each."""
    if tree is None:
        return []
    wide = max(tree.beam, -(-tree.limit // tree.index.tree.shape.branch))
    asked = Asked(tree.limit, wide, tree.product, tree.exclude_seen)
    items = batch.truth.masked_fill(~known, -1)
    alive = survival(tree.index, asked.by_beam(tree.index, batch.query.history), items)
    # What was named has passed all levels, also where compiled arithmetic breaks a tie the other way.
    return [alive[:, :, level] | named for level in range(1, tree.index.tree.shape.height)]


def _short(seat: Seat, step: Step) -> Tensor:
    """Whether fewer were passed on than there is room for [B]."""
    return step.kept < seat.room if seat.room is not None else torch.zeros_like(step.kept, dtype=torch.bool)


def without_room(alive: Bools, case: Ints, cases: int, room: int | None) -> Ints:
    """Of the wanted items each stage lost, those that the funnel has no place for [C, S].

    A user who wants 80 items is returned no more than the narrowest cut lets through, 10 say. A stage that passes on 40
    of the 80 has lost 40 items and nothing that could have been returned; one that passes on 4 has lost 6 that could.
    What could be returned is min(alive, room): its losses add up to what slates could hold less what they hold.
    """
    stages = alive.shape[1]
    left = np.zeros((cases, stages + 1), np.int64)
    left[:, 0] = np.bincount(case, minlength=cases)
    for stage in range(stages):
        left[:, stage + 1] = np.bincount(case[alive[:, stage]], minlength=cases)
    lost = left[:, :-1] - left[:, 1:]
    if room is None:
        return np.zeros_like(lost)
    could = np.minimum(left, room)
    return np.asarray(lost - (could[:, :-1] - could[:, 1:]))


def _joined(parts: list[_Passed], seats: tuple[Seat, ...], one: UserSample) -> Followed:
    starts = np.cumsum([0, *(len(part.there) for part in parts[:-1])])
    case = np.concatenate(
        [first + part.there.nonzero()[:, 0].numpy() for first, part in zip(starts, parts, strict=True)]
    )

    def pairs(name: str) -> Any:
        return np.concatenate([getattr(part, name)[part.there].numpy() for part in parts])

    def requests(name: str) -> Any:
        return np.concatenate([getattr(part, name).numpy() for part in parts])

    # What was wanted outside the catalogue is a stage only where there is such a thing.
    alive = pairs("alive")
    begin = int(bool(alive[:, 0].all()))
    trace = StageTrace(alive[:, begin:], tuple(seat.name for seat in seats[begin:]), one.users[case])
    return Followed(
        seats[begin:],
        trace,
        case,
        pairs("items"),
        pairs("removed")[:, begin:],
        without_room(alive[:, begin:], case, len(one), narrowest(seats)),
        requests("kept")[:, begin:],
        requests("short")[:, begin:],
        requests("slate"),
        requests("first"),
        _credit(parts),
        _noted(parts),
    )


def _credit(parts: list[_Passed]) -> dict[str, tuple[int, int]]:
    """For each nominator the wanted items it named, and those it alone named."""
    found: dict[str, tuple[int, int]] = {}
    for part in parts:
        said = part.named.sum(0)
        for name, by in zip(part.nominators, part.named, strict=True):
            before = found.get(name, (0, 0))
            found[name] = before[0] + int(by.sum()), before[1] + int((by & (said == 1)).sum())
    return found


def _noted(parts: list[_Passed]) -> tuple[Noted, ...]:
    """What stages said of their work, once each, with how often."""
    counts: dict[tuple[str, str, str], int] = {}
    for part in parts:
        for note in part.notes:
            key = note.stage, note.what, note.detail
            counts[key] = counts.get(key, 0) + (1 if note.count is None else int(note.count.sum()))
    return tuple(Noted(*key, count) for key, count in counts.items())
