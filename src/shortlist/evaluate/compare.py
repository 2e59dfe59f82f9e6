"""Comparison of bundles with each other and with the baselines on the same users: paired tests, latency, warnings."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import pyarrow as pa

from shortlist import __version__
from shortlist.data import Dataset, HeldOut, Split, open_dataset
from shortlist.errors import ConfigError, DataError
from shortlist.evaluate.baselines import LAST, POPULARITY, WINDOW, baselines
from shortlist.evaluate.evaluation import (
    check_not_empty,
    held_out_part,
    limit_warnings,
    slate_scorer,
    slates_of,
    split_of,
    training_warnings,
)
from shortlist.evaluate.headline import (
    ALPHA,
    SAME,
    SAMPLES,
    Headline,
    best_baseline,
    headline,
    part_name,
    verdict_of,
)
from shortlist.evaluate.latency import Latency, latencies
from shortlist.evaluate.measures import Measures, choose_measures
from shortlist.evaluate.protocol import Protocol, protocol_of
from shortlist.evaluate.scores import Scores, SystemMetrics
from shortlist.evaluate.table import metrics_to_arrow
from shortlist.grammar import Pipeline
from shortlist.metrics.significance import PairedTest, holm, p_text
from shortlist.pipeline import About, Recommender, open_recommender
from shortlist.pipeline.offline import offline
from shortlist.pipeline.recommender import resized
from shortlist.progress import Progress, silent

POWER = 0.8  # of the sample size in warnings

Bundles = Mapping[str, Recommender | Path | str] | Sequence[Recommender | Path | str] | Recommender | Path
"""One bundle or several: objects or folders, with or without names."""


@dataclass(frozen=True)
class Pair:
    """A system against another system or a baseline; `p_holm` is adjusted for all pairs of the comparison."""

    system: str
    against: str
    test: PairedTest
    p_holm: float
    significant: bool  # the interval excludes 0 and p_holm is below ALPHA

    @classmethod
    def of(cls, system: str, against: str, test: PairedTest, p_holm: float) -> "Pair":
        """A pair whose significance follows from its test and adjusted p-value."""
        return cls(system, against, test, p_holm, verdict_of(test, p_holm) != SAME)

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


@dataclass(frozen=True)
class System:
    """One bundle in a comparison."""

    headline: Headline  # of this bundle alone, as `evaluate` and `diagnose` give it
    scores: SystemMetrics
    latency: Latency
    expression: str  # of the pipeline as it was evaluated
    about: About


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`: everything its page and its tables show."""

    users: int
    metric: str  # that decides
    best_baseline: str
    systems: Mapping[str, System]
    baselines: Mapping[str, SystemMetrics]
    pairs: tuple[Pair, ...]
    findings: tuple[str, ...]
    warnings: tuple[str, ...]
    protocol: Protocol
    data: str
    fingerprint: str
    seed: int
    package: str

    @property
    def metrics(self) -> dict[str, SystemMetrics]:
        """Metrics of all systems, then of the baselines."""
        return {name: system.scores for name, system in self.systems.items()} | dict(self.baselines)

    def to_arrow(self) -> pa.Table:
        """One row per system and metric, with users, mean and interval."""
        return metrics_to_arrow(self.metrics)

    def __str__(self) -> str:
        width = max(len(name) for name in self.metrics) + 2
        values = {name: own.metrics[self.metric] for name, own in self.metrics.items()}
        rows = [
            f"{name:<{width}}{one.mean:.4f} [{one.low:.4f}, {one.high:.4f}]" for name, one in values.items()
        ]
        for at, system in enumerate(self.systems.values()):
            rows[at] += f"  {system.latency.median_ms:.2f} ms"
        users = f"{self.users:,} {part_name(self.protocol.on)}, the same for all"
        head = f"{self.metric} and median latency on {self.data}: {users}"
        warnings = (f"warning: {text}" for text in self.warnings)
        headlines = (f"{name}: {system.headline}" for name, system in self.systems.items())
        return "\n".join([head, *rows, *headlines, *self.findings, *warnings])


def compare(
    bundles: Bundles,
    data: Dataset | Path | str,
    *,
    on: str = "test",
    metric: str | None = None,
    metrics: str | Sequence[str] | None = None,
    at: str | int | Sequence[int] | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> Comparison:
    """Compare bundles on the users their common split held out: each with the first, and with the best baseline.

    `bundles` and `data` are objects or their folders. Bundles in a sequence get the names of `bundle_names`. `on` is
    "test" or "valid"; `metric` decides which baseline is best and what is tested, recall@20 by default. `metrics`
    ("recall,ndcg") and the cut-offs `at` ("5,10,50") are chosen as in `evaluate`.
    """
    measures = choose_measures(metrics, at, metric)  # refuse a wrong metric before anything is loaded
    opened = {name: open_recommender(bundle).as_measured() for name, bundle in bundle_names(bundles).items()}
    return _comparison(opened, open_dataset(data), on, measures, seed, progress)


def bundle_names(bundles: Bundles) -> dict[str, Recommender | Path | str]:
    """Bundles by name: a mapping as it is, others by folder name or by the name of their recipe.

    Equal names get the parent folder, then a number. No name is that of a baseline.
    """
    if isinstance(bundles, Mapping):
        return dict(bundles)
    listed = [bundles] if isinstance(bundles, Recommender | Path | str) else list(bundles)
    short = [_own_names(bundle)[0] for bundle in listed]
    names: dict[str, Recommender | Path | str] = {}
    for bundle, name in zip(listed, short, strict=True):
        chosen = name if short.count(name) == 1 else _own_names(bundle)[1]
        taken = {*names, POPULARITY, WINDOW, LAST}
        choices = (chosen, *(f"{chosen} ({number})" for number in range(2, len(listed) + 3)))
        names[next(choice for choice in choices if choice not in taken)] = bundle
    return names


def _own_names(bundle: Recommender | Path | str) -> tuple[str, str]:
    """A short and a long name of one bundle."""
    if isinstance(bundle, Recommender):
        return bundle.about.name, bundle.about.name
    folder = Path(bundle).resolve()
    return folder.name, f"{folder.parent.name}/{folder.name}"


def _comparison(
    bundles: Mapping[str, Recommender],
    data: Dataset,
    on: str,
    measures: Measures,
    seed: int,
    progress: Progress,
) -> Comparison:
    split, metric = common_split(bundles, data), measures.metric
    held_out = held_out_part(split, on)
    check_not_empty(held_out)
    pipelines = {name: resized(bundle.pipeline, measures.slate) for name, bundle in bundles.items()}
    scores, known = _scores(pipelines, held_out, split, measures, data.clock, progress)
    tests = compare_scores(scores, known, metric, seed)
    times = latencies(pipelines, held_out, progress=progress)
    abouts = {name: bundle.about for name, bundle in bundles.items()}
    return Comparison(
        len(held_out),
        metric,
        tests.best_baseline,
        {
            name: System(
                headline(own, known, metric, on, measures.slate, seed),
                own.summary(seed),
                times[name],
                repr(pipelines[name]),
                abouts[name],
            )
            for name, own in scores.items()
        },
        {name: own.summary(seed) for name, own in known.items()},
        tests.pairs,
        tuple(pair.sentence(metric) for pair in tests.pairs),
        (*comparison_warnings(tests, abouts), *_limits(pipelines)),
        protocol_of(split.settings, on, len(held_out), pipelines),
        data.name,
        data.fingerprint,
        seed,
        __version__,
    )


def common_split(bundles: Mapping[str, Recommender], data: Dataset) -> Split:
    """The split of all bundles; refused where they were trained on other data or with another split."""
    if not bundles:
        raise ConfigError("compare: expected one bundle or more, got none")
    (first, leader), *_ = bundles.items()
    split = split_of(leader, data)
    for name, bundle in bundles.items():
        _check_trained_like(leader.about, first, bundle.about, name)
    return split


def _check_trained_like(leader: About, first: str, about: About, name: str) -> None:
    if about.fingerprint != leader.fingerprint:
        raise ConfigError(f"{name}: was trained on other data ({about.fingerprint}) than {first}")
    keys = [key for key in {**leader.split, **about.split} if leader.split.get(key) != about.split.get(key)]
    keys = ["protocol"] if "protocol" in keys else keys  # other protocols have other settings anyway
    if keys:
        differences = ", ".join(
            f"{key} {about.split.get(key)!r} instead of {leader.split.get(key)!r}" for key in keys
        )
        raise ConfigError(
            f"{name}: was trained with another split than {first}: {differences}; train both with the same "
            "--protocol on the same data set"
        )


def _scores(
    pipelines: Mapping[str, Pipeline],
    held_out: HeldOut,
    split: Split,
    measures: Measures,
    clock: str,
    progress: Progress,
) -> tuple[dict[str, Scores], dict[str, Scores]]:
    """Scores of the systems and of the baselines."""
    score, k = slate_scorer(held_out, split.train, measures), measures.slate
    systems = {name: score(slates_of(offline(one), held_out, k, progress)) for name, one in pipelines.items()}
    return systems, {name: score(own) for name, own in baselines(held_out, split.train, k, clock).items()}


def compare_scores(
    systems: Mapping[str, Scores],
    baselines: Mapping[str, Scores],
    metric: str = "recall@20",
    seed: int = 0,
    samples: int = SAMPLES,
) -> PairedTests:
    """Test every system against the first, and each against the baseline that is best by the metric."""
    _check_scores(systems, baselines)
    scores = {**baselines, **systems}
    first, *others = systems
    best = best_baseline(baselines, metric)

    def tested(system: str, against: str) -> Pair:
        test = scores[system].against(scores[against], metric, seed, samples)
        return Pair.of(system, against, test, test.p_value)

    pairs = [tested(name, first) for name in others] + [tested(name, best) for name in systems]
    popularity = tuple(tested(name, next(iter(baselines))) for name in systems)
    return PairedTests(metric, best, _adjusted(pairs), popularity)


def _check_scores(systems: Mapping[str, Scores], baselines: Mapping[str, Scores]) -> None:
    counts = {name: len(scores) for name, scores in {**systems, **baselines}.items()}
    if not systems or not baselines or set(systems) & set(baselines) or len(set(counts.values())) != 1:
        raise DataError(
            "compare: expected systems and baselines of different names with scores of the same users, "
            f"got {counts}"
        )


def _adjusted(pairs: list[Pair]) -> tuple[Pair, ...]:
    adjusted = holm([pair.test.p_value for pair in pairs])
    return tuple(
        Pair.of(pair.system, pair.against, pair.test, p) for pair, p in zip(pairs, adjusted, strict=True)
    )


def comparison_warnings(tests: PairedTests, abouts: Mapping[str, About]) -> tuple[str, ...]:
    """Reasons not to trust a comparison, the most serious first."""
    return (
        *(f"{name}: {text}" for name, about in abouts.items() for text in training_warnings(about)),
        *_below_popularity(tests),
        *_too_few_users(tests),
        *_same_model(abouts),
        *_different({name: about.seed for name, about in abouts.items()}, "with different seeds"),
        *_different({name: about.package for name, about in abouts.items()}, "by different package versions"),
    )


def _limits(pipelines: Mapping[str, Pipeline]) -> Iterator[str]:
    for name, pipeline in pipelines.items():
        yield from (f"{name}: {text}" for text in limit_warnings(pipeline))


def _below_popularity(tests: PairedTests) -> Iterator[str]:
    for pair in tests.popularity:
        if not (pair.significant and pair.test.above):
            verb = "is below" if pair.test.difference < 0 else "is not significantly above"
            yield f"{pair.system}: {verb} {pair.against} by {tests.metric} ({_difference(pair.test)})"


def _too_few_users(tests: PairedTests) -> Iterator[str]:
    for pair in tests.pairs:
        if not pair.significant and pair.test.difference:
            yield (
                f"{pair.system} and {pair.against}: too few users to separate them by {tests.metric}: the difference "
                f"is {_difference(pair.test)}, Holm's p-value {p_text(pair.p_holm)}{_needed(pair, len(tests.pairs))}"
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


def _difference(test: PairedTest) -> str:
    return f"{test.difference:+.4f}, [{test.low:+.4f}, {test.high:+.4f}]"
