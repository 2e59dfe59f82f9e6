"""The headline of a bundle: one metric on all held-out users, against the best baseline and against popularity.

`evaluate`, `compare` and `diagnose` print the same headline for the same bundle and the same part of the split.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from shortlist.evaluate.baselines import POPULARITY
from shortlist.evaluate.scores import Scores
from shortlist.metrics.significance import Interval, PairedTest

ALPHA = 0.05  # significance level of p-values
SAMPLES = 2000  # bootstrap samples and sign flips; no p-value is below 1 / (SAMPLES + 1)
BETTER, SAME, WORSE = "better than", "not significantly different from", "worse than"
PARTS = {"test": "test users", "valid": "validation users"}


@dataclass(frozen=True)
class Against:
    """A baseline on the same users, the paired difference to it, and the verdict."""

    baseline: str
    value: Interval
    test: PairedTest  # the pipeline less the baseline
    verdict: str  # BETTER, SAME or WORSE

    def text(self, addition: str = "") -> str:
        """The verdict with its numbers; `addition` follows the name of the baseline."""
        bounds = f"{self.test.difference:+.4f} [{self.test.low:+.4f}, {self.test.high:+.4f}]"
        return f"{self.verdict} {self.baseline}{addition} ({self.value.mean:.4f}, difference {bounds})"


@dataclass(frozen=True)
class Headline:
    """The metric that decides, on all held-out users of one part of the split."""

    metric: str
    value: Interval
    on: str  # "test" or "valid"
    users: int
    slate: int  # items per slate
    best: Against  # the best baseline by this metric
    popularity: Against
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def headline(
    scores: Scores, baselines: Mapping[str, Scores], metric: str, on: str, slate: int, seed: int = 0
) -> Headline:
    """The headline of a system with these scores; the first of the baselines is popularity."""
    value = scores.interval(metric, seed)
    name = best_baseline(baselines, metric)
    best = _against(scores, name, baselines[name], metric, seed)
    popularity = (
        best if name == POPULARITY else _against(scores, POPULARITY, baselines[POPULARITY], metric, seed)
    )
    also = "" if best is popularity else f", and {popularity.text()}"
    sentence = (
        f"{metric} is {value.mean:.4f} [{value.low:.4f}, {value.high:.4f}] on all {len(scores):,} {part_name(on)}, "
        f"slates of {slate}: {best.text(', the best baseline')}{also}."
    )
    return Headline(metric, value, on, len(scores), slate, best, popularity, sentence)


def best_baseline(baselines: Mapping[str, Scores], metric: str) -> str:
    """The baseline with the highest mean; the first of equal ones."""
    return max(baselines, key=lambda name: float(baselines[name][metric].nanmean().nan_to_num()))


def verdict_of(test: PairedTest, p_value: float | None = None) -> str:
    """Whether a difference is significant: its interval excludes 0, and its (adjusted) p-value is below ALPHA."""
    if (test.p_value if p_value is None else p_value) < ALPHA:
        return BETTER if test.above else WORSE if test.below else SAME
    return SAME


def part_name(on: str) -> str:
    """A part of a split in words."""
    return PARTS.get(on, "held-out users")


def _against(scores: Scores, name: str, baseline: Scores, metric: str, seed: int) -> Against:
    test = scores.against(baseline, metric, seed, SAMPLES)
    return Against(name, baseline.interval(metric, seed), test, verdict_of(test))
