"""The page of one evaluation: metrics, stage losses, and one request in full."""

from collections.abc import Mapping

from shortlist.evaluate.evaluation import PIPELINE, TESTED, Evaluation
from shortlist.evaluate.protocol import Protocol
from shortlist.metrics.significance import Interval
from shortlist.pipeline.about import About
from shortlist.report.page import Html, Section, code, difference, facts, figure, interval, page, table
from shortlist.report.plots import bars, funnel, whiskers

SHOWN = ("recall@20", "ndcg@20", "precision@20", "hit_rate@20", "mrr@20", "map@20", "f1@20")


def run_page(found: Evaluation) -> str:
    """One HTML document of an evaluation."""
    sections = [
        _headline(found),
        _metrics(found),
        _losses(found),
        _nominators(found),
        _segments(found),
        _example(found),
        protocol_section(found.protocol),
        _about(found.about),
    ]
    return page(f"{found.about.name} on {found.about.data}", sections)


def _headline(found: Evaluation) -> Section:
    test, worst = found.differences["popularity"]["recall@20"], found.losses.largest
    ours, theirs = (found.metrics[name].metrics["recall@20"] for name in (PIPELINE, "popularity"))
    verb = "beats popularity" if test.above else "does not significantly beat popularity"
    parts: list[Html | str] = [
        f"The pipeline {verb}: recall@20 is {interval(ours)}, popularity {interval(theirs)}, "
        f"the difference on the same users {difference(test)}.",
        f"The largest loss is at {worst.name!r}: {worst.lost:,} of {found.losses.relevant:,} relevant items "
        f"({_share(worst.lost, found)}) are lost there.",
        facts(
            {
                "held-out users": found.users,
                "relevant items": found.losses.relevant,
                "of them returned": found.losses.returned,
            }
        ),
        code(found.expression),
    ]
    if found.warnings:
        parts.append(table(["warning"], [[text] for text in found.warnings]))
    return Section("Summary", parts)


def _metrics(found: Evaluation) -> Section:
    systems = found.metrics
    ours = systems[PIPELINE]
    names = [name for name in SHOWN if name in ours.metrics]
    series = {name: [_point(own.metrics[metric]) for metric in names] for name, own in systems.items()}
    rows: list[list[object]] = [
        [name, *(interval(own.metrics[name]) for own in systems.values())] for name in ours.metrics
    ]
    rows += [[name, *(own.catalog[name] for own in systems.values())] for name in ours.catalog]
    tests = [
        [name, *(difference(own[metric]) for metric in TESTED)] for name, own in found.differences.items()
    ]
    return Section(
        "Metrics",
        [
            figure(
                whiskers(names, series, "value"), "Means over held-out users with 95 % bootstrap intervals."
            ),
            table(["metric", *systems], rows),
            "Difference of the pipeline to each baseline on the same users:",
            table(["baseline", *TESTED], tests),
        ],
    )


def _losses(found: Evaluation) -> Section:
    stages, relevant = found.losses.stages, max(found.losses.relevant, 1)
    bars_of = [(stage.name, max(stage.candidates, 0.1), stage.survived / relevant) for stage in stages]
    rows = [
        [
            stage.name,
            stage.kind,
            stage.entered,
            stage.survived,
            stage.lost,
            stage.removed,
            _share(stage.lost, found),
            round(stage.candidates, 1),
        ]
        for stage in stages
    ]
    heads = [
        "stage",
        "kind",
        "entered",
        "survived",
        "lost",
        "removed by a filter",
        "share of all",
        "candidates after",
    ]
    return Section(
        "Stage losses",
        [
            "Every relevant item is followed through the pipeline. Items that no nominator nominated are lost at the "
            "pool. Entered = survived + lost.",
            figure(
                funnel(bars_of, ("candidates per request", "relevant items left")),
                "Candidates after each stage, and the share of relevant items that are still among them.",
            ),
            figure(
                bars([(stage.name, stage.lost) for stage in stages], "relevant items lost"), "Loss per stage."
            ),
            table(heads, rows),
        ],
    )


def _nominators(found: Evaluation) -> Section:
    rows = [
        [name, hits.nominated, _share(hits.nominated, found), hits.unique, _share(hits.unique, found)]
        for name, hits in found.losses.nominators.items()
    ]
    heads = ["nominator", "relevant items nominated", "share", "by this one only", "share"]
    return Section("Nominators", [table(heads, rows)])


def _segments(found: Evaluation) -> Section:
    rows: list[list[object]] = []
    for name, segment in found.segments.items():
        pairs = [(segment.pipeline[metric], segment.popularity[metric]) for metric in TESTED]
        rows.append([name, segment.users, *(interval(value) for pair in pairs for value in pair)])
    heads = ["users", "count", "recall@20", "popularity", "ndcg@20", "popularity"]
    return Section("Segments of users", [table(heads, rows)])


def _example(found: Evaluation) -> Section:
    example = found.example
    steps = [
        [stage.name, stage.kind, stage.entered, stage.kept, stage.removed, stage.cut, stage.ms]
        for stage in example.stages
    ]
    slate = [
        [
            item.rank,
            item.title,
            item.category,
            item.score,
            ", ".join(item.nominators),
            "yes" if item.relevant else "",
        ]
        for item in example.items
    ]
    lost: list[Html | str] = [
        Html("<h3>Relevant items that were lost</h3>"),
        *(item.sentence for item in example.lost),
    ]
    return Section(
        f"One request: user {example.user}",
        [
            "History, latest first:",
            table(["title", "category"], [[item.title, item.category] for item in example.history]),
            "Slate:",
            table(["rank", "title", "category", "score", "nominated by", "relevant"], slate),
            "Candidates at every stage:",
            table(["stage", "kind", "in", "kept", "removed", "cut", "ms"], steps),
            *(lost if example.lost else []),
        ],
    )


def protocol_section(protocol: Protocol) -> Section:
    """The rules of the evaluation."""
    return Section("Protocol", [table(["rule", "here"], protocol.rows().items())])


def _about(about: About) -> Section:
    named: Mapping[str, object] = {
        "model": about.version,
        "data": about.data,
        "fingerprint": about.fingerprint,
        "seed": about.seed,
        "package": about.package,
        "trained on": f"{about.events:,} events",
    }
    return Section("About the bundle", [facts(named)])


def _share(count: int, found: Evaluation) -> str:
    return f"{found.losses.share(count):.1%}"


def _point(value: Interval) -> tuple[float, float, float]:
    """Mean and interval for a plot, zeros where there are none."""
    return (value.mean, value.low, value.high) if value.mean == value.mean else (0.0, 0.0, 0.0)
