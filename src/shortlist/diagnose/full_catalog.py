"""Whether the stages before a scorer help it: its first choice among its candidates against that of all items."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.data.membership import is_in
from shortlist.diagnose.follow_items import places
from shortlist.diagnose.offline import offline
from shortlist.diagnose.sample import Batch, UserSample
from shortlist.evaluate.losses import Bools
from shortlist.grammar import Pipeline, Stage, Top, as_pipeline, kind_of
from shortlist.metrics.estimate import Estimate, mcnemar
from shortlist.pipeline import run
from shortlist.pipeline.guards import Guard
from shortlist.pipeline.recipe import leaves

CHUNK = 2048  # items scored at a time
CLOSE = 1e-4  # how far scores of one candidate may lie apart and still be the same


@dataclass(frozen=True)
class Verdict:
    """Corollary 4.2 in its exact form for the last scorer: does it choose better among its candidates than among all.

    `gain`: its first choice is wanted among the candidates but not among all items. `loss`: the other way round, which
    can only be where the first of all items is not a candidate. accuracy - accuracy_flat = gain - loss exactly, for a
    scorer that judges each candidate for itself. The answer is read from the interval of the difference, never from
    `threshold`: the share of users without any wanted candidate below which the stages before would help.
    """

    answer: str  # "helps", "hurts", "undecided"
    stage: str
    users: int
    pointwise: bool
    accuracy: float | None = None
    accuracy_flat: float | None = None
    gain: Estimate | None = None
    loss: Estimate | None = None
    difference: Estimate | None = None
    p_value: float | None = (
        None  # of so uneven a split of gain and loss by chance, exact (McNemar), one case per user
    )
    threshold: float | None = None
    error_retrieved: float | None = None
    missed: float | None = None  # the share of users without any wanted candidate
    why: str | None = None

    def as_dict(self) -> dict[str, Any]:
        parts = {
            name: value.as_dict() if isinstance(value, Estimate) else value
            for name, value in vars(self).items()
        }
        return {name: value for name, value in parts.items() if name != "why" or value is not None}


def last_scorer(pipeline: Stage) -> int | None:
    """Where the last scorer of a pipeline stands, None without any."""
    kinds = [kind_of(stage) for stage in as_pipeline(pipeline).stages]
    return max((number for number, kind in enumerate(kinds) if kind == "scorer"), default=None)


@torch.no_grad()
def compare_to_flat(pipeline: Stage, one: UserSample, chunk: int = CHUNK) -> Verdict | None:
    """The verdict on a panel; None for a pipeline without a scorer.

    All items means: all that the filters before the scorer allow; nominators say of each candidate what they say, and
    nothing of the others; cuts before the scorer go.
    """
    whole = offline(pipeline)
    at = last_scorer(whole)
    if at is None:
        return None
    name = whole.stages[at].title
    why = listwise(whole, at, one)
    if why is not None:
        return Verdict("undecided", name, one.n_users, False, why=why)
    firsts = [_firsts(whole, at, batch, one.n_items, chunk) for batch in one.batches]
    funnel, flat, reached = (np.concatenate(column) for column in zip(*firsts, strict=True))
    return judged(name, one, funnel, flat, reached)


def judged(name: str, one: UserSample, funnel: Bools, flat: Bools, reached: Bools) -> Verdict:
    """The verdict from three facts of each case [C]: the first of the candidates is wanted, the first of all items is,
    and something wanted is among the candidates."""
    gain, loss = (funnel & ~flat).astype(np.int64), (flat & ~funnel).astype(np.int64)
    difference = one.mean(gain - loss)
    error = 1 - float(funnel[reached].mean()) if reached.any() else None
    answer = "helps" if difference.above else "hurts" if difference.below else "undecided"
    return Verdict(
        answer,
        name,
        one.n_users,
        True,
        float(funnel.mean()),
        float(flat.mean()),
        one.mean(gain),
        one.mean(loss),
        difference,
        mcnemar(funnel, flat) if len(one) == one.n_users else None,  # cases of one user are no trials apart
        threshold(1 - float(flat.mean()), error),
        error,
        1 - float(reached.mean()),
    )


def threshold(error_flat: float, error_retrieved: float | None) -> float | None:
    """The most that retrieval may miss for two stages to be no worse than one: (P_N - P_K) / (1 - P_K).

    Below 0 no retrieval can help; None where nothing retrieved is ever put first.
    """
    if error_retrieved is None or error_retrieved >= 1:
        return None
    return (error_flat - error_retrieved) / (1 - error_retrieved)


def listwise(pipeline: Pipeline, at: int, one: UserSample) -> str | None:
    """Why the scorer is not one that judges each candidate for itself, None where it is."""
    scorer = pipeline.stages[at]
    if not all(bool(getattr(leaf, "pointwise", True)) for leaf in leaves(scorer)):
        return f"{scorer.title!r} says that its scores depend on the other candidates: more of them change its order"
    batch = one.batches[0]
    before = run(pipeline, batch.query).trace.steps[at].before
    whole = _judge([scorer], batch.query, before).scores
    half = torch.arange(before.shape[1] - 1, -1, -2).expand(
        len(before.items), -1
    )  # every other, turned round
    part = before.take(half)
    apart = (_judge([scorer], batch.query, part).scores - whole.gather(1, half)).masked_fill(~part.valid, 0.0)
    scale = whole.masked_fill(~before.valid, 0.0).nan_to_num(posinf=0.0, neginf=0.0).abs()
    if bool((apart.nan_to_num().abs() > CLOSE * (1 + (scale.amax() if scale.numel() else 0.0))).any()):
        return f"{scorer.title!r} scores a candidate otherwise when others are left out: more of them change its order"
    return None


def _firsts(
    pipeline: Pipeline, at: int, batch: Batch, n_items: int, chunk: int
) -> tuple[Bools, Bools, Bools]:
    """For each request: the first candidate is wanted, the first of all items is, something wanted is a candidate."""
    steps = run(pipeline, batch.query).trace.steps
    step = steps[at]
    mine = _judge([pipeline.stages[at]], batch.query, step.before)
    best, item = _best(mine)
    reached = is_in(batch.truth, mine.items.masked_fill(~mine.valid, -1)).any(1)
    first = item.clone()
    for start in range(0, n_items, chunk):
        rest = torch.arange(start, min(start + chunk, n_items)).expand(len(batch.query), -1)
        found = _judge(pipeline.stages[1 : at + 1], batch.query, _all_of(steps[0].judged, rest))
        # Candidates keep the score they have: the same number computed in another batch may differ in its last bit.
        others, row = _best(found.keep(~is_in(found.items, mine.items.masked_fill(~mine.valid, -1))))
        better = (others > best) | ((others == best) & (row >= 0) & ((row < first) | (first < 0)))
        best, first = torch.where(better, others, best), torch.where(better, row, first)
    wanted = [is_in(one[:, None], batch.truth)[:, 0].numpy() for one in (item, first)]
    return wanted[0], wanted[1], reached.numpy()


def _best(found: Candidates) -> tuple[Tensor, Tensor]:
    """The best score and its item [B] each; the lower row at ties, -inf and -1 where there is none."""
    if not found.shape[1]:
        return torch.full((len(found.items),), -torch.inf), torch.full((len(found.items),), -1)
    standing = found.sort_keys()
    best = standing.amax(1)
    ties = found.valid & (standing == best[:, None])
    rows = found.items.masked_fill(~ties, torch.iinfo(torch.int64).max).amin(1)
    return best, torch.where(ties.any(1), rows, -1)


def _all_of(pool: Candidates, items: Tensor) -> Candidates:
    """Items [B, n] as the pool sees them: what nominators said of those they named, nothing of the others."""
    width = pool.shape[1]
    place, there = places(pool, items)
    slot = torch.arange(items.shape[1]).expand(items.shape)
    scores = torch.where(there, pool.scores.gather(1, place), 0.0) if width else torch.zeros(items.shape)
    columns = {
        name: torch.where(there, column.gather(1, place), torch.nan)
        if width
        else torch.full(items.shape, torch.nan)
        for name, column in pool.columns.items()
    }
    origin = torch.zeros(items.shape[1], dtype=torch.int64)
    return Candidates(items, scores, torch.ones_like(there), slot, origin, columns)


def _judge(stages: Sequence[Stage], query: Query, found: Candidates) -> Candidates:
    """What stages make of candidates without any cut or choice."""
    for stage in stages:
        for one in _uncut(stage):
            found = one(query, found)
    return found


def _uncut(stage: Stage) -> list[Stage]:
    """The stages a stage is made of, without cuts and selectors."""
    if isinstance(stage, Top):
        return _uncut(stage.inner)
    if isinstance(stage, Pipeline):
        return [part for one in stage.stages for part in _uncut(one)]
    if isinstance(stage, Guard):
        return [replace(stage, inner=part) for part in _uncut(stage.inner)]
    return [] if kind_of(stage) == "selector" else [stage]
