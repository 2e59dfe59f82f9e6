"""Whether the stages before a scorer help it: its first choice among its candidates against that among all items."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.data.membership import is_in
from shortlist.diagnose.not_measured import NotMeasured
from shortlist.diagnose.sample import Batch, UserSample
from shortlist.evaluate.losses import Bools, find_items
from shortlist.grammar import Pipeline, Stage, Top, as_pipeline, kind_of, leaves
from shortlist.metrics.estimate import Estimate, mcnemar
from shortlist.pipeline import run
from shortlist.pipeline.guards import Guard
from shortlist.pipeline.offline import offline

CHUNK = 2048  # items scored at a time
TOLERANCE = 1e-4  # two scores of one candidate that differ by less are the same
NO_SCORER = "The pipeline has no scorer that could rank the whole catalogue."


@dataclass(frozen=True)
class Verdict:
    """Whether the last scorer chooses better among its candidates than among all items (Corollary 4.2, exact form).

    `gain`: its first choice is relevant among the candidates but not among all items. `loss`: the other way round,
    possible only if its first choice of all items is not a candidate. accuracy - accuracy_full = gain - loss exactly,
    for a scorer that scores each candidate independently. The answer follows from the interval of the difference,
    never from `threshold`: the share of users without a relevant candidate below which the stages before would help.
    """

    answer: str  # "helps", "hurts", "undecided"
    stage: str
    users: int
    accuracy: float  # share of requests whose first item is relevant, behind the stages before the scorer
    accuracy_full: float  # the same when it scores the whole catalogue
    gain: Estimate
    loss: Estimate
    difference: Estimate
    p_value: float | None  # exact McNemar test of gain against loss; only with one request per user
    threshold: float | None
    error_retrieved: float | None  # share of wrong first choices where a relevant item is a candidate
    missed: float  # the share of requests without any relevant candidate


def last_scorer(pipeline: Stage) -> int | None:
    """The position of the last scorer of a pipeline, None without any."""
    kinds = [kind_of(stage) for stage in as_pipeline(pipeline).stages]
    return max((number for number, kind in enumerate(kinds) if kind == "scorer"), default=None)


@torch.no_grad()
def compare_to_full_catalog(pipeline: Stage, sample: UserSample, chunk: int = CHUNK) -> Verdict | NotMeasured:
    """The verdict on a sample of users.

    All items means: all that the filters before the scorer keep; a candidate has its nominator columns, other items
    have empty ones; cuts before the scorer are left out.
    """
    whole = offline(pipeline)
    at = last_scorer(whole)
    if at is None:
        return NotMeasured(NO_SCORER)
    why = why_listwise(whole, at, sample)
    if why is not None:
        return NotMeasured(why)
    parts = [_first_choices(whole, at, batch, sample.n_items, chunk) for batch in sample.batches]
    funnel, full, reached = (np.concatenate(column) for column in zip(*parts, strict=True))
    return verdict_of(whole.stages[at].title, sample, funnel, full, reached)


def verdict_of(name: str, sample: UserSample, funnel: Bools, full: Bools, reached: Bools) -> Verdict:
    """The verdict from three facts of each request [C]: the first candidate is relevant, the first of all items is
    relevant, and some relevant item is a candidate."""
    gain, loss = (funnel & ~full).astype(np.int64), (full & ~funnel).astype(np.int64)
    difference = sample.mean(gain - loss)
    error = 1 - float(funnel[reached].mean()) if reached.any() else None
    return Verdict(
        "helps" if difference.above else "hurts" if difference.below else "undecided",
        name,
        sample.n_users,
        float(funnel.mean()),
        float(full.mean()),
        sample.mean(gain),
        sample.mean(loss),
        difference,
        mcnemar(funnel, full)
        if len(sample) == sample.n_users
        else None,  # requests of one user are dependent
        threshold(1 - float(full.mean()), error),
        error,
        1 - float(reached.mean()),
    )


def threshold(error_full: float, error_retrieved: float | None) -> float | None:
    """The largest miss rate of retrieval at which two stages are no worse than one: (P_N - P_K) / (1 - P_K).

    Below 0 no retrieval can help; None where no relevant candidate is ever ranked first.
    """
    if error_retrieved is None or error_retrieved >= 1:
        return None
    return (error_full - error_retrieved) / (1 - error_retrieved)


def why_listwise(pipeline: Pipeline, at: int, sample: UserSample) -> str | None:
    """Why the scorer does not score each candidate independently of the others, None if it does."""
    scorer = pipeline.stages[at]
    if not all(bool(getattr(leaf, "pointwise", True)) for leaf in leaves(scorer)):
        return f"{scorer.title!r} declares that its scores depend on the other candidates: more of them change them"
    batch = sample.batches[0]
    before = run(pipeline, batch.query).trace.steps[at].before
    whole = _scored([scorer], batch.query, before).scores
    half = torch.arange(before.shape[1] - 1, -1, -2).expand(
        len(before.items), -1
    )  # every other one, reversed
    part = before.take(half)
    apart = (_scored([scorer], batch.query, part).scores - whole.gather(1, half)).masked_fill(
        ~part.valid, 0.0
    )
    scale = whole.masked_fill(~before.valid, 0.0).nan_to_num(posinf=0.0, neginf=0.0).abs()
    if bool((apart.nan_to_num().abs() > TOLERANCE * (1 + (scale.amax() if scale.numel() else 0.0))).any()):
        return f"{scorer.title!r} scores a candidate differently when others are left out: more of them change it"
    return None


def _first_choices(
    pipeline: Pipeline, at: int, batch: Batch, n_items: int, chunk: int
) -> tuple[Bools, Bools, Bools]:
    """For each request: the first candidate is relevant, the first of all items is, some candidate is relevant."""
    steps = run(pipeline, batch.query).trace.steps
    candidates = _scored([pipeline.stages[at]], batch.query, steps[at].before)
    own = candidates.items.masked_fill(~candidates.valid, -1)
    best, item = _best(candidates)
    first = item.clone()
    for start in range(0, n_items, chunk):
        items = torch.arange(start, min(start + chunk, n_items)).expand(len(batch.query), -1)
        found = _scored(pipeline.stages[1 : at + 1], batch.query, _with_columns(steps[0].before_cut, items))
        # Candidates keep the score they have: the same score computed in another batch may differ in its last bit.
        others, row = _best(found.keep(~is_in(found.items, own)))
        better = (others > best) | ((others == best) & (row >= 0) & ((row < first) | (first < 0)))
        best, first = torch.where(better, others, best), torch.where(better, row, first)
    relevant = [is_in(choice[:, None], batch.relevant)[:, 0].numpy() for choice in (item, first)]
    return relevant[0], relevant[1], is_in(batch.relevant, own).any(1).numpy()


def _best(found: Candidates) -> tuple[Tensor, Tensor]:
    """The best score and its item [B] each; the lower row at ties, -inf and -1 without candidates."""
    if not found.shape[1]:
        return torch.full((len(found.items),), -torch.inf), torch.full((len(found.items),), -1)
    keys = found.sort_keys()
    best = keys.amax(1)
    ties = found.valid & (keys == best[:, None])
    rows = found.items.masked_fill(~ties, torch.iinfo(torch.int64).max).amin(1)
    return best, torch.where(ties.any(1), rows, -1)


def _with_columns(pool: Candidates, items: Tensor) -> Candidates:
    """Items [B, n] with the nominator columns of the pool, empty where an item was not nominated."""
    width = pool.shape[1]
    position, nominated = find_items(pool, items)
    slot = torch.arange(items.shape[1]).expand(items.shape)
    scores = (
        torch.where(nominated, pool.scores.gather(1, position), 0.0) if width else torch.zeros(items.shape)
    )
    columns = {
        name: torch.where(nominated, column.gather(1, position), torch.nan)
        if width
        else torch.full(items.shape, torch.nan)
        for name, column in pool.columns.items()
    }
    origin = torch.zeros(items.shape[1], dtype=torch.int64)
    return Candidates(items, scores, torch.ones_like(nominated), slot, origin, columns)


def _scored(stages: Sequence[Stage], query: Query, found: Candidates) -> Candidates:
    """Candidates after stages without their cuts and selectors."""
    for stage in stages:
        for part in _uncut(stage):
            found = part(query, found)
    return found


def _uncut(stage: Stage) -> list[Stage]:
    """The stages a stage is made of, without cuts and selectors."""
    if isinstance(stage, Guard):
        return [replace(stage, inner=part) for part in _uncut(stage.inner)]
    if isinstance(stage, Top | Pipeline):
        return [part for child in stage.children() for part in _uncut(child)]
    return [] if kind_of(stage) == "selector" else [stage]
