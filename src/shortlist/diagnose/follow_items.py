"""Every relevant item followed through a pipeline: the stage where it was lost, and what each stage did."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Note
from shortlist.data.membership import is_in
from shortlist.diagnose.sample import Batch, UserSample, count_hits
from shortlist.diagnose.tree.beam_losses import SearchSettings, survival
from shortlist.errors import ConfigError
from shortlist.evaluate.losses import Bools, Ints, NominatorHits, StageTrace, fates
from shortlist.grammar import Pipeline, Stage, kind_of, leaves
from shortlist.nominate import TreeNominator
from shortlist.pipeline import run
from shortlist.pipeline.offline import offline
from shortlist.pipeline.trace import Step

CATALOGUE = "catalogue"


@dataclass(frozen=True)
class AccountStage:
    """A row of the account of losses: a stage of the pipeline, a level of a tree, or the catalogue."""

    name: str
    kind: str
    capacity: int | None  # how many candidates it may pass on
    ordered_by: str | None  # the stage whose scores decide what a cut here keeps
    step: int | None  # position in the pipeline; None: no step of it


@dataclass(frozen=True)
class NoteCount:
    """A note of a stage about its work, and how often it occurred."""

    stage: str
    what: str  # "degraded", "nonfinite", "repeats"
    detail: str
    count: int


@dataclass(frozen=True, eq=False)
class FollowedItems:
    """All pairs (request, relevant item) and what each stage did; arrays over stages have one column per stage."""

    stages: tuple[AccountStage, ...]
    trace: StageTrace  # [n, S]
    request: Ints  # [n], the request of each pair
    item: Ints  # [n], its item row
    removed: Bools  # [n, S], lost because a filter removed it
    unavoidable: Ints  # [C, S], of the relevant items lost, those for which the slate has no place anyway
    by_order: Ints  # [C, S], of the others, those that the order of an earlier stage decides
    candidates: Ints  # [C, S], after the stage
    underfilled: Bools  # [C, S], fewer candidates passed on than the capacity
    in_slate: Ints  # [C], relevant items counted in the slate itself
    first_relevant: Bools  # [C], the first item of the slate is relevant
    nominators: Mapping[str, NominatorHits]
    notes: tuple[NoteCount, ...]

    def hits(self, requests: int) -> Ints:
        """Number of relevant items returned to each request [C]."""
        kept = self.request[self.trace.alive[:, -1]]
        return np.bincount(kept, minlength=requests).astype(np.int64)


def follow_relevant_items(pipeline: Stage, sample: UserSample, levels: bool = False) -> FollowedItems:
    """Run a sample and follow its relevant items; `levels` counts the levels of a beam apart if a tree is all the pool.

    Relevant items outside the catalogue are lost at a row of their own before the first stage; without such items
    there is no such row.
    """
    whole = offline(pipeline)
    tree = only_tree(whole) if levels else None
    if levels and tree is None:
        raise ConfigError("follow_relevant_items: levels=True needs a pool that is one tree; leave it out")
    stages = account_stages(whole, tree)
    with torch.no_grad():
        parts = [_follow(whole, batch, stages, sample.n_items, tree) for batch in sample.batches]
    return _joined(parts, stages, sample)


def account_stages(pipeline: Pipeline, tree: TreeNominator | None = None) -> tuple[AccountStage, ...]:
    """The catalogue, the levels of the tree if given, and the stages."""
    rows, order = [AccountStage(CATALOGUE, CATALOGUE, None, None, None)], None
    if tree is not None:
        inner = range(1, tree.index.tree.shape.height)
        rows += [
            AccountStage(f"{tree.title} level {level}", "nominator", None, None, None) for level in inner
        ]
    for number, stage in enumerate(pipeline.stages):
        kind = kind_of(stage)
        order = stage.title if kind in ("nominator", "scorer", "pipeline") else order
        rows.append(AccountStage(stage.title, kind, stage.capacity, order, number))
        order = stage.title if kind == "selector" else order
    return tuple(rows)


def only_tree(pipeline: Pipeline) -> TreeNominator | None:
    """The tree that is all the pool of a pipeline, or None."""
    nominators = leaves(pipeline.stages[0])
    return nominators[0] if len(nominators) == 1 and isinstance(nominators[0], TreeNominator) else None


@dataclass(frozen=True, eq=False)
class _Part:
    """One batch."""

    items: Tensor  # int64 [B, R]
    is_item: Tensor  # bool [B, R]
    alive: Tensor  # bool [B, R, S]
    removed: Tensor  # bool [B, R, S]
    ordered: Tensor  # int64 [B, S]
    candidates: Tensor  # int64 [B, S]
    underfilled: Tensor  # bool [B, S]
    in_slate: Tensor  # int64 [B]
    first_relevant: Tensor  # bool [B]
    nominators: tuple[str, ...]
    nominated: Tensor  # bool [P, B, R], which nominators nominated each
    notes: tuple[Note, ...]


def _follow(
    pipeline: Pipeline,
    batch: Batch,
    stages: tuple[AccountStage, ...],
    n_items: int,
    tree: TreeNominator | None,
) -> _Part:
    slate = run(pipeline, batch.query)
    trace, relevant = slate.trace.check(), batch.relevant
    is_item, known = relevant >= 0, (relevant >= 0) & (relevant < n_items)
    fate, n_steps = fates(trace, relevant), len(trace.steps)
    alive = fate.alive(n_steps)
    levels = _levels(tree, batch, alive[:, :, 0], known)
    removed = [(fate.left_at == number) & fate.removed for number in range(n_steps)]
    lead = len(stages) - n_steps
    underfilled = [_underfilled(*pair) for pair in zip(stages[lead:], trace.steps, strict=True)]
    each = zip(stages[lead:], trace.steps, removed, strict=True)
    ordered = [_left_by_order(stage, step, relevant, lost) for stage, step, lost in each]
    return _Part(
        relevant,
        is_item,
        torch.cat([torch.stack([known, *levels], -1), alive], -1),
        _with_lead(torch.stack(removed, -1), lead, 0),
        _with_lead(torch.stack(ordered, -1), lead, -1),
        _with_lead(torch.stack([step.kept for step in trace.steps], -1), lead, n_items),
        _with_lead(torch.stack(underfilled, -1), lead, 0),
        torch.from_numpy(count_hits(slate.candidates, relevant)),
        is_in(slate.items[:, :1], relevant).any(1),
        tuple(part.name for part in trace.steps[0].parts),
        fate.nominated_by,
        tuple(note for step in trace.steps for note in step.notes),
    )


def _left_by_order(stage: AccountStage, step: Step, relevant: Tensor, removed: Tensor) -> Tensor:
    """Relevant items left when only the order of an earlier stage works, or only the rule of a filter [B].

    A selector without a choice of its own keeps the best by score; a filter without a cut keeps what its rule allows.
    -1 where the stage decides alone.
    """
    if step.kind == "selector":
        order = step.before.sort_keys().sort(dim=1, descending=True, stable=True).indices
        places = step.kept[:, None] if stage.capacity is None else stage.capacity
        first = torch.arange(order.shape[1], device=order.device) < places
        items = step.before.items.masked_fill(~step.before.valid, -1).gather(1, order)
        return is_in(relevant, items.masked_fill(~first, -1)).sum(1)
    if step.kind == "filter":
        known = is_in(relevant, step.before.items.masked_fill(~step.before.valid, -1))
        return (known & ~removed).sum(1)
    return torch.full_like(step.kept, -1)


def _with_lead(values: Tensor, lead: int, fill: int) -> Tensor:
    """Values of the steps with `lead` columns before them for rows that are no step."""
    return torch.cat([values.new_full((*values.shape[:-1], lead), fill), values], -1)


def _levels(tree: TreeNominator | None, batch: Batch, nominated: Tensor, known: Tensor) -> list[Tensor]:
    """Whether relevant items were below a node of the beam after each inner level [B, R] each."""
    if tree is None:
        return []
    beam = max(tree.beam, -(-tree.limit // tree.index.tree.shape.branch))
    asked = SearchSettings(tree.limit, beam, tree.product, tree.exclude_seen)
    items = batch.relevant.masked_fill(~known, -1)
    alive = survival(tree.index, asked.beam_search(tree.index, batch.query.history), items)
    # A nominated item has passed all levels, also where compiled arithmetic breaks a tie the other way.
    return [alive[:, :, level] | nominated for level in range(1, tree.index.tree.shape.height)]


def _underfilled(stage: AccountStage, step: Step) -> Tensor:
    """Whether fewer candidates were passed on than the capacity [B]."""
    if stage.capacity is None:
        return torch.zeros_like(step.kept, dtype=torch.bool)
    return step.kept < stage.capacity


def unavoidable_losses(alive: Bools, request: Ints, requests: int, capacity: int | None) -> Ints:
    """Of the relevant items each stage lost, those that the slate has no place for [C, S].

    A user with 80 relevant items gets back no more than the narrowest cut passes on, 10 say. A stage that passes on 40
    of the 80 has lost 40 items and nothing that could have been returned; one that passes on 4 has lost 6 that could.
    What could be returned is min(alive, capacity): its losses add up to what slates could hold less what they hold.
    """
    left = _left(alive, request, requests)
    lost = left[:, :-1] - left[:, 1:]
    if capacity is None:
        return np.zeros_like(lost)
    could = np.minimum(left, capacity)
    return np.asarray(lost - (could[:, :-1] - could[:, 1:]))


def losses_by_order(
    alive: Bools,
    request: Ints,
    ordered: Ints,
    stages: tuple[AccountStage, ...],
    capacity: int | None,
) -> Ints:
    """Of the avoidable losses at each stage, those that the order of an earlier stage decides [C, S].

    `ordered` [C, S] is `_left_by_order`. For a selector: what the best by score would lose as well; the rest is its own
    choice, and is negative where it keeps more relevant items than they do. For a filter: what its cut loses.
    """
    could = _left(alive, request, len(ordered))
    could = could if capacity is None else np.minimum(could, capacity)
    middle = ordered if capacity is None else np.minimum(ordered, capacity)
    selects = np.array([stage.kind == "selector" for stage in stages])
    parts = np.where(selects, could[:, :-1] - middle, middle - could[:, 1:])
    return np.where(ordered < 0, 0, parts)


def _left(alive: Bools, request: Ints, requests: int) -> Ints:
    """Relevant items of each request before the first stage and after every stage [C, S + 1]."""
    kept = [request, *(request[alive[:, stage]] for stage in range(alive.shape[1]))]
    return np.stack([np.bincount(one, minlength=requests) for one in kept], axis=1).astype(np.int64)


def _joined(parts: list[_Part], stages: tuple[AccountStage, ...], sample: UserSample) -> FollowedItems:
    starts = np.cumsum([0, *(len(part.is_item) for part in parts[:-1])])
    request = np.concatenate(
        [first + part.is_item.nonzero()[:, 0].numpy() for first, part in zip(starts, parts, strict=True)]
    )

    def pairs(name: str) -> Any:
        return np.concatenate([getattr(part, name)[part.is_item].numpy() for part in parts])

    def requests(name: str) -> Any:
        return np.concatenate([getattr(part, name).numpy() for part in parts])

    # The catalogue is a row only if relevant items lie outside of it.
    alive = pairs("alive")
    begin = int(bool(alive[:, 0].all()))
    narrowest = min((stage.capacity for stage in stages if stage.capacity is not None), default=None)
    return FollowedItems(
        stages[begin:],
        StageTrace(alive[:, begin:], tuple(stage.name for stage in stages[begin:]), sample.users[request]),
        request,
        pairs("items"),
        pairs("removed")[:, begin:],
        unavoidable_losses(alive[:, begin:], request, len(sample), narrowest),
        losses_by_order(alive[:, begin:], request, requests("ordered")[:, begin:], stages[begin:], narrowest),
        requests("candidates")[:, begin:],
        requests("underfilled")[:, begin:],
        requests("in_slate"),
        requests("first_relevant"),
        _nominator_hits(parts),
        _note_counts(parts),
    )


def _nominator_hits(parts: list[_Part]) -> dict[str, NominatorHits]:
    """For each nominator the relevant items it nominated, and those only it nominated."""
    counts: dict[str, NominatorHits] = {}
    for part in parts:
        times = part.nominated.sum(0)
        for name, by in zip(part.nominators, part.nominated, strict=True):
            before = counts.get(name, NominatorHits(0, 0))
            unique = int((by & (times == 1)).sum())
            counts[name] = NominatorHits(before.nominated + int(by.sum()), before.unique + unique)
    return counts


def _note_counts(parts: list[_Part]) -> tuple[NoteCount, ...]:
    """The distinct notes of the stages, with how often each occurred."""
    counts: dict[tuple[str, str, str], int] = {}
    for part in parts:
        for note in part.notes:
            key = note.stage, note.what, note.detail
            counts[key] = counts.get(key, 0) + (1 if note.count is None else int(note.count.sum()))
    return tuple(NoteCount(*key, count) for key, count in counts.items())
