"""Knobs that need no training, really turned: what each does to recall, and to the number of candidates."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from shortlist.diagnose.knobs.rewritten import Best, Open, bare, exchanged, exchanged_step, with_everything
from shortlist.diagnose.sample import UserSample, hits, panel
from shortlist.evaluate.evaluation import BATCH
from shortlist.evaluate.losses import Ints
from shortlist.grammar import Nominator, Pipeline, Selector, Stage, Top, as_pipeline, kind_of
from shortlist.metrics.estimate import Estimate
from shortlist.nominate import JTRNominator, ModelNominator, TreeNominator
from shortlist.pipeline import run
from shortlist.pipeline.recipe import leaves
from shortlist.progress import Progress, silent, tracked
from shortlist.stages import Diverse, Explore

TIMES = (2, 4)  # limits of nominators
WHOLE = 10_000  # items that can be let through all stages, at most
AT_ONCE = 1 << 18  # candidates that then go through them together, at most


@dataclass(frozen=True)
class Knob:
    """A setting of a stage and what it did; `gain` is None where it was not measured, as where it needs training.

    `candidates` is how many the stage passes on per request when it is turned so; for a nominator, the pool.
    """

    stage: str
    label: str
    setting: str
    gain: Estimate | None
    candidates: float | None
    needs_training: bool = False

    def as_dict(self) -> dict[str, Any]:
        gain = None if self.gain is None else self.gain.as_dict()
        return {**vars(self), "gain": gain}


@dataclass(frozen=True, eq=False)
class Turn:
    """A pipeline in which one knob is turned."""

    stage: str
    label: str
    setting: str
    pipeline: Pipeline
    step: int  # whose candidates are counted


def knobs(pipeline: Stage, one: UserSample, base: Ints, progress: Progress = silent) -> tuple[Knob, ...]:
    """Every knob turned on the same panel; `base` [C] is what the pipeline returns as it is."""
    whole = as_pipeline(pipeline)
    turned = _measured(list(turns_of(whole)), one, base, progress)
    size = max(1, min(BATCH, AT_ONCE // max(one.n_items, 1)))
    few = panel(one.cases, one.n_items, seed=one.seed, batch=size)
    return (*turned, *_measured(list(_wide_open(whole, one.n_items)), few, base, progress))


def rules(pipeline: Stage, one: UserSample, base: Ints, progress: Progress = silent) -> tuple[Knob, ...]:
    """Every filter left out in turn: what its rule costs, not that it should go."""
    return _measured(list(rules_of(as_pipeline(pipeline))), one, base, progress)


def _measured(turns: list[Turn], one: UserSample, base: Ints, progress: Progress) -> tuple[Knob, ...]:
    found = []
    for turn in tracked(turns, "turn knobs", progress):
        after, kept = _asked(turn, one)
        found.append(Knob(turn.stage, turn.label, turn.setting, one.share(after - base), kept))
    return tuple(found)


def turns_of(pipeline: Pipeline) -> Iterator[Turn]:
    """All knobs of a pipeline; the size of the slate is not one of them, nor is anything that needs training."""
    for part in pipeline.nominators:
        for leaf in leaves(part):
            yield from _nominator_turns(pipeline, leaf)
    for number, stage in enumerate(pipeline.stages):
        if number < len(pipeline.stages) - 1:
            yield from _cut_turns(pipeline, number, stage)
        for leaf in [] if number == 0 else leaves(stage):
            yield from _stage_turns(pipeline, number, leaf)


def _wide_open(pipeline: Pipeline, n_items: int) -> Iterator[Turn]:
    """The whole catalogue let into the pool: what any nominator could bring with the later stages as they are."""
    if n_items <= WHOLE and len(pipeline.stages) > 1:
        yield Turn(pipeline.stages[0].title, "named", "everything", with_everything(pipeline, n_items), 0)


def rules_of(pipeline: Pipeline) -> Iterator[Turn]:
    """The pipeline without each of its filters."""
    for number, stage in enumerate(pipeline.stages):
        for leaf in [] if number == 0 else leaves(stage):
            if kind_of(leaf) == "filter":
                changed = exchanged(pipeline, leaf.title, lambda one: Open(name=one.title))
                yield Turn(leaf.title, "rule", "left out", changed, number)


def _nominator_turns(pipeline: Pipeline, leaf: Stage) -> Iterator[Turn]:
    if not isinstance(leaf, Nominator):
        return
    for times in TIMES:
        yield _changed(pipeline, 0, leaf, "limit", leaf.limit * times, limit=leaf.limit * times)
    if isinstance(leaf, TreeNominator):
        beam_width = max(leaf.beam, -(-leaf.limit // leaf.index.tree.shape.branch))
        yield _changed(pipeline, 0, leaf, "beam", 2 * beam_width, beam=2 * beam_width)
    if isinstance(leaf, JTRNominator):
        yield _changed(pipeline, 0, leaf, "beam", 2 * leaf.beam_width, beam=2 * leaf.beam_width)
    if isinstance(leaf, ModelNominator):
        for name, value in _reach(leaf).items():
            yield _changed(pipeline, 0, leaf, name, 2 * value, **{name: 2 * value})


def _reach(leaf: ModelNominator) -> dict[str, int]:
    """How far an approximate index looks, by the names of its knobs."""
    choices = getattr(leaf.built, "choices", None)
    given: dict[str, int] = choices.given() if choices is not None and leaf.index != "exact" else {}
    return {name: given[name] for name in ("ef", "nprobe") if given.get(name)}


def _cut_turns(pipeline: Pipeline, number: int, stage: Stage) -> Iterator[Turn]:
    """A wider cut and none; a selector in the middle is a cut too."""
    if isinstance(stage, Top):
        beam_width, off = Top(bare(stage), stage.k * 2), bare(stage)
        yield _step(pipeline, number, "cut", str(stage.k * 2), beam_width)
        yield _step(pipeline, number, "cut", "none", off)
    if isinstance(stage, Selector):
        yield _step(pipeline, number, "places", str(stage.k * 2), stage.renewed(k=stage.k * 2))


def _stage_turns(pipeline: Pipeline, number: int, leaf: Stage) -> Iterator[Turn]:
    if isinstance(leaf, Diverse) and leaf.strength > 0:
        yield _changed(pipeline, number, leaf, "strength", 0, strength=0.0)
    if isinstance(leaf, Explore):
        changed = exchanged(pipeline, leaf.title, lambda one: Best(name=one.title, k=leaf.k))
        yield Turn(leaf.title, "chance", "none", changed, number)


def _changed(
    pipeline: Pipeline, number: int, leaf: Stage, label: str, setting: int, **changes: float
) -> Turn:
    changed = exchanged(pipeline, leaf.title, lambda one: one.renewed(**changes))
    return Turn(leaf.title, label, str(setting), changed, number)


def _step(pipeline: Pipeline, number: int, label: str, setting: str, stage: Stage) -> Turn:
    return Turn(stage.title, label, setting, exchanged_step(pipeline, number, lambda _: stage), number)


def _asked(turn: Turn, one: UserSample) -> tuple[Ints, float]:
    """What comes back to each case [C], and how many candidates the turned step passes on per request."""
    found, kept = [], 0
    for batch in one.batches:
        with torch.no_grad():
            slate = run(turn.pipeline, batch.query)
        found.append(hits(slate.candidates, batch.truth))
        kept += int(slate.trace.steps[turn.step].kept.sum())
    return np.concatenate(found), kept / max(len(one), 1)
