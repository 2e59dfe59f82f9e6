"""Sizes within a latency budget: the advice, the frontier as a plot, latencies stage by stage."""

from shortlist.diagnose.findings.text import falls, percent, points, rises, unbroken, with_interval
from shortlist.diagnose.knobs.budget import BudgetReport, SettingReport
from shortlist.metrics.estimate import MIN_USERS, Estimate
from shortlist.report.diagnosis.frontier import frontier_drawing, metric_name
from shortlist.report.page import Html, Section, code, figure, table

MEASURED = "the 95th percentile of single requests, the faster of two tries each, on one thread"
EXPLAINED = {
    "recall": "recall@{k}: the mean share of a user's relevant items that are in the slate",
    "precision_at_1": "precision@1: the share of slates of {k} whose first item is relevant",
}


def budget_section(budget: BudgetReport) -> Section:
    """The advice as a section of a page."""
    advised = _or_none(budget, budget.advised)
    parts: list[Html | str] = [_measured(budget), *verdict(budget), *cautions(budget)]
    if advised is not None and advised.changes:
        parts += ["In the TOML file of the pipeline:", code(advised.toml)]
    parts += [
        figure(frontier_drawing(budget), _caption(budget)),
        _leading(budget),
        "Milliseconds of the median request, stage by stage. A nominator's time is part of the pool's.",
        _stages(budget),
        _folded(f"All {len(budget.settings)} settings, the fastest first", _every(budget)),
    ]
    return Section(f"The best sizes within {_ms(budget.budget_ms)}", parts)


def budget_lines(budget: BudgetReport) -> list[str]:
    """The advice for a terminal."""
    lines = [
        f"budget {_ms(budget.budget_ms)}: {len(budget.settings)} settings measured; latency is {MEASURED}"
    ]
    lines += [f"  {text}" for text in verdict(budget)]
    advised = _or_none(budget, budget.advised)
    if advised is not None and advised.changes:
        lines += [f"  {line}" for line in advised.toml.splitlines() if line]
    lines.append(f"  Pareto frontier of latency and {metric_name(budget)} ({budget.users:,} users):")
    lines += [f"    {_row(budget, budget.setting(label))}" for label in budget.frontier]
    return lines + [f"  {text}" for text in cautions(budget)]


def verdict(budget: BudgetReport) -> list[str]:
    """Which settings fit, and which to use."""
    current, limit = budget.setting(budget.current), _ms(budget.budget_ms)
    slow = "" if current.fits else ", which is above the budget,"
    now = f"The current pipeline takes {_ms(current.p95_ms)}{slow} and has {_value(budget, current)}."
    if budget.status == "none":
        fastest = budget.setting(budget.fastest)
        return [
            now,
            f"No measured setting fits into {limit}. The fastest is {_called(fastest)}: it takes "
            f"{_ms(fastest.p95_ms)} and has {_value(budget, fastest)}. Sizes alone are not enough: {_slowest(fastest)} "
            "Replace that stage by a faster one, or use a faster machine.",
        ]
    return [now, _fitting(budget), *_advice(budget)]


def cautions(budget: BudgetReport) -> list[str]:
    """What limits the validity of the advice."""
    texts = []
    if budget.advised not in (None, budget.current):
        texts.append(
            f"The best of {len(budget.settings)} settings is overestimated, because it was chosen on the users it was "
            "measured on: confirm a small gain on other users."
        )
    if budget.users < MIN_USERS:
        texts.append(
            f"With {budget.users} users there are no intervals ({MIN_USERS} are needed): differences may be noise."
        )
    if budget.busy:
        texts.append(
            "Other work on this machine slowed the requests down: latencies are too long and noisy. Measure again on "
            "an idle machine."
        )
    if budget.left_out:
        texts.append(f"There was no time for {budget.left_out} further settings.")
    return texts


def _measured(budget: BudgetReport) -> str:
    intervals = " Brackets hold 95 % intervals over users." if budget.users >= MIN_USERS else ""
    return (
        "The sizes of the pipeline were changed: limits of nominators and cuts (the numbers after %), and the beam of "
        f"trees. {len(budget.settings)} settings took turns on the same requests. The latency of a setting is "
        f"{MEASURED}; a loaded server takes longer. The metric is {EXPLAINED[budget.metric].format(k=budget.k)}, for "
        f"the same {budget.users:,} users.{intervals}"
    )


def _fitting(budget: BudgetReport) -> str:
    fits = [one for one in budget.settings if one.fits]
    if budget.status == "all":
        slowest = max(fits, key=lambda one: one.p95_ms)
        return (
            f"All {len(fits)} measured settings fit: the slowest takes {_ms(slowest.p95_ms)}, so latency does not "
            "limit this pipeline."
        )
    return f"{len(fits)} of {len(budget.settings)} settings fit."


def _advice(budget: BudgetReport) -> list[str]:
    best, advised = _or_none(budget, budget.best), _or_none(budget, budget.advised)
    assert best is not None
    assert advised is not None
    if advised.label == budget.current:
        texts = ["Keep the current setting: none that fits is significantly better, or as good and faster."]
    else:
        texts = [
            f"Use {advised.label!r}: it takes {_ms(advised.p95_ms)} and has {_value(budget, advised)}; against the "
            f"current setting on the same users that is {points(advised.gain)}, {_significance(advised.gain)}."
        ]
    if best is not advised:
        texts.append(
            f"The highest mean is at {_called(best)}: {_value(budget, best)} with {_ms(best.p95_ms)}. That is not "
            f"significantly better on these users{_preferred(advised, best)}."
        )
    return texts


def _preferred(advised: SettingReport, best: SettingReport) -> str:
    """Why the best mean is not advised."""
    if not advised.changes:
        return ""
    if advised.p95_ms < best.p95_ms:
        return ", so the faster one is advised"
    return ", so the one with fewer changes and about the same latency is advised"


def _slowest(one: SettingReport) -> str:
    """The slowest stage, a nominator rather than the whole pool."""
    divided = {stage.part_of for stage in one.times.stages}
    single = [stage for stage in one.times.stages if stage.name not in divided or stage.part_of]
    most = max(single, key=lambda stage: stage.median_ms)
    return f"{most.name!r} takes most, {_short(most.median_ms)} of {_ms(one.times.median_ms)} in the median request."


def _significance(gain: Estimate) -> str:
    if rises(gain):
        return "significantly more"
    return "significantly less" if falls(gain) else "not significant"


def _leading(budget: BudgetReport) -> Html:
    """The settings to choose from."""
    labels = dict.fromkeys([*budget.frontier, budget.current, *([budget.advised] if budget.advised else [])])
    chosen = sorted((budget.setting(label) for label in labels), key=lambda one: one.p95_ms)
    rows = [
        [
            one.label,
            unbroken(_mark(budget, one)),
            _short(one.p95_ms),
            _short(one.times.median_ms),
            unbroken(with_interval(one.metric(budget.metric))),
            "" if one.label == budget.current else unbroken(points(one.gain)),
        ]
        for one in chosen
    ]
    return table(["setting", "", "p95 ms", "median ms", metric_name(budget), "against current"], rows)


def _stages(budget: BudgetReport) -> Html:
    """A row per stage, a column per setting that matters."""
    labels = dict.fromkeys([budget.current, budget.advised, budget.best, budget.fastest])
    shown = [budget.setting(label) for label in labels if label is not None]
    rows = []
    for number, stage in enumerate(shown[0].times.stages):
        name = f"– {stage.name}" if stage.part_of else stage.name
        rows.append([name, *(_short(one.times.stages[number].median_ms) for one in shown)])
    rows.append(["the whole request", *(_short(one.times.median_ms) for one in shown)])
    return table(["stage", *(_heading(budget, one) for one in shown)], rows)


def _every(budget: BudgetReport) -> Html:
    rows = []
    for one in sorted(budget.settings, key=lambda one: one.p95_ms):
        predicted = one.predicted
        rows.append(
            [
                one.label,
                _short(one.p95_ms),
                _short(one.times.median_ms),
                unbroken(with_interval(one.metric(budget.metric))),
                *(_short(stage.median_ms) for stage in one.times.stages if not stage.part_of),
                "" if predicted is None else f"{_short(predicted.p95_ms)} ms, {percent(predicted.value)}",
            ]
        )
    stages = [f"{stage.name} ms" for stage in budget.settings[0].times.stages if not stage.part_of]
    return table(
        ["setting", "p95 ms", "median ms", metric_name(budget), *stages, "if changes added up"], rows
    )


def _folded(title: str, inside: Html) -> Html:
    return Html(f"<details><summary>{title}</summary>\n{inside.text}\n</details>")


def _caption(budget: BudgetReport) -> str:
    requests = min(one.times.requests for one in budget.settings)
    return (
        f"Every point is a setting; up and to the left is better. The line is the Pareto frontier. {budget.users:,} "
        f"users for the metric, {requests} requests for the latency of each setting; an error bar is the interval of "
        "the difference from the current setting."
    )


def _mark(budget: BudgetReport, one: SettingReport) -> str:
    labels = {"advised": budget.advised, "best": budget.best}
    marks = [word for word, label in labels.items() if label == one.label]
    return ", ".join([*marks, *([] if one.fits else ["too slow"])])


def _heading(budget: BudgetReport, one: SettingReport) -> str:
    labels = {"advised": budget.advised, "best": budget.best, "fastest": budget.fastest}
    marks = [word for word, label in labels.items() if label == one.label]
    return f"{one.label} ({', '.join(marks)})" if marks else one.label


def _row(budget: BudgetReport, one: SettingReport) -> str:
    mark = _mark(budget, one)
    value = with_interval(one.metric(budget.metric))
    return f"{_ms(one.p95_ms):>9}  {value:<24} {one.label}{f' ({mark})' if mark else ''}"


def _called(one: SettingReport) -> str:
    return "the current pipeline" if not one.changes else repr(one.label)


def _value(budget: BudgetReport, one: SettingReport) -> str:
    return f"a {metric_name(budget)} of {with_interval(one.metric(budget.metric))}"


def _or_none(budget: BudgetReport, label: str | None) -> SettingReport | None:
    return None if label is None else budget.setting(label)


def _ms(value: float) -> str:
    return f"{value:g} ms" if value == round(value) else f"{_short(value)} ms"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
