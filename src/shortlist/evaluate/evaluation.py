"""A pipeline put to the test: its slates scored, its losses counted, the yardsticks beside it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import HeldOut, Interactions
from shortlist.errors import DataError
from shortlist.evaluate.baselines import POPULARITY, baselines
from shortlist.evaluate.funnel import Funnel, funnel, passage
from shortlist.evaluate.scores import Scores, score_slates
from shortlist.grammar import Pipeline, Stage, as_pipeline
from shortlist.pipeline import run
from shortlist.pipeline.recommender import resized
from shortlist.progress import Progress, silent, tracked

KS = (10, 20)
BATCH = 128
ACTIVE = 0.5  # the share of cases with the longer histories that count as active


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a pipeline did on held-out cases; `segments` are masks over the same cases."""

    scores: Scores
    baselines: Mapping[str, Scores]  # popularity first
    funnel: Funnel
    segments: Mapping[str, Tensor]  # each [C] bool
    slates: Tensor  # [C, k] item rows

    @property
    def baseline(self) -> Scores:
        """The scores of popularity."""
        return self.baselines[POPULARITY]

    def as_dict(self, seed: int = 0) -> dict[str, Any]:
        """Plain values: metrics with intervals, the same for yardsticks, differences, segments and stages.

        `difference` is that from popularity, `differences` are those from every yardstick.
        """
        differences = {name: self._difference(one, seed) for name, one in self.baselines.items()}
        everyone = {"pipeline": self.scores, **self.baselines}
        return {
            "users": len(self.scores),
            "metrics": {who: scores.as_dict(seed) for who, scores in everyone.items()},
            "difference": differences[POPULARITY],
            "differences": differences,
            "segments": {
                name: self._segment(mask, seed) for name, mask in self.segments.items() if bool(mask.any())
            },
            "stages": self.funnel.as_dict(),
        }

    def _difference(self, other: Scores, seed: int) -> dict[str, Any]:
        return {name: vars(self.scores.against(other, name, seed)) for name in ("recall@20", "ndcg@20")}

    def _segment(self, mask: Tensor, seed: int) -> dict[str, Any]:
        parts = {"pipeline": self.scores, POPULARITY: self.baseline}
        told_of = {who: scores.segment(mask).as_dict(seed)["metrics"] for who, scores in parts.items()}
        return {"users": int(mask.sum()), **told_of}


def evaluate(
    pipeline: Stage,
    cases: HeldOut,
    learned: Interactions,
    ks: Sequence[int] = KS,
    progress: Progress = silent,
    check: bool = True,
    clock: str = "ms",
) -> Evaluation:
    """Ask a pipeline all cases; `learned` is what it was trained on, for yardsticks, novelty and segments.

    The `clock` of the log is "ms" or "order": it says what popular lately means.
    """
    check_asked(cases)
    most = max(ks)
    told_of = _ask(resized(as_pipeline(pipeline), most), cases, progress, check)
    scored = scorer(cases, learned, ks)
    return Evaluation(
        scored(told_of.items),
        {name: scored(slates) for name, slates in baselines(cases, learned, most, clock).items()},
        told_of.funnel,
        segments(cases, learned),
        told_of.items,
    )


def check_asked(cases: HeldOut) -> None:
    """There must be someone to ask."""
    if not len(cases):
        raise DataError("evaluate: expected held-out cases, got none; choose another split")


def scorer(cases: HeldOut, learned: Interactions, ks: Sequence[int] = KS) -> Callable[[Tensor], Scores]:
    """What turns slates [C, k] into scores: it knows what came next, and how often items were met before."""
    truth, met = cases.relevant(), torch.from_numpy(users_per_item(learned))
    n_users = int((learned.lengths > 0).sum())
    return lambda slates: score_slates(slates, truth, ks, met, n_users)


def segments(cases: HeldOut, learned: Interactions) -> dict[str, Tensor]:
    """Masks over cases: users with long and short histories, and wants that are popular or in the tail."""
    seen = torch.from_numpy(cases.history_lengths().copy())
    active = seen >= torch.quantile(seen.double(), ACTIVE)
    counts = torch.from_numpy(learned.popularity.copy())
    ranked = counts.sort(descending=True).values.cumsum(0)
    head = counts >= counts.sort(descending=True).values[int((ranked < ranked[-1] * 0.5).sum())]
    wants = cases.relevant()
    share = (head[wants.clamp(min=0)] & (wants >= 0)).sum(1) / (wants >= 0).sum(1).clamp(min=1)
    fresh = torch.from_numpy(np.isin(cases.users, learned.users, invert=True))
    return {
        "active": active,
        "few events": ~active,
        "new users": fresh,
        "wants popular items": share >= 0.5,
        "wants tail items": share < 0.5,
    }


@torch.no_grad()
def slates_of(pipeline: Stage, cases: HeldOut, k: int, progress: Progress = silent) -> Tensor:
    """What a pipeline answers to all cases, k items each [C, k], -1 = an empty place."""
    sized = resized(as_pipeline(pipeline), k)
    parts = [cases.take(slice(start, start + BATCH)) for start in range(0, len(cases), BATCH)]
    slates = [run(sized, one.query(width=longest(one))).items for one in tracked(parts, "evaluate", progress)]
    return _stacked(slates)


@dataclass(frozen=True, eq=False)
class _Asked:
    items: Tensor
    funnel: Funnel


def _ask(pipeline: Pipeline, cases: HeldOut, progress: Progress, check: bool) -> _Asked:
    """All cases in batches; memory stays that of one batch."""
    items, passages, trace = [], [], None
    for start in tracked(range(0, len(cases), BATCH), "evaluate", progress):
        rows = slice(start, start + BATCH)
        with torch.no_grad():
            slate = run(pipeline, cases.query(rows, longest(cases.take(rows))))
        trace = slate.trace.check() if check else slate.trace
        passages.append(passage(trace, cases.relevant(rows)))
        items.append(slate.items)
    assert trace is not None
    return _Asked(_stacked(items), funnel(trace, passages))


def _stacked(parts: list[Tensor]) -> Tensor:
    width = max(part.shape[1] for part in parts)
    return torch.cat([torch.nn.functional.pad(part, (0, width - part.shape[1]), value=-1) for part in parts])


def users_per_item(learned: Interactions) -> NDArray[np.int64]:
    """How many users met each item, each user once [N]."""
    met = learned.matrix()
    return np.bincount(met.indices, minlength=learned.n_items).astype(np.int64)


def longest(cases: HeldOut) -> int:
    """How wide histories must be for nothing that was seen to be forgotten."""
    return int(cases.history_lengths().max(initial=1))
