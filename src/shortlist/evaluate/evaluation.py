"""Evaluation of one bundle: metrics with intervals beside those of baselines, and the losses of every stage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import torch

from shortlist.data import Dataset, HeldOut, Interactions, open_dataset
from shortlist.evaluate.example import WorkedExample, typical_request, worked_example
from shortlist.evaluate.funnel import FunnelMetrics
from shortlist.evaluate.headline import (
    Against,
    Headline,
    below_warning,
    best_baseline,
    headline,
    headline_of,
)
from shortlist.evaluate.losses import StageLosses
from shortlist.evaluate.pipeline_evaluation import (
    PIPELINE,
    PipelineEvaluation,
    Segment,
    evaluate_pipeline,
    slate_scorer,
)
from shortlist.evaluate.protocol.baselines import POPULARITY
from shortlist.evaluate.protocol.fitted_baselines import check_choice, collect_baselines
from shortlist.evaluate.protocol.held_out import check_not_empty, held_out_part, split_of
from shortlist.evaluate.protocol.measures import Measures, choose_measures
from shortlist.evaluate.protocol.rules import Protocol, protocol_of
from shortlist.evaluate.protocol.run_warnings import limit_warnings, training_warnings
from shortlist.evaluate.scores import SystemMetrics
from shortlist.evaluate.table import metrics_to_arrow
from shortlist.metrics.significance import PairedTest
from shortlist.pipeline import About, Recommender, open_recommender
from shortlist.pipeline.batch.held_out import slates_of
from shortlist.pipeline.offline import offline
from shortlist.pipeline.recommender import resized
from shortlist.progress import Progress, silent


@dataclass(frozen=True)
class Evaluation:
    """The result of `evaluate`: everything its page and its tables show."""

    users: int
    headline: Headline
    expression: str  # of the pipeline as it was evaluated
    metrics: Mapping[str, SystemMetrics]  # "pipeline" first, then the baselines
    differences: Mapping[str, Mapping[str, PairedTest]]  # pipeline - baseline, by baseline and metric
    segments: Mapping[str, Segment]
    losses: StageLosses
    funnel: FunnelMetrics
    example: WorkedExample
    protocol: Protocol
    about: About
    warnings: tuple[str, ...]

    @property
    def best_baseline(self) -> str:
        """The best baseline by the metric that decides."""
        return self.headline.best.baseline

    @property
    def tested(self) -> tuple[str, ...]:
        """The metrics with paired tests, the one that decides first."""
        return tuple(self.differences[self.best_baseline])

    def mean(self, system: str, metric: str | None = None) -> float:
        """The mean of one metric, by default the one that decides; NaN without users."""
        return self.metrics[system].metrics[metric or self.headline.metric].mean

    def to_arrow(self) -> pa.Table:
        """One row per system and metric, with users, mean and interval."""
        return metrics_to_arrow(self.metrics)

    def __str__(self) -> str:
        means = (f"{name} {self.mean(name):.4f}" for name in self.metrics)
        lines = [f"{self.about.name}: {self.headline}", f"{self.headline.metric}: {', '.join(means)}"]
        return "\n".join([*lines, str(self.losses)])


def evaluate(
    bundle: Recommender | Path | str,
    data: Dataset | Path | str,
    *,
    on: str = "test",
    metrics: str | Sequence[str] | None = None,
    at: str | int | Sequence[int] | None = None,
    baselines: str = "auto",
    seed: int = 0,
    progress: Progress = silent,
) -> Evaluation:
    """Evaluate a bundle on the users its split held out.

    `bundle` and `data` are objects or their folders; `on` is "test" or "valid". `metrics` ("recall,ndcg") and the
    cut-offs `at` ("5,10,50") replace all metrics at 10 and 20; the first metric at the largest cut-off decides.
    `baselines`: "counts" are the counted ones; "all" also fits EASE and item neighbours that the bundle does not store,
    "auto" only where that is cheap.
    """
    measures = choose_measures(metrics, at)  # refuse a wrong choice before anything is loaded
    check_choice(baselines)
    opened = open_recommender(bundle).as_measured()
    return _evaluation(opened, open_dataset(data), on, measures, baselines, seed, progress)


def _evaluation(
    bundle: Recommender,
    data: Dataset,
    on: str,
    measures: Measures,
    choice: str,
    seed: int,
    progress: Progress,
) -> Evaluation:
    split = split_of(bundle, data)
    held_out = held_out_part(split, on)
    check_not_empty(held_out)
    known = collect_baselines(
        [bundle], held_out, split.train, on, measures.slate, data.clock, choice, progress
    )
    found = evaluate_pipeline(
        offline(bundle.pipeline),
        held_out,
        split.train,
        progress=progress,
        measures=measures,
        baselines=known.slates,
    )
    row = typical_request(found.scores[measures.metric])
    values, tests = found.metrics(seed), found.differences(seed)
    return Evaluation(
        len(held_out),
        _headline(found, values, tests, on),
        repr(resized(bundle.pipeline, measures.slate)),
        values,
        tests,
        found.by_segment(seed),
        found.losses,
        found.funnel(seed),
        worked_example(bundle, data, held_out, row),
        protocol_of(split.settings, on, len(held_out), {bundle.about.name: bundle.pipeline}, known.rule),
        bundle.about,
        (
            *training_warnings(bundle.about),
            *below_warning(
                PIPELINE, measures.metric, {name: own[measures.metric] for name, own in tests.items()}
            ),
            *limit_warnings(bundle.pipeline),
        ),
    )


def _headline(
    found: PipelineEvaluation,
    values: Mapping[str, SystemMetrics],
    tests: Mapping[str, Mapping[str, PairedTest]],
    on: str,
) -> Headline:
    """The headline from the metrics and tests of an evaluation."""
    measures = found.measures
    metric, best = measures.metric, best_baseline(found.baselines, measures.metric)
    known = {
        name: Against.of(name, values[name].metrics[metric], tests[name][metric])
        for name in (best, POPULARITY)
    }
    value, users = values[PIPELINE].metrics[metric], len(found.scores)
    return headline_of(metric, value, on, users, measures.slate, known[best], known[POPULARITY])


@torch.no_grad()
def measure_headline(
    bundle: Recommender,
    held_out: HeldOut,
    train: Interactions,
    on: str,
    measures: Measures,
    clock: str = "ms",
    seed: int = 0,
    progress: Progress = silent,
) -> Headline:
    """The headline of a bundle without the rest of an evaluation: the same numbers as in `evaluate`."""
    score = slate_scorer(held_out, train, measures)
    scores = score(slates_of(offline(bundle.pipeline), held_out, measures.slate, progress))
    slates = collect_baselines([bundle], held_out, train, on, measures.slate, clock, progress=progress).slates
    known = {name: score(own) for name, own in slates.items()}
    return headline(scores, known, measures.metric, on, measures.slate, seed)
