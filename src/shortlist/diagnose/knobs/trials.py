"""Settings of a pipeline tried out: latency of each, and its hits for the same users."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from shortlist.data import Candidates
from shortlist.data.membership import is_in
from shortlist.diagnose.knobs.sizes import Changes, as_expression, with_sizes
from shortlist.diagnose.knobs.stage_times import Times
from shortlist.diagnose.sample import UserSample
from shortlist.evaluate.losses import Ints
from shortlist.grammar import Pipeline
from shortlist.metrics.estimate import Estimate
from shortlist.pipeline import run
from shortlist.pipeline.offline import offline
from shortlist.pipeline.recommender import resized

CURRENT = "current"


@dataclass(frozen=True)
class Predicted:
    """Latency and metric of a setting if the effects of its single changes added up."""

    p95_ms: float
    value: float


@dataclass(frozen=True, eq=False)
class SizeSetting:
    """A pipeline with some of its sizes changed; without changes it is the current one."""

    changes: Changes
    pipeline: Pipeline
    label: str
    predicted: Predicted | None = None  # for settings of several changes

    @classmethod
    def of(cls, pipeline: Pipeline, changes: Changes, label: str | None = None) -> "SizeSetting":
        parts = ", ".join(as_expression(stage, knob, value) for (stage, knob), value in changes.items())
        return cls(dict(changes), with_sizes(pipeline, changes), label or parts or CURRENT)

    def with_prediction(self, p95_ms: float, value: float) -> "SizeSetting":
        """The same setting with what is predicted for it."""
        return replace(self, predicted=Predicted(p95_ms, value))


@dataclass(frozen=True, eq=False)
class Hits:
    """What a setting returns to each request of a sample."""

    hits: Ints  # [C] relevant items in the slate
    first: Ints  # [C] 1 where the first item is relevant

    def of(self, metric: str) -> Ints:
        return self.hits if metric == "recall" else self.first


@dataclass(frozen=True, eq=False)
class Trial:
    """A setting that was measured; `gain` is its metric less that of the current setting, on the same users."""

    setting: SizeSetting
    times: Times
    hits: Hits
    recall: Estimate
    precision_at_1: Estimate
    gain: Estimate

    def value(self, metric: str) -> float:
        """The mean of the metric; 0 where there is none."""
        return (self.recall if metric == "recall" else self.precision_at_1).mean or 0.0


@torch.no_grad()
def count_slates(pipeline: Pipeline, sample: UserSample, k: int) -> Hits:
    """Hits of slates of k for all requests; they run in batches, so time limits do not count."""
    sized = resized(offline(pipeline), k)
    parts = [_counted(run(sized, batch.query).candidates, batch.relevant) for batch in sample.batches]
    return Hits(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def trial(
    setting: SizeSetting, times: Times, hits: Hits, current: Hits, sample: UserSample, metric: str
) -> Trial:
    """A setting with its metrics and the difference from the current one."""
    gain = difference(hits, current, sample, metric)
    return Trial(setting, times, hits, sample.recall(hits.hits), sample.mean(hits.first), gain)


def difference(a: Hits, b: Hits, sample: UserSample, metric: str) -> Estimate:
    """The metric of `a` less that of `b`, on the same users."""
    apart = a.of(metric) - b.of(metric)
    return sample.recall(apart) if metric == "recall" else sample.mean(apart)


def frontier(trials: Mapping[str, Trial], metric: str) -> list[str]:
    """Labels of the Pareto-optimal settings in latency and metric, the fastest first."""
    ordered = sorted(trials.values(), key=lambda one: (one.times.p95_ms, -one.value(metric)))
    kept: list[str] = []
    best = -np.inf
    for one in ordered:
        if one.value(metric) > best:
            kept.append(one.setting.label)
            best = one.value(metric)
    return kept


def _counted(found: Candidates, relevant: torch.Tensor) -> tuple[Ints, Ints]:
    hits = is_in(found.items.masked_fill(~found.valid, -1), relevant)
    first = hits[:, 0] if hits.shape[1] else torch.zeros(len(relevant), dtype=torch.bool)
    return hits.sum(1).numpy(), first.long().numpy()
