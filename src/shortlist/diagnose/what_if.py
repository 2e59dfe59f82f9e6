"""What if a stage had kept what was wanted: a ceiling, a guess by rates, and the later stages really run again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.data.membership import is_in
from shortlist.diagnose.follow_items import Followed, room_of
from shortlist.diagnose.offline import offline
from shortlist.diagnose.sample import Batch, UserSample, hits
from shortlist.evaluate.losses import Ints, Losses, decompose
from shortlist.grammar import Nominator, Pipeline, Stage, Top
from shortlist.metrics.estimate import Estimate
from shortlist.pipeline import Step, run
from shortlist.pipeline.recipe import leaves


@dataclass(frozen=True)
class WhatIf:
    """What recall would gain if a stage lost nothing that is wanted; all of it looks at what users met next.

    `ceiling`: everything lost here is kept to the end. `same_rates`: it then survives later stages as often as the
    rest; that assumes that what was lost is like what was kept. `oracle`: measured, the stage passes on wanted ones in
    place of the last-ranked, and in places that stayed empty where those are too few; all later stages run again.
    `order`: measured for those who also order: a scorer that scores everything wanted above everything else, so that
    later cuts by its scores keep it too; a pool in which what was not named stands first, not last.
    """

    ceiling: float | None
    same_rates: float | None
    oracle: Estimate | None  # None: no stage of the pipeline, such as the catalogue
    order: Estimate | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "ceiling": self.ceiling,
            "same_rates": self.same_rates,
            "oracle": None if self.oracle is None else self.oracle.as_dict(),
            "order": None if self.order is None else self.order.as_dict(),
        }


def what_if(pipeline: Stage, one: UserSample, followed: Followed) -> tuple[WhatIf, ...]:
    """The three what-ifs of every stage of a pipeline that was followed on the same panel."""
    whole = offline(pipeline)
    losses = decompose(followed.trace)
    base = followed.returned(len(one))
    oracles, orders = replayed(whole, one)
    found = []
    for place, seat in enumerate(followed.seats):
        oracle = None if seat.step is None else one.share(oracles[:, seat.step] - base)
        order = seat.step is not None and seat.kind in ("nominator", "scorer")
        found.append(
            WhatIf(
                *by_arithmetic(losses, place),
                oracle,
                one.share(orders[:, seat.step or 0] - base) if order else None,
            )
        )
    return tuple(found)


def by_arithmetic(losses: Losses, place: int) -> tuple[float | None, float | None]:
    """Ceiling and same rates of a stage, None where nothing was wanted.

    A later stage that nothing came to has no rate and is left out, so that both are the same where no rate is known.
    """
    if not losses.alive[0]:
        return None, None
    ceiling = float(losses.first_losses[place] / losses.alive[0])
    kept = [1 - rate for rate in losses.conditional[place + 1 :] if rate is not None]
    return ceiling, ceiling * float(np.prod(kept))


@torch.no_grad()
def replayed(pipeline: Pipeline, one: UserSample) -> tuple[Ints, Ints]:
    """Wanted items returned to each case when one step keeps what is wanted, and when it also orders by it [C, S].

    Where later stages judge each candidate for itself, replacing one candidate by another changes at most one place of
    every later cut: what an oracle gains is then at most what its stage lost.
    """
    parts = [_replays(pipeline, batch, one.n_items) for batch in one.batches]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _replays(pipeline: Pipeline, batch: Batch, n_items: int) -> tuple[Ints, Ints]:
    """The oracle of every step, and the one of its order, of one batch [B, S] each."""
    steps = run(pipeline, batch.query).trace.steps
    kept, ordered = [], []
    for number, (stage, step) in enumerate(zip(pipeline.stages, steps, strict=True)):
        rest, room = pipeline.stages[number + 1 :], _room(stage)
        ordered_first = (
            oracle(step, batch.truth, n_items, room, first=True)
            if step.parts
            else in_order(stage, step, batch.truth)
        )
        outputs = (oracle(step, batch.truth, n_items, room), ordered_first)
        found = [hits(onward(rest, batch.query, one), batch.truth) for one in outputs]
        kept.append(found[0])
        ordered.append(found[1])
    return np.stack(kept, 1), np.stack(ordered, 1)


def onward(stages: Sequence[Stage], query: Query, found: Candidates) -> Candidates:
    """What later stages make of candidates."""
    for stage in stages:
        found = stage(query, found)
    return found


def _room(stage: Stage) -> int | None:
    """How many candidates a stage may pass on, None where it does not say; a pool, as many as its nominators name."""
    known = room_of(stage)
    limits = [leaf.limit for leaf in leaves(stage) if isinstance(leaf, Nominator)]
    return sum(limits) if known is None and limits else known


def oracle(
    step: Step, truth: Tensor, n_items: int, room: int | None = None, first: bool = False
) -> Candidates:
    """What a step passed on, with the wanted items it lost in place of the last-ranked that nobody wanted.

    As many candidates as before, unless wanted items are left over and places stayed empty: of `room`, or of what came
    in. With more wanted items than places the best-scored of them are taken. A wanted item that nobody named stands
    where the last of the pool stood, with the score and the words of nominators of that place, or of the `first` place:
    rankers learn from such words, and one without any would be sent away for that alone. An empty pool has no words.
    """
    source = _came(step, truth, n_items, first)
    after = replace(step.after, origin=source.origin)
    lost = _wanted(source, truth) & ~is_in(source.items, _shown(after))
    spare = after.valid & ~_wanted(after, truth)
    moved = torch.minimum(lost.sum(1), spare.sum(1))  # [B]
    came = source.valid.sum(1)
    most = came if room is None else came.clamp(max=room)
    added = torch.minimum(lost.sum(1) - moved, (most - after.valid.sum(1)).clamp(min=0))
    left = after.keep(~(spare & (_from_last(after, spare, step.kind) <= moved[:, None])))
    order = source.sort_keys().masked_fill(~lost, -torch.inf).sort(dim=1, descending=True, stable=True).indices
    taken = (moved + added)[:, None]  # [B, 1]
    order = order[:, : int(taken.max()) if len(taken) else 0]
    places = torch.arange(order.shape[1], device=order.device)
    return beside(left, source.take(torch.where(places < taken, order, -1)))


def in_order(stage: Stage, step: Step, truth: Tensor) -> Candidates:
    """What a scorer would have passed on, had it scored all wanted candidates above all others."""
    if step.kind != "scorer":
        return step.after
    judged = step.judged
    finite = torch.isfinite(judged.scores) & judged.valid
    if not judged.shape[1]:
        return step.after
    some = finite.any(1, keepdim=True)
    low = judged.scores.masked_fill(~finite, torch.inf).amin(1, keepdim=True).where(some, 0.0)
    high = judged.scores.masked_fill(~finite, -torch.inf).amax(1, keepdim=True).where(some, 0.0)
    raised = torch.where(finite, judged.scores, low) + (high - low) + 1.0
    better = judged.score(torch.where(_wanted(judged, truth), raised, judged.scores))
    return better.best(stage.k) if isinstance(stage, Top) else better


def beside(a: Candidates, b: Candidates) -> Candidates:
    """Candidates of the same requests side by side; a column that `b` lacks is empty there."""
    columns = {name: torch.cat([column, _filled(b, name, column)], 1) for name, column in a.columns.items()}
    return Candidates(
        torch.cat([a.items, b.items], 1),
        torch.cat([a.scores, b.scores], 1),
        torch.cat([a.valid, b.valid], 1),
        torch.cat([a.slot, b.slot], 1),
        b.origin,
        columns,
        a.notes,
    )


def _came(step: Step, truth: Tensor, n_items: int, first: bool) -> Candidates:
    """Everything a step could have passed on, as it judged it; for the pool, also what nobody named."""
    if step.parts:
        return beside(step.judged, _unnamed(step, truth, n_items, first))
    judged, before = step.judged, step.before
    if judged.shape != before.shape or not torch.equal(judged.slot, before.slot):
        return before  # a pipeline in a pipeline may have cut and turned what it was given
    return replace(judged, valid=before.valid)


def _unnamed(step: Step, truth: Tensor, n_items: int, first: bool) -> Candidates:
    """Wanted items of the catalogue that no nominator named, with what was said of the last (or first) of the pool."""
    count, width = truth.shape
    begin = step.judged.shape[1]
    there = (truth >= 0) & (truth < n_items) & ~is_in(truth, _shown(step.judged))
    slot = torch.arange(begin, begin + width, device=truth.device).expand(count, width)
    origin = torch.cat([step.judged.origin, torch.zeros(width, dtype=torch.int64, device=truth.device)])
    if not step.after.shape[1]:
        return Candidates(truth.clamp(min=0), torch.zeros(truth.shape), there, slot, origin)
    standing = step.after.sort_keys()
    lowest = standing.masked_fill(~step.after.valid, torch.inf).argmin(1, keepdim=True)
    at = (standing.argmax(1, keepdim=True) if first else lowest).expand(count, width)
    said = {name: column.gather(1, at) for name, column in step.after.columns.items()}
    return Candidates(truth.clamp(min=0), step.after.scores.gather(1, at), there, slot, origin, said)


def _from_last(found: Candidates, among: Tensor, kind: str) -> Tensor:
    """How many of `among` [B, K] stand from each place to the end; a selector's order is that of its places."""
    if kind == "selector":
        return among.flip(1).cumsum(1).flip(1)
    order = found.sort_keys().sort(dim=1, descending=True, stable=True).indices
    ends = among.gather(1, order).flip(1).cumsum(1).flip(1)
    return torch.empty_like(ends).scatter_(1, order, ends)


def _wanted(found: Candidates, truth: Tensor) -> Tensor:
    return is_in(found.items, truth) & found.valid


def _shown(found: Candidates) -> Tensor:
    return found.items.masked_fill(~found.valid, -1)


def _filled(found: Candidates, name: str, like: Tensor) -> Tensor:
    if name in found.columns:
        return found.columns[name]
    return like.new_full(found.shape, torch.nan if like.is_floating_point() else 0)
