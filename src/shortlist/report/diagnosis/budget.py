"""What can be had for how many milliseconds: advice in words, the frontier as a drawing, times stage by stage."""

from shortlist.diagnose.findings.text import Told, around, falls, percent, points, rises, unbroken
from shortlist.metrics.estimate import FEWEST
from shortlist.report.diagnosis.frontier import WORTH, frontier_drawing
from shortlist.report.page import Html, Section, code, figure, table

EXPLAINED = {
    "recall": "the share of the wanted items, which is what a user really met next, that come back in a slate of "
    "{k} (recall)",
    "precision_at_1": "the share of slates of {k} whose first item is wanted, which is what a user really met next "
    "(precision at 1)",
}


def budget_section(told: Told) -> Section:
    """The advice as a part of a page."""
    advised = _named(told, told["advised"])
    parts: list[Html | str] = [_measured(told), *verdict(told), *cautions(told)]
    if advised is not None and advised["changes"]:
        parts += ["In the TOML file of the pipeline it is written so:", code(advised["toml"])]
    parts += [
        figure(frontier_drawing(told), _caption(told)),
        _leading(told),
        "Where the time goes, in milliseconds of the median request. A nominator's time is part of the pool's.",
        _stages(told),
        _folded(f"All {len(told['settings'])} settings, the fastest first", _every(told)),
    ]
    return Section(f"What can be had within {_ms(told['budget_ms'])}?", parts)


def budget_lines(told: Told) -> list[str]:
    """The advice for a terminal."""
    lines = [f"budget {_ms(told['budget_ms'])}: {_counts(told)}"]
    lines += [f"  {one}" for one in verdict(told)]
    advised = _named(told, told["advised"])
    if advised is not None and advised["changes"]:
        lines += [f"  {line}" for line in advised["toml"].splitlines() if line]
    lines.append(f"  not beaten in time and {WORTH[told['metric']]} at once ({told['users']:,} users):")
    lines += [f"    {_row(told, one)}" for one in _frontier(told)]
    return lines + [f"  {one}" for one in cautions(told)]


def verdict(told: Told) -> list[str]:
    """What fits, and what to do."""
    present, budget = _present(told), _ms(told["budget_ms"])
    slow = "" if present["fits"] else ", which is too long,"
    now = f"As it is, the pipeline takes {_ms(present['p95_ms'])}{slow} and {_worth(told, present)}."
    if told["status"] == "none":
        fastest = _setting(told, told["fastest"])
        name = "the pipeline as it is" if fastest is present else f"{fastest['label']!r}"
        return [
            now,
            f"No setting that was measured fits into {budget}. The fastest is {name}: it takes "
            f"{_ms(fastest['p95_ms'])} and {_worth(told, fastest)}. Sizes alone will not do it: {_slowest(fastest)} "
            "Leave it out, exchange it, or take a faster machine.",
        ]
    return [now, _fitting(told), *_advice(told)]


def cautions(told: Told) -> list[str]:
    """What speaks against trusting it."""
    said = (
        []
        if told["advised"] in (None, told["present"])
        else [
            f"The best of {len(told['settings'])} settings looks a little better than it is, because it was chosen on "
            "the users it was measured on: before a small gain is believed, measure it on others."
        ]
    )
    if told["users"] < FEWEST:
        said.append(
            f"With {told['users']} users there are no intervals ({FEWEST} are needed): differences may be chance."
        )
    if told["busy"]:
        said.append(
            "Something else was at work on this machine: requests waited for it, and all times are too long and "
            "scatter. Measure again when it is quiet."
        )
    if told["left_out"]:
        said.append(f"There was no time for {told['left_out']} further settings.")
    return said


def _measured(told: Told) -> str:
    sure = (
        " Brackets hold the interval in which the number would lie for 95 of 100 other groups of as many users."
        if told["users"] >= FEWEST
        else ""
    )
    return (
        f"The sizes of the pipeline were turned: how many items each nominator may name and each stage lets through "
        f"(the numbers after %), and how wide a tree is searched (its beam). {len(told['settings'])} settings took "
        f"turns on the same requests, one at a time on one thread. The time of a setting is what 95 of 100 requests "
        f"stay within, the faster of two tries each, so that other work on the machine counts little; a busy server "
        f"takes longer. Its worth is {EXPLAINED[told['metric']].format(k=told['k'])}, for the same "
        f"{told['users']:,} users.{sure}"
    )


def _fitting(told: Told) -> str:
    fits = [one for one in told["settings"] if one["fits"]]
    if told["status"] == "all":
        slowest = max(fits, key=lambda one: one["p95_ms"])
        return (
            f"All {len(fits)} settings that were measured fit: even the slowest takes only {_ms(slowest['p95_ms'])}, "
            "so time is not what limits this pipeline."
        )
    return f"{len(fits)} of {len(told['settings'])} settings fit."


def _advice(told: Told) -> list[str]:
    best, advised, present = (_setting(told, told[name]) for name in ("best", "advised", "present"))
    if advised is present:
        said = ["Leave it as it is: no setting that fits is clearly better, or as good and clearly faster."]
    else:
        said = [
            f"Take {advised['label']!r}: it takes {_ms(advised['p95_ms'])} and {_worth(told, advised)}; against the "
            f"present setting on the same users that is {points(advised['gain'])}, {_sure(advised['gain'])}."
        ]
    if best is not advised:
        said.append(
            f"The best mean has {_called(best)}, which {_worth(told, best)} in {_ms(best['p95_ms'])}. That is not "
            f"clearly more on these users{_preferred(advised, best)}."
        )
    return said


def _preferred(advised: Told, best: Told) -> str:
    """Why the best mean is not what is advised."""
    if not advised["changes"]:
        return ""
    if advised["p95_ms"] < best["p95_ms"]:
        return ", so the faster one is advised"
    return ", so what takes about the same time with fewer changes is advised"


def _slowest(one: Told) -> str:
    """The stage that takes most, a nominator rather than the whole pool."""
    divided = {stage["part_of"] for stage in one["stages"]}
    alone = [stage for stage in one["stages"] if stage["name"] not in divided or stage["part_of"]]
    most = max(alone, key=lambda stage: stage["median_ms"])
    return (
        f"most of the time goes to {most['name']!r}, {_short(most['median_ms'])} of {_ms(one['median_ms'])} in the "
        "median request."
    )


def _sure(gain: Told) -> str:
    if rises(gain):
        return "clearly more"
    return "clearly less" if falls(gain) else "no clear difference"


def _leading(told: Told) -> Html:
    """The settings one chooses from."""
    chosen = {one["label"]: one for one in _frontier(told)}
    chosen |= {
        one["label"]: one for one in (_present(told), _named(told, told["advised"])) if one is not None
    }
    rows = [
        [
            one["label"],
            unbroken(_mark(told, one)),
            _short(one["p95_ms"]),
            _short(one["median_ms"]),
            unbroken(around(one[told["metric"]])),
            "" if one["label"] == told["present"] else unbroken(points(one["gain"])),
        ]
        for one in sorted(chosen.values(), key=lambda one: one["p95_ms"])
    ]
    heads = ["setting", "", "95 % within ms", "median ms", WORTH[told["metric"]], "against as it is"]
    return table(heads, rows)


def _stages(told: Told) -> Html:
    """A row per stage, a column per setting that matters."""
    names = dict.fromkeys([told["present"], told["advised"], told["best"], told["fastest"]])
    shown = [_setting(told, name) for name in names if name is not None]
    rows = []
    for number, stage in enumerate(shown[0]["stages"]):
        inside = f"– {stage['name']}" if stage["part_of"] else stage["name"]
        rows.append([inside, *(_short(one["stages"][number]["median_ms"]) for one in shown)])
    rows.append(["the whole request", *(_short(one["median_ms"]) for one in shown)])
    return table(["stage", *(_heading(told, one) for one in shown)], rows)


def _every(told: Told) -> Html:
    rows = []
    for one in sorted(told["settings"], key=lambda one: one["p95_ms"]):
        expected = one["predicted"]
        rows.append(
            [
                one["label"],
                _short(one["p95_ms"]),
                _short(one["median_ms"]),
                unbroken(around(one[told["metric"]])),
                *(_short(stage["median_ms"]) for stage in one["stages"] if not stage["part_of"]),
                "" if expected is None else f"{_short(expected['p95_ms'])} ms, {percent(expected['worth'])}",
            ]
        )
    stages = [f"{stage['name']} ms" for stage in told["settings"][0]["stages"] if not stage["part_of"]]
    worth = WORTH[told["metric"]]
    return table(["setting", "95 % within ms", "median ms", worth, *stages, "if changes added up"], rows)


def _folded(title: str, inside: Html) -> Html:
    return Html(f"<details><summary>{title}</summary>\n{inside.text}\n</details>")


def _caption(told: Told) -> str:
    requests = min(one["requests"] for one in told["settings"])
    return (
        f"Every point is a setting; up and to the left is better. The line joins those that no other one beats in "
        f"time and worth at once (the frontier). {told['users']:,} users for the worth, {requests} requests for the "
        "time of each setting; a whisker is the interval of the difference from the setting as it is."
    )


def _mark(told: Told, one: Told) -> str:
    marks = [word for word in ("advised", "best") if told[word] == one["label"]]
    return ", ".join([*marks, *([] if one["fits"] else ["too slow"])])


def _heading(told: Told, one: Told) -> str:
    marks = [word for word in ("advised", "best", "fastest") if told[word] == one["label"]]
    return f"{one['label']} ({', '.join(marks)})" if marks else str(one["label"])


def _row(told: Told, one: Told) -> str:
    mark = _mark(told, one)
    worth = around(one[told["metric"]])
    return f"{_ms(one['p95_ms']):>9}  {worth:<24} {one['label']}{f' ({mark})' if mark else ''}"


def _called(one: Told) -> str:
    return "the pipeline as it is" if not one["changes"] else repr(one["label"])


def _counts(told: Told) -> str:
    return f"{len(told['settings'])} settings measured; time is {told['counts']}"


def _worth(told: Told, one: Told) -> str:
    share = around(one[told["metric"]])
    if told["metric"] == "recall":
        return f"returns {share} of the wanted items"
    return f"begins {share} of its slates with a wanted item"


def _frontier(told: Told) -> list[Told]:
    return [_setting(told, name) for name in told["frontier"]]


def _present(told: Told) -> Told:
    return _setting(told, told["present"])


def _setting(told: Told, label: str) -> Told:
    found: Told = next(one for one in told["settings"] if one["label"] == label)
    return found


def _named(told: Told, label: str | None) -> Told | None:
    return None if label is None else _setting(told, label)


def _ms(value: float) -> str:
    return f"{value:g} ms" if value == round(value) else f"{_short(value)} ms"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
