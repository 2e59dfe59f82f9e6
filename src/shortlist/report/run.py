"""The page of one evaluation: the funnel, the headline metrics, users to look up, and the rest folded away."""

from collections.abc import Mapping

from shortlist.evaluate.evaluation import Evaluation
from shortlist.evaluate.headline import part_name
from shortlist.evaluate.lookup import UserLookup
from shortlist.evaluate.pipeline_evaluation import PIPELINE
from shortlist.evaluate.protocol.rules import Protocol
from shortlist.metrics.significance import Interval
from shortlist.pipeline.about import About
from shortlist.pipeline.plan_report import PlanReport
from shortlist.report.funnel import Funnel, FunnelStage, funnel_figure
from shortlist.report.funnel_tables import funnel_section, with_bounds
from shortlist.report.lookup import SCRIPT, lookup_section
from shortlist.report.page import (
    Html,
    Section,
    code,
    difference,
    facts,
    figure,
    folded,
    interval,
    page,
    table,
)
from shortlist.report.plots import bars, whiskers


def run_page(found: Evaluation, users: UserLookup | None = None) -> str:
    """One HTML document of an evaluation; `users` can be looked up in it."""
    sections = [_summary(found), *([] if users is None else [lookup_section(users)])]
    rest = folded(
        [
            _metrics(found),
            _losses(found),
            _nominators(found),
            funnel_section(found.funnel),
            _segments(found),
            _example(found),
            protocol_section(found.protocol),
            _about(found.about),
        ]
    )
    title = f"{found.about.name} on {found.about.data}"
    return page(title, [*sections, *rest], "" if users is None else SCRIPT)


def _summary(found: Evaluation) -> Section:
    losses, worst = found.losses, found.losses.largest
    parts: list[Html | str] = [
        funnel_figure(funnel_of(found), _caption(found), "the largest loss"),
        found.headline.sentence,
        f"Most is lost at {worst.name!r}: {worst.lost:,} of {losses.relevant:,} relevant items "
        f"({_share(worst.lost, found)}).",
        headline_table(found),
    ]
    if found.warnings:
        parts.append(table(["warning"], [[text] for text in found.warnings]))
    return Section("Summary", parts)


def funnel_of(found: Evaluation) -> Funnel:
    """The stages of an evaluation as a funnel."""
    stages = tuple(
        FunnelStage(one.name, one.kind, one.candidates, one.entered, one.survived, one.removed)
        for one in found.losses.stages
    )
    return Funnel(found.losses.relevant, stages, found.losses.largest.name)


def _caption(found: Evaluation) -> str:
    return f"{found.users:,} {part_name(found.headline.on)}, slates of {found.headline.slate}."


def headline_table(found: Evaluation) -> Html:
    """The headline metrics with intervals, beside the best baseline."""
    best = found.best_baseline
    ours, theirs = found.metrics[PIPELINE].metrics, found.metrics[best].metrics
    rows = [
        [
            metric,
            with_bounds(interval(ours[metric])),
            with_bounds(interval(theirs[metric])),
            with_bounds(difference(found.differences[best][metric])),
        ]
        for metric in found.tested
    ]
    return table(["metric", "pipeline", f"{best} (best baseline)", "difference"], rows)


def _metrics(found: Evaluation) -> Section:
    systems, tested = found.metrics, found.tested
    ours = systems[PIPELINE]
    names = [
        name for name in ours.metrics if name.endswith(f"@{found.headline.slate}") and "novelty" not in name
    ]
    series = {name: [_point(own.metrics[metric]) for metric in names] for name, own in systems.items()}
    rows: list[list[object]] = [
        [name, *(with_bounds(interval(own.metrics[name])) for own in systems.values())]
        for name in ours.metrics
    ]
    rows += [[name, *(own.catalog[name] for own in systems.values())] for name in ours.catalog]
    tests = [
        [name, *(with_bounds(difference(own[metric])) for metric in tested)]
        for name, own in found.differences.items()
    ]
    return Section(
        "All metrics",
        [
            figure(
                whiskers(names, series, "value"), "Means over held-out users with 95 % bootstrap intervals."
            ),
            table(["metric", *systems], rows),
            "Difference of the pipeline to each baseline on the same users:",
            table(["baseline", *tested], tests),
        ],
    )


def _losses(found: Evaluation) -> Section:
    stages = found.losses.stages
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
                bars([(stage.name, stage.lost) for stage in stages], "relevant items lost"), "Loss per stage."
            ),
            table(heads, rows),
            code(found.expression),
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
    tested = found.tested[:2]
    for name, segment in found.segments.items():
        pairs = [(segment.pipeline[metric], segment.popularity[metric]) for metric in tested]
        rows.append(
            [name, segment.users, *(with_bounds(interval(value)) for pair in pairs for value in pair)]
        )
    heads = ["users", "count", *(head for metric in tested for head in (metric, "popularity"))]
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
        **({} if about.plan is None else {"composed": about.plan.verdict}),
    }
    plan = [] if about.plan is None else [_plan(about.plan)]
    return Section("About the bundle", [facts(named), *plan])


def _plan(plan: PlanReport) -> Html:
    """What a composed pipeline contains, leaves out and dropped, with the reasons."""
    kept = {key.split(".")[1]: why for key, why in plan.reasons.items() if key.endswith(".type")}
    rows = [(name, "planned", why) for name, why in kept.items()]
    rows += [(name, "left out", why) for name, why in plan.left_out.items()]
    rows += [(name, "dropped", why) for name, why in plan.dropped.items()]
    return table(["stage", "plan", "why"], rows)


def _share(count: int, found: Evaluation) -> str:
    return f"{found.losses.share(count):.1%}"


def _point(value: Interval) -> tuple[float, float, float]:
    """Mean and interval for a plot, zeros where there are none."""
    return (value.mean, value.low, value.high) if value.mean == value.mean else (0.0, 0.0, 0.0)
