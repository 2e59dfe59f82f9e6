"""shortlist compare: several bundles on the same users, with how sure the differences are and what they cost."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from shortlist import __version__
from shortlist.artifact.as_json import as_json
from shortlist.artifact.store import Lineage
from shortlist.cli.evaluate import bundle_of, held_out
from shortlist.cli.frame import Json, Seed, doors, emit, progress, write_whole
from shortlist.data import Dataset, load_dataset
from shortlist.errors import ConfigError
from shortlist.evaluate.baselines import LAST, POPULARITY, WINDOW, baselines
from shortlist.evaluate.compare import compare as contest_of
from shortlist.evaluate.evaluation import KS, check_asked, scorer, slates_of
from shortlist.evaluate.latency import latencies
from shortlist.evaluate.protocol import rules, seen_rule
from shortlist.evaluate.warnings import doubts
from shortlist.metrics.ranking import METRICS
from shortlist.pipeline import Recommender
from shortlist.pipeline.recommender import resized
from shortlist.progress import Progress
from shortlist.report.compare import compare_drawing, compare_page
from shortlist.report.page import interval

Systems = dict[str, tuple[Recommender, Lineage]]


@doors()
def compare(
    bundles: Annotated[
        list[Path],
        typer.Argument(
            help="Folders made by `shortlist train`; the first is what the others are compared with."
        ),
    ],
    data: Annotated[Path, typer.Option(help="The prepared data set all of them were trained on.")],
    on: Annotated[str, typer.Option(help="Which held-out cases: test or valid.")] = "test",
    metric: Annotated[str, typer.Option(help="The metric that decides, like recall@20.")] = "recall@20",
    report: Annotated[
        Path | None, typer.Option(help="Write a page with the drawing to this HTML file.")
    ] = None,
    drawing: Annotated[Path | None, typer.Option(help="Write the drawing alone to this SVG file.")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Systems and yardsticks on the same users: intervals, paired tests, and quality against time."""
    began = time.perf_counter()
    ks = cuts_for(metric)
    dataset = load_dataset(data)
    systems = same_split(
        bundles, {name: bundle_of(one, dataset, data) for name, one in named(bundles).items()}
    )
    with progress() as tell:
        told = comparison(systems, dataset, on, metric, ks, seed, tell)
    told["seconds"] = time.perf_counter() - began
    if report is not None:
        write_whole(report, compare_page(told))
        told["report"] = str(report)
    if drawing is not None:
        write_whole(drawing, compare_drawing(told))
        told["drawing"] = str(drawing)
    if json:
        emit(told)
        return
    show(told)


def cuts_for(metric: str) -> tuple[int, ...]:
    """The cuts to measure at: the usual ones, and that of the metric."""
    word, _, cut = metric.partition("@")
    if word not in METRICS or not cut.isdecimal() or not 0 < int(cut) <= 1000:
        raise ConfigError(
            f"--metric must be one of {', '.join(METRICS)} with a cut up to 1000, like recall@20; got {metric!r}"
        )
    return tuple(sorted({*KS, int(cut)}))


def named(bundles: Sequence[Path]) -> dict[str, Path]:
    """Bundles by the names of their folders, with as much of the way there, or a number, as tells them apart."""
    short = [one.resolve().name for one in bundles]
    longer = [f"{one.resolve().parent.name}/{name}" for one, name in zip(bundles, short, strict=True)]
    found: dict[str, Path] = {}
    for one, name, long in zip(bundles, short, longer, strict=True):
        chosen = name if short.count(name) == 1 else long
        taken = {*found, POPULARITY, WINDOW, LAST}
        tries = (chosen, *(f"{chosen} ({number})" for number in range(2, len(bundles) + 3)))
        found[next(name for name in tries if name not in taken)] = one
    return found


def same_split(bundles: Sequence[Path], systems: Systems) -> Systems:
    """The systems, if all were trained on the same part of the data, and have held out the same users."""
    first, *_ = (one.about["split"] for one, _ in systems.values())
    for bundle, (recommender, _) in zip(bundles, systems.values(), strict=True):
        other = recommender.about["split"]
        apart = [name for name in {**first, **other} if first.get(name) != other.get(name)]
        apart = ["protocol"] if "protocol" in apart else apart  # another protocol has other settings anyway
        if apart:
            told = ", ".join(f"{name} {other.get(name)!r} where it has {first.get(name)!r}" for name in apart)
            raise ConfigError(
                f"{bundle}: was held out by another split than {bundles[0]}: {told}; train both with the same "
                "--protocol on the same data set"
            )
    return systems


def comparison(
    systems: Systems, dataset: Dataset, on: str, metric: str, ks: Sequence[int], seed: int, tell: Progress
) -> dict[str, Any]:
    """Everything the page shows, as plain values."""
    first = next(iter(systems.values()))[0]
    cases, learned = held_out(first, dataset, on), dataset.split(**first.about["split"]).train
    check_asked(cases)
    pipelines = {name: resized(one.pipeline, max(ks)) for name, (one, _) in systems.items()}
    scored = scorer(cases, learned, ks)
    slates = {name: slates_of(one, cases, max(ks), tell) for name, one in pipelines.items()}
    contest = contest_of(
        {name: scored(one) for name, one in slates.items()},
        {name: scored(one) for name, one in baselines(cases, learned, max(ks), dataset.clock).items()},
        metric,
        seed,
    )
    took = latencies(pipelines, cases, progress=tell)
    about = {name: facts_of(*one) for name, one in systems.items()}
    told: dict[str, Any] = as_json(contest.as_dict(seed))
    told["systems"] = {
        name: {
            **one,
            **about[name],
            "pipeline": repr(pipelines[name]),
            "latency": as_json(asdict(took[name])),
        }
        for name, one in told["systems"].items()
    }
    return {
        **told,
        "findings": [pair.sentence(metric) for pair in contest.pairs],
        "warnings": doubts(contest, about),
        "protocol": protocol(systems, on, len(cases)),
        "about": {
            "data": dataset.name,
            "fingerprint": dataset.fingerprint,
            "seed": seed,
            "package": __version__,
        },
    }


def facts_of(recommender: Recommender, lineage: Lineage) -> dict[str, Any]:
    """Where a system comes from."""
    return {
        "version": recommender.about.get("version", ""),
        "seed": lineage.seed,
        "package": lineage.package,
        "training": recommender.about.get("training", {}),
        "seen items": seen_rule(recommender.pipeline),
    }


def protocol(systems: Systems, on: str, users: int) -> dict[str, str]:
    """The rules all were measured by; what each does with seen items is its own affair, and told of each."""
    ways = {name: seen_rule(one.pipeline) for name, (one, _) in systems.items()}
    alike = set(ways.values())
    seen = alike.pop() if len(alike) == 1 else "; ".join(f"{name}: {way}" for name, way in ways.items())
    split = next(iter(systems.values()))[0].about["split"]
    return {**rules(split, on, users), "seen items": seen}


def show(told: Mapping[str, Any]) -> None:
    """The same on a terminal."""
    console = Console()
    console.print(quality_table(told))
    console.print(pairs_table(told))
    console.print(time_table(told))
    for name, rule in told["protocol"].items():
        console.print(f"{name}: {rule}", markup=False, highlight=False)
    for one in told["warnings"]:
        console.print(f"warning: {one}", markup=False, highlight=False, style="yellow")
    for name in ("report", "drawing"):
        if name in told:
            typer.echo(f"the {name}: {told[name]}")


def quality_table(told: Mapping[str, Any]) -> Table:
    """The metric that decides with its interval, others at the same cut, yardsticks below."""
    metric = told["metric"]
    cut = metric.partition("@")[2]
    others = [f"{word}@{cut}" for word in ("recall", "ndcg", "f1", "hit_rate", "mrr")]
    others = [name for name in others if name != metric]
    table = Table(title=f"{told['users']:,} users, the same for all", title_justify="left")
    for name in ("system", metric, *others):
        stacked = name if name == metric else name.replace("@", "\n@").replace("_", "\n")
        table.add_column(stacked, overflow="fold", no_wrap=name != "system")
    for group in ("systems", "yardsticks"):
        for name, one in told[group].items():
            rest = (one["metrics"][other]["mean"] for other in others)
            table.add_row(name, interval(one["metrics"][metric]), *(_number(value, 4) for value in rest))
        table.add_section()
    return table


def pairs_table(told: Mapping[str, Any]) -> Table:
    """User by user against the first system and the best yardstick."""
    table = Table(title=f"user by user: {told['metric']}", title_justify="left")
    for name in ("system", "against", "difference", "p\nHolm", "d_z", "won/\ntied/\nlost"):
        table.add_column(name, overflow="fold", no_wrap=name not in ("system", "against"))
    for one in told["comparisons"]:
        tally = f"{one['wins']}/{one['ties']}/{one['losses']}"
        table.add_row(
            one["system"],
            one["against"],
            interval(one, "difference"),
            _number(one["p_holm"], 3),
            _number(one["effect_size"], 2),
            tally,
        )
    return table


def time_table(told: Mapping[str, Any]) -> Table:
    """What an answer costs."""
    table = Table(title="time, one thread, systems in turns", title_justify="left")
    for name in ("system", "median ms", "95% ms", "timed", "per second, batches of 64", "timed"):
        table.add_column(name, justify="left" if name == "system" else "right")
    for name, system in told["systems"].items():
        one = system["latency"]
        table.add_row(
            name,
            _number(one["median_ms"], 2),
            _number(one["p95_ms"], 2),
            f"{one['requests']:,}",
            _number(one["per_second"], 0),
            f"{one['batches'] * one['batch']:,}",
        )
    return table


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"
