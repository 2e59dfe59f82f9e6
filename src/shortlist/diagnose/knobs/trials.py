"""Settings of a pipeline tried out: how long each takes, and what it returns to the same users."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from shortlist.data import Candidates
from shortlist.data.membership import is_in
from shortlist.diagnose.knobs.sizes import Changes, Dial, as_toml, in_words, turned
from shortlist.diagnose.knobs.stage_times import Times
from shortlist.diagnose.offline import offline
from shortlist.diagnose.sample import UserSample
from shortlist.evaluate.losses import Ints
from shortlist.grammar import Pipeline
from shortlist.metrics.estimate import Estimate
from shortlist.pipeline import run
from shortlist.pipeline.recommender import resized

PRESENT = "as it is"


@dataclass(frozen=True, eq=False)
class Setting:
    """A pipeline with some of its sizes changed; none is the pipeline as it is."""

    changes: Changes
    pipeline: Pipeline
    label: str
    predicted: tuple[float, float] | None = (
        None  # 95 % within ms, and the metric, for settings made of several
    )

    @classmethod
    def of(cls, pipeline: Pipeline, changes: Changes, label: str | None = None) -> "Setting":
        said = ", ".join(in_words(what, stage, value) for (stage, what), value in changes.items())
        return cls(dict(changes), turned(pipeline, changes), label or said or PRESENT)

    def foretold(self, late_ms: float, worth: float) -> "Setting":
        """The same with what one expects of it."""
        return replace(self, predicted=(late_ms, worth))


@dataclass(frozen=True, eq=False)
class Returned:
    """What a setting returns to each case of a panel."""

    hits: Ints  # [C] wanted items in the slate
    first: Ints  # [C] 1 where the first item is wanted

    def of(self, metric: str) -> Ints:
        return self.hits if metric == "recall" else self.first


@dataclass(frozen=True, eq=False)
class Trial:
    """A setting that was really measured; `gain` is what its metric is above that of the present one, user by user."""

    setting: Setting
    times: Times
    returned: Returned
    recall: Estimate
    precision_at_1: Estimate
    gain: Estimate

    def worth(self, metric: str) -> float:
        """The mean of the metric; 0 where there is none."""
        return (self.recall if metric == "recall" else self.precision_at_1).mean or 0.0

    def as_dict(self, dials: Sequence[Dial]) -> dict[str, Any]:
        """Plain values; `dials` say where sizes stood."""
        stood = {dial.key: dial.value for dial in dials}
        expected = self.setting.predicted
        return {
            "label": self.setting.label,
            "changes": [
                {"stage": stage, "what": what, "from": stood[stage, what], "to": value}
                for (stage, what), value in self.setting.changes.items()
            ],
            "pipeline": repr(self.setting.pipeline),
            "toml": as_toml(self.setting.pipeline, self.setting.changes),
            "median_ms": self.times.median_ms,
            "p95_ms": self.times.p95_ms,
            "requests": self.times.requests,
            "stages": [dict(vars(one)) for one in self.times.stages],
            "recall": self.recall.as_dict(),
            "precision_at_1": self.precision_at_1.as_dict(),
            "gain": self.gain.as_dict(),
            "predicted": None if expected is None else {"p95_ms": expected[0], "worth": expected[1]},
        }


@torch.no_grad()
def returned(pipeline: Pipeline, asked: UserSample, k: int) -> Returned:
    """Slates of k for all cases, and what of them was wanted; many are asked at once, so time limits do not count."""
    sized = resized(offline(pipeline), k)
    parts = [_counted(run(sized, batch.query).candidates, batch.truth) for batch in asked.batches]
    return Returned(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def trial(
    setting: Setting, times: Times, found: Returned, present: Returned, asked: UserSample, metric: str
) -> Trial:
    """A setting with its numbers beside those of the present one."""
    return Trial(
        setting,
        times,
        found,
        asked.share(found.hits),
        asked.mean(found.first),
        apart(found, present, asked, metric),
    )


def apart(one: Returned, other: Returned, asked: UserSample, metric: str) -> Estimate:
    """What the metric of one is above that of the other, on the same users."""
    difference = one.of(metric) - other.of(metric)
    return asked.share(difference) if metric == "recall" else asked.mean(difference)


def frontier(trials: Mapping[str, Trial], metric: str) -> list[str]:
    """Labels of the settings that no other one beats in time and metric at once, the fastest first."""
    ordered = sorted(trials.values(), key=lambda one: (one.times.p95_ms, -one.worth(metric)))
    kept: list[str] = []
    best = -np.inf
    for one in ordered:
        if one.worth(metric) > best:
            kept.append(one.setting.label)
            best = one.worth(metric)
    return kept


def _counted(found: Candidates, truth: torch.Tensor) -> tuple[Ints, Ints]:
    items = found.items.masked_fill(~found.valid, -1)
    wanted = is_in(items, truth)
    first = wanted[:, 0] if wanted.shape[1] else torch.zeros(len(truth), dtype=torch.bool)
    return wanted.sum(1).numpy(), first.long().numpy()
