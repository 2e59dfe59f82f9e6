"""Knobs that need no training, changed and measured: the effect on recall and on the number of candidates."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from shortlist.diagnose.knobs.rewritten import Change, Open, replace_stage, replace_step, with_full_catalog
from shortlist.diagnose.sample import UserSample, count_hits, sample_users
from shortlist.evaluate.losses import Ints
from shortlist.grammar import Nominator, Pipeline, Stage, Top, as_pipeline, kind_of, leaves
from shortlist.metrics.estimate import Estimate
from shortlist.pipeline import run
from shortlist.pipeline.batch.held_out import BATCH
from shortlist.progress import Progress, silent, tracked

FACTORS = {"limit": (2, 4)}  # of a nominator's knobs; the others are doubled
FULL_CATALOG = 10_000  # items of the largest catalogue that is passed through all stages
AT_ONCE = 1 << 18  # candidates of such a batch, at most


@dataclass(frozen=True)
class KnobResult:
    """Another setting of a stage and its effect; `gain` is None if it was not measured, such as without retraining."""

    stage: str
    knob: str
    setting: str
    gain: Estimate | None  # of recall
    candidates: float | None  # per request after the stage in this setting; for a nominator, after the pool
    needs_training: bool = False
    why: str | None = None  # why it could not be measured
    seconds: float | None = None  # of its training; stages that did not change were not fitted again
    p_value: float | None = None  # of a sign-flip test over users, of those that need training
    options: str = ""  # of `shortlist train`, to train with this setting


@dataclass(frozen=True, eq=False)
class KnobChange:
    """A pipeline in which one knob has another value."""

    stage: str
    knob: str
    setting: str
    pipeline: Pipeline
    step: int  # whose candidates are counted


def measure_knobs(
    pipeline: Stage, sample: UserSample, base: Ints, progress: Progress = silent
) -> tuple[KnobResult, ...]:
    """Every knob changed alone, on the same sample; `base` [C] are the hits of the pipeline as it is."""
    whole = as_pipeline(pipeline)
    results = _measured(list(knob_changes(whole)), sample, base, progress)
    size = max(1, min(BATCH, AT_ONCE // max(sample.n_items, 1)))
    small_batches = sample_users(sample.held_out, sample.n_items, seed=sample.seed, batch=size)
    return (*results, *_measured(list(_full_catalog(whole, sample.n_items)), small_batches, base, progress))


def measure_filters(
    pipeline: Stage, sample: UserSample, base: Ints, progress: Progress = silent
) -> tuple[KnobResult, ...]:
    """Every filter left out in turn: the cost of its rule, not advice to remove it."""
    return _measured(list(filter_changes(as_pipeline(pipeline))), sample, base, progress)


def _measured(
    changes: list[KnobChange], sample: UserSample, base: Ints, progress: Progress
) -> tuple[KnobResult, ...]:
    results = []
    for change in tracked(changes, "change knobs", progress):
        hits, candidates = _run(change, sample)
        gain = sample.recall(hits - base)
        results.append(KnobResult(change.stage, change.knob, change.setting, gain, candidates))
    return tuple(results)


def knob_changes(pipeline: Pipeline) -> Iterator[KnobChange]:
    """All changes of knobs that need no training; the size of the slate stays."""
    for leaf in leaves(pipeline.stages[0]):
        if isinstance(leaf, Nominator):
            yield from _nominator_changes(pipeline, leaf)
    for number, stage in enumerate(pipeline.stages):
        if number < len(pipeline.stages) - 1:
            yield from _size_changes(pipeline, number, stage)
        for leaf in leaves(stage) if number else ():
            yield from _off_changes(pipeline, number, leaf)


def _nominator_changes(pipeline: Pipeline, leaf: Nominator) -> Iterator[KnobChange]:
    for knob in leaf.knobs():
        for factor in FACTORS.get(knob.name, (2,)):
            value = int(knob.value) * factor
            changed = replace_stage(pipeline, leaf.title, _by(leaf.renewed(**{knob.name: value})))
            yield KnobChange(leaf.title, knob.name, str(value), changed, 0)


def _size_changes(pipeline: Pipeline, number: int, stage: Stage) -> Iterator[KnobChange]:
    """A cut doubled and left out; the size of a selector before the last stage doubled."""
    label = "cut" if isinstance(stage, Top) else "k"
    for knob in stage.knobs():
        if knob.name != "k":
            continue
        value = 2 * int(knob.value)
        other = stage.switched_off("k") if knob.rule == "off" else stage.renewed(k=value)
        changed = replace_step(pipeline, number, _by(other))
        yield KnobChange(stage.title, label, "none" if knob.rule == "off" else str(value), changed, number)


def _off_changes(pipeline: Pipeline, number: int, leaf: Stage) -> Iterator[KnobChange]:
    for knob in leaf.knobs():
        if knob.rule == "off":
            changed = replace_stage(pipeline, leaf.title, _by(leaf.switched_off(knob.name)))
            yield KnobChange(leaf.title, knob.name, "0", changed, number)


def _by(other: Stage) -> Change:
    """The change that puts another stage in the place of any."""
    return lambda _: other


def _full_catalog(pipeline: Pipeline, n_items: int) -> Iterator[KnobChange]:
    """The whole catalogue in the pool: the most any nominator could bring with the later stages as they are."""
    if n_items <= FULL_CATALOG and len(pipeline.stages) > 1:
        changed = with_full_catalog(pipeline, n_items)
        yield KnobChange(pipeline.stages[0].title, "candidates", "whole catalogue", changed, 0)


def filter_changes(pipeline: Pipeline) -> Iterator[KnobChange]:
    """The pipeline without each of its filters."""
    for number, stage in enumerate(pipeline.stages[1:], start=1):
        for leaf in leaves(stage):
            if kind_of(leaf) == "filter":
                changed = replace_stage(pipeline, leaf.title, lambda stage: Open(name=stage.title))
                yield KnobChange(leaf.title, "rule", "left out", changed, number)


def _run(change: KnobChange, sample: UserSample) -> tuple[Ints, float]:
    """Hits per request [C], and the number of candidates per request after the changed step."""
    hits, kept = [], 0
    for batch in sample.batches:
        with torch.no_grad():
            slate = run(change.pipeline, batch.query)
        hits.append(count_hits(slate.candidates, batch.relevant))
        kept += int(slate.trace.steps[change.step].kept.sum())
    return np.concatenate(hits), kept / max(len(sample), 1)
