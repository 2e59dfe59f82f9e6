"""Paired tests of several systems with each other and with the baselines, and what limits them."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import NormalDist

from shortlist.errors import DataError
from shortlist.evaluate.headline import (
    ALPHA,
    SAME,
    SAMPLES,
    below_warning,
    best_baseline,
    bounds,
    verdict_of,
)
from shortlist.evaluate.protocol.run_warnings import training_warnings
from shortlist.evaluate.scores import Scores
from shortlist.metrics.significance import PairedTest, holm, p_text, paired_tests
from shortlist.metrics.t_tests import TTests, user_t_tests
from shortlist.pipeline import About

POWER = 0.8  # of the sample size in warnings


@dataclass(frozen=True)
class Pair:
    """A system against another system or a baseline; `p_holm` is adjusted for all pairs of the comparison."""

    system: str
    against: str
    test: PairedTest
    p_holm: float
    significant: bool  # the interval excludes 0 and p_holm is below ALPHA
    t_tests: TTests | None = None  # beside the randomisation test, which decides; None outside the correction

    @classmethod
    def of(
        cls, system: str, against: str, test: PairedTest, p_holm: float, t_tests: TTests | None = None
    ) -> "Pair":
        """A pair whose significance follows from its test and adjusted p-value."""
        return cls(system, against, test, p_holm, verdict_of(test, p_holm) != SAME, t_tests)

    def sentence(self, metric: str) -> str:
        """The result in one sentence."""
        verb = "is not significantly different from"
        if self.significant:
            verb = "beats" if self.test.above else "is beaten by"
        interval = f"[{self.test.low:+.4f}, {self.test.high:+.4f}]"
        return f"{self.system} {verb} {self.against}: {metric} {self.test.difference:+.4f} {interval}."


@dataclass(frozen=True)
class PairedTests:
    """Every system against the first, then every system against the best baseline, with Holm's correction."""

    metric: str
    best_baseline: str
    pairs: tuple[Pair, ...]
    popularity: tuple[Pair, ...]  # every system against the first baseline; not part of the correction
    baselines: Mapping[str, Mapping[str, PairedTest]] = field(
        default_factory=dict
    )  # by system, every baseline


def compare_scores(
    systems: Mapping[str, Scores],
    baselines: Mapping[str, Scores],
    metric: str = "recall@20",
    seed: int = 0,
    samples: int = SAMPLES,
) -> PairedTests:
    """Test every system against the first, and each against the baseline that is best by the metric."""
    _check_scores(systems, baselines)
    first, *others = systems
    best, popularity = best_baseline(baselines, metric), next(iter(baselines))
    names = [(name, first) for name in others] + [(name, one) for name in systems for one in baselines]
    scores = {**baselines, **systems}
    found = paired_tests([(scores[a][metric], scores[b][metric]) for a, b in names], seed, samples)
    tests = dict(zip(names, found, strict=True))

    def pairs(*chosen: tuple[str, str]) -> list[Pair]:
        return [Pair.of(*names, tests[names], tests[names].p_value) for names in chosen]

    corrected = pairs(*((name, first) for name in others), *((name, best) for name in systems))
    return PairedTests(
        metric,
        best,
        _adjusted(corrected, scores, metric),
        tuple(pairs(*((name, popularity) for name in systems))),
        {name: {one: tests[name, one] for one in baselines} for name in systems},
    )


def _check_scores(systems: Mapping[str, Scores], baselines: Mapping[str, Scores]) -> None:
    counts = {name: len(scores) for name, scores in {**systems, **baselines}.items()}
    if not systems or not baselines or set(systems) & set(baselines) or len(set(counts.values())) != 1:
        raise DataError(
            "compare: expected systems and baselines of different names with scores of the same users, "
            f"got {counts}"
        )


def _adjusted(pairs: list[Pair], scores: Mapping[str, Scores], metric: str) -> tuple[Pair, ...]:
    """The pairs with t-tests, and every p-value corrected for all of them."""
    adjusted = holm([pair.test.p_value for pair in pairs])
    t_tests = user_t_tests([(scores[pair.system][metric], scores[pair.against][metric]) for pair in pairs])
    return tuple(
        Pair.of(pair.system, pair.against, pair.test, p_holm, own)
        for pair, p_holm, own in zip(pairs, adjusted, t_tests, strict=True)
    )


def comparison_warnings(tests: PairedTests, abouts: Mapping[str, About]) -> tuple[str, ...]:
    """Reasons not to trust a comparison, the most serious first."""
    return (
        *(f"{name}: {text}" for name, about in abouts.items() for text in training_warnings(about)),
        *_not_above(tests),
        *_too_few_users(tests),
        *_same_model(abouts),
        *_different({name: about.seed for name, about in abouts.items()}, "with different seeds"),
        *_different({name: about.package for name, about in abouts.items()}, "by different package versions"),
    )


def _not_above(tests: PairedTests) -> Iterator[str]:
    """Systems below any baseline, and those that are not significantly above popularity."""
    for pair in tests.popularity:
        if not (pair.significant and pair.test.above) and not pair.test.below:
            yield f"{pair.system}: is not significantly above {pair.against} by {tests.metric} ({bounds(pair.test)})"
    for name, own in tests.baselines.items():
        yield from below_warning(name, tests.metric, own)


def _too_few_users(tests: PairedTests) -> Iterator[str]:
    for pair in tests.pairs:
        if not pair.significant and pair.test.difference:
            yield (
                f"{pair.system} and {pair.against}: too few users to separate them by {tests.metric}: the difference "
                f"is {bounds(pair.test)}, Holm's p-value {p_text(pair.p_holm)}{_needed(pair, len(tests.pairs))}"
            )


def _needed(pair: Pair, pairs: int) -> str:
    """The sample size at which a difference of the observed size would be significant among all pairs."""
    effect, normal = abs(pair.test.effect_size), NormalDist()
    errors = normal.inv_cdf(1 - ALPHA / 2 / pairs) + normal.inv_cdf(POWER)  # in standard errors
    return f"; about {math.ceil((errors / effect) ** 2):,} users are needed" if effect > 0 else ""


def _same_model(abouts: Mapping[str, About]) -> Iterator[str]:
    for version in dict.fromkeys(about.version for about in abouts.values() if about.version):
        same = [name for name, about in abouts.items() if about.version == version]
        if len(same) > 1:
            yield f"{', '.join(same)}: are the same model ({version})"


def _different(values: Mapping[str, int | str], how: str) -> Iterator[str]:
    if len(set(values.values())) > 1:
        listed = ", ".join(f"{name} {value}" for name, value in values.items())
        yield f"the systems were trained {how}: {listed}"
