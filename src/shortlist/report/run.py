"""The page of one run: how good it is, which stage lost what, and one request from beginning to end."""

from collections.abc import Mapping
from typing import Any

from shortlist.metrics.significance import Comparison
from shortlist.report.page import Html, Section, code, facts, figure, interval, page, table
from shortlist.report.plots import bars, funnel, whiskers
from shortlist.report.tree.page import tree_section

SHOWN = ("recall@20", "ndcg@20", "precision@20", "hit_rate@20", "mrr@20", "map@20", "f1@20")


def run_page(told: Mapping[str, Any]) -> str:
    """One HTML document from what `evaluate` found, the worked example and the facts of the run."""
    sections = [
        _headline(told),
        _metrics(told),
        _losses(told),
        _nominators(told),
        *(tree_section(name, tree) for name, tree in told.get("trees", {}).items()),
        _segments(told),
        _example(told),
        rules_section(told["protocol"]),
        _made(told),
    ]
    return page(f"{told['about']['name']} on {told['about']['data']}", sections)


def _headline(told: Mapping[str, Any]) -> Section:
    better = told["difference"]["recall@20"]
    worst = max(told["stages"]["stages"], key=lambda stage: stage["lost"])
    wanted = max(told["stages"]["wanted"], 1)
    ours, theirs = (told["metrics"][who]["metrics"]["recall@20"] for who in ("pipeline", "popularity"))
    sure = "beats popularity" if Comparison(**better).above else "does not clearly beat popularity"
    return Section(
        "In short",
        [
            f"The pipeline {sure}: recall@20 is {interval(ours)}, popularity's {interval(theirs)}, "
            f"the difference on the same users {interval(better, 'difference')}.",
            f"The largest loss is at {worst['name']!r}: {worst['lost']:,} of {wanted:,} held-out items "
            f"({worst['lost'] / wanted:.1%}) end there.",
            facts(
                {
                    "held-out users": told["users"],
                    "held-out items": told["stages"]["wanted"],
                    "of them returned": told["stages"]["returned"],
                }
            ),
            code(told["about"]["pipeline"]),
        ],
    )


def _metrics(told: Mapping[str, Any]) -> Section:
    everyone = told["metrics"]
    ours = everyone["pipeline"]
    names = [name for name in SHOWN if name in ours["metrics"]]
    series = {who: [_point(one["metrics"][name]) for name in names] for who, one in everyone.items()}
    rows = [
        [name, *(interval(one["metrics"][name]) for one in everyone.values())] for name in ours["metrics"]
    ]
    rows += [[name, *(one["whole"][name] for one in everyone.values())] for name in ours["whole"]]
    apart = [
        [who, *(interval(one[name], "difference") for name in ("recall@20", "ndcg@20"))]
        for who, one in told["differences"].items()
    ]
    return Section(
        "How good it is",
        [
            figure(
                whiskers(names, series, "value"), "Means over held-out users with 95 % bootstrap intervals."
            ),
            table(["metric", *everyone], rows),
            "How far the pipeline is above each yardstick on the same users:",
            table(["yardstick", "recall@20", "ndcg@20"], apart),
        ],
    )


def _losses(told: Mapping[str, Any]) -> Section:
    stages, wanted = told["stages"]["stages"], max(told["stages"]["wanted"], 1)
    drawn = [(one["name"], max(one["candidates"], 0.1), one["survived"] / wanted) for one in stages]
    rows = [
        [
            one["name"],
            one["kind"],
            one["entered"],
            one["survived"],
            one["lost"],
            one["removed"],
            f"{one['lost'] / wanted:.1%}",
            round(one["candidates"], 1),
        ]
        for one in stages
    ]
    heads = [
        "stage",
        "kind",
        "entered",
        "survived",
        "lost",
        "by a filter's no",
        "share of all",
        "candidates after",
    ]
    return Section(
        "Which stage lost what",
        [
            "Every held-out item is followed through the pipeline. What no nominator named is lost at the pool; "
            "entered is always survived plus lost.",
            figure(
                funnel(drawn, ("candidates per request", "held-out items still there")),
                "How many candidates each stage passes on, and how many of the wanted items are still among them.",
            ),
            figure(
                bars([(one["name"], one["lost"]) for one in stages], "held-out items lost"), "Loss per stage."
            ),
            table(heads, rows),
        ],
    )


def _nominators(told: Mapping[str, Any]) -> Section:
    wanted = max(told["stages"]["wanted"], 1)
    rows = [
        [name, one["named"], f"{one['named'] / wanted:.1%}", one["alone"], f"{one['alone'] / wanted:.1%}"]
        for name, one in told["stages"]["nominators"].items()
    ]
    heads = ["nominator", "held-out items named", "share", "named by it alone", "share"]
    return Section("Who finds it", [table(heads, rows)])


def _segments(told: Mapping[str, Any]) -> Section:
    rows = []
    for name, one in told["segments"].items():
        rows.append([name, one["users"]])
        for metric in ("recall@20", "ndcg@20"):
            rows[-1] += [interval(one[who][metric]) for who in ("pipeline", "popularity")]
    heads = ["users", "how many", "recall@20", "popularity", "ndcg@20", "popularity"]
    return Section("For whom", [table(heads, rows)])


def _example(told: Mapping[str, Any]) -> Section:
    example = told["example"]
    steps = [
        [s["name"], s["kind"], s["in"], s["out"], s["removed"], s["cut"], s["ms"]] for s in example["stages"]
    ]
    slate = [
        [one["rank"], one["title"], one["category"], one["score"], ", ".join(one["nominators"]), _came(one)]
        for one in example["items"]
    ]
    lost = [Html("<h3>What it missed, and why</h3>"), *(one["sentence"] for one in example["lost"])]
    return Section(
        f"One request: user {example['user']}",
        [
            "What the user had met last, newest first:",
            table(["title", "category"], [[one["title"], one["category"]] for one in example["history"]]),
            "What the pipeline answered:",
            table(["rank", "title", "category", "score", "named by", "met later"], slate),
            "How it came about:",
            table(["stage", "kind", "in", "kept", "removed", "cut", "ms"], steps),
            *(lost if example["lost"] else []),
        ],
    )


def rules_section(rules: Mapping[str, str]) -> Section:
    """What the numbers were measured by."""
    return Section("By which rules", [table(["rule", "here"], rules.items())])


def _made(told: Mapping[str, Any]) -> Section:
    about = told["about"]
    named = ("model", "data", "fingerprint", "split", "seed", "package", "trained on")
    return Section("How it was made", [facts({name: about[name] for name in named if name in about})])


def _came(one: Mapping[str, Any]) -> str:
    return "yes" if one.get("wanted") else ""


def _point(one: Mapping[str, Any]) -> tuple[float, float, float]:
    return (one["mean"] or 0.0, one["low"] or 0.0, one["high"] or 0.0)
