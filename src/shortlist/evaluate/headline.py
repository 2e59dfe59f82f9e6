"""The headline of a bundle: one metric on all held-out users, against the best baseline and against popularity.

`evaluate`, `compare` and `diagnose` print the same headline for the same bundle and the same part of the split.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from shortlist.evaluate.protocol.baselines import POPULARITY
from shortlist.evaluate.scores import Scores
from shortlist.metrics.significance import Interval, PairedTest, bootstraps, paired_tests

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

    @classmethod
    def of(cls, baseline: str, value: Interval, test: PairedTest) -> "Against":
        """A baseline whose verdict follows from its test."""
        return cls(baseline, value, test, verdict_of(test))

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
    names = tuple(dict.fromkeys((best_baseline(baselines, metric), POPULARITY)))
    ours, theirs = scores[metric], [baselines[name][metric] for name in names]
    value, *values = bootstraps([ours, *theirs], seed)
    tests = paired_tests([(ours, one) for one in theirs], seed, SAMPLES)
    known = [Against.of(*row) for row in zip(names, values, tests, strict=True)]
    return headline_of(metric, value, on, len(scores), slate, known[0], known[-1])


def headline_of(
    metric: str, value: Interval, on: str, users: int, slate: int, best: Against, popularity: Against
) -> Headline:
    """The headline from results that are known; `best` is `popularity` where that is the best baseline."""
    best = popularity if best.baseline == POPULARITY else best
    also = "" if best is popularity else f", and {popularity.text()}"
    sentence = (
        f"{metric} is {value.mean:.4f} [{value.low:.4f}, {value.high:.4f}] on all {users:,} {part_name(on)}, "
        f"slates of {slate}: {best.text(', the best baseline')}{also}."
    )
    return Headline(metric, value, on, users, slate, best, popularity, sentence)


def below_warning(system: str, metric: str, tests: Mapping[str, PairedTest]) -> tuple[str, ...]:
    """A warning that lists the baselines a system is below: the interval of the system less the baseline is below 0."""
    below = {name: bounds(test) for name, test in tests.items() if test.below}
    differences = "; ".join(below.values())
    return (f"{system}: is below {', '.join(below)} by {metric} ({differences})",) if below else ()


def bounds(test: PairedTest) -> str:
    """A difference with its interval."""
    return f"{test.difference:+.4f}, [{test.low:+.4f}, {test.high:+.4f}]"


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
