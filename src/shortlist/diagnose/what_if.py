"""What a perfect stage would bring: a ceiling, an estimate by rates, and the later stages run again on its output."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.data.membership import is_in
from shortlist.diagnose.follow_items import FollowedItems
from shortlist.diagnose.sample import Batch, UserSample, count_hits
from shortlist.evaluate.losses import Ints, Losses, decompose
from shortlist.grammar import Nominator, Pipeline, Stage, Top, leaves
from shortlist.metrics.estimate import Estimate
from shortlist.pipeline import Step, run
from shortlist.pipeline.offline import offline


@dataclass(frozen=True)
class WhatIf:
    """Gain of recall if a stage lost no relevant item; all of it uses the held-out answers, other stages as trained.

    `ceiling`: everything lost here reaches the slate. `same_rates`: it survives later stages as often as the other
    relevant items; this assumes that lost items are like kept ones. `oracle`: measured, the stage passes on relevant
    items in place of the last-ranked, and in empty places where those are too few; all later stages run again.
    `order`: measured for nominators and scorers: a scorer that scores all relevant items above all others, so that
    later cuts by its scores keep them too; a pool in which items that were not nominated come first, not last.
    """

    ceiling: float | None
    same_rates: float | None
    oracle: Estimate | None  # None: no stage of the pipeline, such as the catalogue
    order: Estimate | None = None


def what_if(pipeline: Stage, sample: UserSample, followed: FollowedItems) -> tuple[WhatIf, ...]:
    """The what-ifs of every stage of a pipeline whose items were followed on the same sample."""
    losses = decompose(replace(followed.trace, weight=1 / sample.n_relevant[followed.request]))
    base = followed.hits(len(sample))
    oracles, orders = replay_oracles(offline(pipeline), sample)
    results = []
    for number, stage in enumerate(followed.stages):
        oracle = None if stage.step is None else sample.recall(oracles[:, stage.step] - base)
        ordered = stage.step is not None and stage.kind in ("nominator", "scorer")
        order = sample.recall(orders[:, stage.step or 0] - base) if ordered else None
        results.append(WhatIf(*by_arithmetic(losses, number), oracle, order))
    return tuple(results)


def by_arithmetic(losses: Losses, stage: int) -> tuple[float | None, float | None]:
    """Ceiling and same-rates estimate of a stage, None without relevant items.

    A later stage that no relevant item reached has no rate and is left out.
    """
    if not losses.alive[0]:
        return None, None
    ceiling = float(losses.first_losses[stage] / losses.alive[0])
    kept = [1 - rate for rate in losses.conditional[stage + 1 :] if rate is not None]
    return ceiling, ceiling * float(np.prod(kept))


@torch.no_grad()
def replay_oracles(pipeline: Pipeline, sample: UserSample) -> tuple[Ints, Ints]:
    """Hits per request when one step keeps all relevant items, and when it also orders by relevance [C, S] each.

    Where later stages score each candidate independently, replacing one candidate changes at most one place of every
    later cut: an oracle then gains at most what its stage lost.
    """
    parts = [_replay(pipeline, batch, sample.n_items) for batch in sample.batches]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _replay(pipeline: Pipeline, batch: Batch, n_items: int) -> tuple[Ints, Ints]:
    """Hits with the oracle of every step, and with its perfect order, of one batch [B, S] each."""
    steps = run(pipeline, batch.query).trace.steps
    kept, ordered = [], []
    for number, (stage, step) in enumerate(zip(pipeline.stages, steps, strict=True)):
        later, capacity = pipeline.stages[number + 1 :], _capacity(stage)
        first = (
            oracle(step, batch.relevant, n_items, capacity, first=True)
            if step.parts
            else perfect_order(stage, step, batch.relevant)
        )
        outputs = oracle(step, batch.relevant, n_items, capacity), first
        hits = [count_hits(run_stages(later, batch.query, found), batch.relevant) for found in outputs]
        kept.append(hits[0])
        ordered.append(hits[1])
    return np.stack(kept, 1), np.stack(ordered, 1)


def run_stages(stages: Sequence[Stage], query: Query, found: Candidates) -> Candidates:
    """Candidates after some stages."""
    for stage in stages:
        found = stage(query, found)
    return found


def _capacity(stage: Stage) -> int | None:
    """How many candidates a stage may pass on, None without a limit; a pool: the sum of its nominators' limits."""
    known = stage.capacity
    limits = [leaf.limit for leaf in leaves(stage) if isinstance(leaf, Nominator)]
    return sum(limits) if known is None and limits else known


def oracle(
    step: Step, relevant: Tensor, n_items: int, capacity: int | None = None, first: bool = False
) -> Candidates:
    """The output of a step with the relevant items it lost in place of the last-ranked irrelevant ones.

    As many candidates as before, unless relevant items are left over and places stayed empty: up to `capacity`, or up
    to what came in. With more relevant items than places the best-scored are taken. A relevant item that was not
    nominated gets the score and the nominator columns of the last of the pool, or of the `first`: rankers are trained
    on such columns and would score a candidate without them low for that alone. An empty pool has no columns.
    """
    source = _inputs(step, relevant, n_items, first)
    after = replace(step.after, origin=source.origin)
    lost = _is_relevant(source, relevant) & ~is_in(source.items, _valid_items(after))
    spare = after.valid & ~_is_relevant(after, relevant)
    moved = torch.minimum(lost.sum(1), spare.sum(1))  # [B]
    came = source.valid.sum(1)
    most = came if capacity is None else came.clamp(max=capacity)
    added = torch.minimum(lost.sum(1) - moved, (most - after.valid.sum(1)).clamp(min=0))
    left = after.keep(~(spare & (_from_last(after, spare, step.kind) <= moved[:, None])))
    order = (
        source.sort_keys().masked_fill(~lost, -torch.inf).sort(dim=1, descending=True, stable=True).indices
    )
    taken = (moved + added)[:, None]  # [B, 1]
    order = order[:, : int(taken.max()) if len(taken) else 0]
    places = torch.arange(order.shape[1], device=order.device)
    return concatenate(left, source.take(torch.where(places < taken, order, -1)))


def perfect_order(stage: Stage, step: Step, relevant: Tensor) -> Candidates:
    """The output of a scorer that scores all relevant candidates above all others."""
    if step.kind != "scorer" or not step.before_cut.shape[1]:
        return step.after
    scored = step.before_cut
    finite = torch.isfinite(scored.scores) & scored.valid
    some = finite.any(1, keepdim=True)
    low = scored.scores.masked_fill(~finite, torch.inf).amin(1, keepdim=True).where(some, 0.0)
    high = scored.scores.masked_fill(~finite, -torch.inf).amax(1, keepdim=True).where(some, 0.0)
    raised = torch.where(finite, scored.scores, low) + (high - low) + 1.0
    better = scored.score(torch.where(_is_relevant(scored, relevant), raised, scored.scores))
    return better.best(stage.k) if isinstance(stage, Top) else better


def concatenate(a: Candidates, b: Candidates) -> Candidates:
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


def _inputs(step: Step, relevant: Tensor, n_items: int, first: bool) -> Candidates:
    """Everything a step could have passed on, with its scores; for the pool, also items that were not nominated."""
    if step.parts:
        return concatenate(step.before_cut, _not_nominated(step, relevant, n_items, first))
    scored, before = step.before_cut, step.before
    if scored.shape != before.shape or not torch.equal(scored.slot, before.slot):
        return before  # a nested pipeline may have cut and reordered its input
    return replace(scored, valid=before.valid)


def _not_nominated(step: Step, relevant: Tensor, n_items: int, first: bool) -> Candidates:
    """Relevant items of the catalogue that were not nominated, with the columns of the last (or first) of the pool."""
    count, width = relevant.shape
    begin = step.before_cut.shape[1]
    known = (relevant >= 0) & (relevant < n_items) & ~is_in(relevant, _valid_items(step.before_cut))
    slot = torch.arange(begin, begin + width, device=relevant.device).expand(count, width)
    origin = torch.cat(
        [step.before_cut.origin, torch.zeros(width, dtype=torch.int64, device=relevant.device)]
    )
    if not step.after.shape[1]:
        return Candidates(relevant.clamp(min=0), torch.zeros(relevant.shape), known, slot, origin)
    keys = step.after.sort_keys()
    lowest = keys.masked_fill(~step.after.valid, torch.inf).argmin(1, keepdim=True)
    at = (keys.argmax(1, keepdim=True) if first else lowest).expand(count, width)
    columns = {name: column.gather(1, at) for name, column in step.after.columns.items()}
    return Candidates(relevant.clamp(min=0), step.after.scores.gather(1, at), known, slot, origin, columns)


def _from_last(found: Candidates, among: Tensor, kind: str) -> Tensor:
    """Number of `among` [B, K] from each place to the end; a selector's order is that of its places."""
    if kind == "selector":
        return among.flip(1).cumsum(1).flip(1)
    order = found.sort_keys().sort(dim=1, descending=True, stable=True).indices
    ends = among.gather(1, order).flip(1).cumsum(1).flip(1)
    return torch.empty_like(ends).scatter_(1, order, ends)


def _is_relevant(found: Candidates, relevant: Tensor) -> Tensor:
    return is_in(found.items, relevant) & found.valid


def _valid_items(found: Candidates) -> Tensor:
    return found.items.masked_fill(~found.valid, -1)


def _filled(found: Candidates, name: str, like: Tensor) -> Tensor:
    if name in found.columns:
        return found.columns[name]
    return like.new_full(found.shape, torch.nan if like.is_floating_point() else 0)
