"""Comparison of bundles with each other and with the baselines on the same users: paired tests, latency, warnings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from shortlist import __version__
from shortlist.data import Dataset, HeldOut, Split, open_dataset
from shortlist.data.split import REQUESTS
from shortlist.errors import ConfigError
from shortlist.evaluate.headline import Against, Headline, headline_of, part_name
from shortlist.evaluate.latency import Latency, latencies
from shortlist.evaluate.paired_tests import Pair, PairedTests, compare_scores, comparison_warnings
from shortlist.evaluate.pipeline_evaluation import slate_scorer
from shortlist.evaluate.protocol.baselines import LAST, POPULARITY, WINDOW
from shortlist.evaluate.protocol.fitted_baselines import (
    EASE,
    ITEM_KNN,
    Baselines,
    check_choice,
    collect_baselines,
)
from shortlist.evaluate.protocol.held_out import check_not_empty, held_out_part, split_of
from shortlist.evaluate.protocol.measures import Measures, choose_measures
from shortlist.evaluate.protocol.rules import Protocol, protocol_of
from shortlist.evaluate.protocol.run_warnings import limit_warnings
from shortlist.evaluate.scores import Scores, SystemMetrics, summaries
from shortlist.evaluate.table import metrics_to_arrow
from shortlist.grammar import Pipeline
from shortlist.pipeline import About, Recommender, open_recommender
from shortlist.pipeline.batch.held_out import slates_of
from shortlist.pipeline.offline import offline
from shortlist.pipeline.recommender import resized
from shortlist.progress import Progress, silent

Bundles = Mapping[str, Recommender | Path | str] | Sequence[Recommender | Path | str] | Recommender | Path
"""One bundle or several: objects or folders, with or without names."""


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
    baselines: str = "auto",
    seed: int = 0,
    progress: Progress = silent,
) -> Comparison:
    """Compare bundles on the users their common split held out: each with the first, and with the best baseline.

    `bundles` and `data` are objects or their folders. Bundles in a sequence get the names of `bundle_names`. `on` is
    "test" or "valid"; `metric` decides which baseline is best and what is tested, recall@20 by default. `metrics`
    ("recall,ndcg"), the cut-offs `at` ("5,10,50") and the `baselines` are chosen as in `evaluate`.
    """
    measures = choose_measures(metrics, at, metric)  # refuse a wrong metric before anything is loaded
    check_choice(baselines)
    opened = {name: open_recommender(bundle).as_measured() for name, bundle in bundle_names(bundles).items()}
    return _comparison(opened, open_dataset(data), on, measures, baselines, seed, progress)


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
        taken = {*names, POPULARITY, WINDOW, LAST, EASE, ITEM_KNN}
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
    choice: str,
    seed: int,
    progress: Progress,
) -> Comparison:
    split, metric = common_split(bundles, data), measures.metric
    held_out = held_out_part(split, on)
    check_not_empty(held_out)
    pipelines = {name: resized(bundle.pipeline, measures.slate) for name, bundle in bundles.items()}
    stored = [bundle for bundle in bundles.values() if _requests(bundle) == split.settings.get(REQUESTS)]
    found = collect_baselines(stored, held_out, split.train, on, measures.slate, data.clock, choice, progress)
    scores, known = _scores(pipelines, found, held_out, split, measures, progress)
    values, tests = summaries({**known, **scores}, seed), compare_scores(scores, known, metric, seed)
    times = latencies(pipelines, held_out, progress=progress)
    abouts = {name: bundle.about for name, bundle in bundles.items()}
    return Comparison(
        len(held_out),
        metric,
        tests.best_baseline,
        {
            name: System(
                _headline(name, values, tests, on, measures.slate),
                values[name],
                times[name],
                repr(pipelines[name]),
                abouts[name],
            )
            for name in scores
        },
        {name: values[name] for name in known},
        tests.pairs,
        tuple(pair.sentence(metric) for pair in tests.pairs),
        (*comparison_warnings(tests, abouts), *_limits(pipelines)),
        protocol_of(split.settings, on, len(held_out), pipelines, found.rule),
        data.name,
        data.fingerprint,
        seed,
        __version__,
    )


def common_split(bundles: Mapping[str, Recommender], data: Dataset) -> Split:
    """The split of all bundles; refused where they were trained on other data or with another split.

    Of bundles that were measured on samples of the same requests, the smallest sample counts: it is part of the others.
    """
    if not bundles:
        raise ConfigError("compare: expected one bundle or more, got none")
    (first, leader), *_ = bundles.items()
    split = split_of(leader, data)
    for name, bundle in bundles.items():
        _check_trained_like(leader.about, first, bundle.about, name)
    samples = [count for bundle in bundles.values() if (count := _requests(bundle)) is not None]
    return split.sampled(min(samples)) if samples else split


def _requests(bundle: Recommender) -> int | None:
    """The size of the sample of requests that a bundle was measured on, None for all of them."""
    count = bundle.about.split.get(REQUESTS)
    return None if count is None else int(count)


def _check_trained_like(leader: About, first: str, about: About, name: str) -> None:
    if about.fingerprint != leader.fingerprint:
        raise ConfigError(f"{name}: was trained on other data ({about.fingerprint}) than {first}")
    keys = [key for key in {**leader.split, **about.split} if leader.split.get(key) != about.split.get(key)]
    keys = [key for key in keys if key != REQUESTS]  # a sample of the same requests
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
    found: Baselines,
    held_out: HeldOut,
    split: Split,
    measures: Measures,
    progress: Progress,
) -> tuple[dict[str, Scores], dict[str, Scores]]:
    """Scores of the systems and of the baselines."""
    score, k = slate_scorer(held_out, split.train, measures), measures.slate
    systems = {name: score(slates_of(offline(one), held_out, k, progress)) for name, one in pipelines.items()}
    return systems, {name: score(own) for name, own in found.slates.items()}


def _headline(
    name: str, values: Mapping[str, SystemMetrics], tests: PairedTests, on: str, slate: int
) -> Headline:
    """The headline of one system, as `evaluate` gives it beside the same baselines."""
    metric, own = tests.metric, tests.baselines[name]
    best, popularity = (
        Against.of(one, values[one].metrics[metric], own[one]) for one in (tests.best_baseline, POPULARITY)
    )
    return headline_of(metric, values[name].metrics[metric], on, values[name].users, slate, best, popularity)


def _limits(pipelines: Mapping[str, Pipeline]) -> Iterator[str]:
    for name, pipeline in pipelines.items():
        yield from (f"{name}: {text}" for text in limit_warnings(pipeline))
