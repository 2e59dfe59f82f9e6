"""A diagnosis on a terminal: the verdict in words, then the numbers it comes from."""

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from shortlist.diagnose.findings.findings import avoidable, in_short, worst_of
from shortlist.diagnose.findings.text import around, counted, percent, points

FURTHEST = 3  # segments that are told

Told = Mapping[str, Any]

CAPTION = """* no more nodes than the beam: nothing is lost. wrong: pairs of nodes in the wrong order.
reach: best of all leaves still in the beam. lost: held-out items that search lost here.
label: mean rectified label. KL, flat: distance from the model of negatives drawn by the tree, and uniformly.
pure: share of the most common category below a node, beside that of a random order."""

ANSWERS = {
    "helps": "the stages before {stage!r} help",
    "hurts": "the stages before {stage!r} do harm",
    "undecided": "whether the stages before {stage!r} help cannot be told from chance",
}


def show_funnel(told: Told, console: Console) -> None:
    """Verdict, table of stages, findings with knobs, and what else was looked at."""
    for sentence in in_short(told):
        say(console, sentence)
    for one in told["warnings"]:
        say(console, f"mind: {one}")
    console.print(stages_table(told))
    for number, one in enumerate(told["findings"], start=1):
        say(console, f"{number}. {one['what']}")
        say(console, f"   {one['why']}")
        say(console, f"   -> {one['knob']}")
    if told["nominators"]:
        console.print(nominators_table(told))
    say(console, verdict_line(told["verdict"] or {}))
    for line in (*shift_lines(told), *calibration_lines(told["calibration"]), *segment_lines(told)):
        say(console, line)


def say(console: Console, line: str) -> None:
    """Print a line as it is: names are no markup."""
    console.print(line, markup=False, highlight=False)


def stages_table(told: Told) -> Table:
    """A row per stage, the biggest avoidable loss marked."""
    table = Table(
        title=f"which stage loses what: {counted(told['users'], 'user')}, {counted(told['wanted'], 'wanted item')}",
        title_justify="left",
        caption="> biggest avoidable loss. in: wanted items that came in. lost: % of all wanted items [95 % interval]. "
        "own: % of what came in. avoidable: % of all wanted items that were lost here though slates had a place for "
        "them. perfect: points more in the slate if this stage alone kept what is wanted (measured, by looking at the "
        "answers). left: candidates per request after the stage.",
        caption_justify="left",
        box=SIMPLE,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for name in ("stage", "in", "lost", "own", "avoidable", "perfect", "left"):
        table.add_column(name, justify="left" if name == "stage" else "right", no_wrap=True)
    for one in told["stages"]:
        then = one["what_if"]
        table.add_row(
            ("> " if one["name"] == worst_of(told) else "  ") + one["name"],
            f"{one['entered']:,}",
            _hundreds(one["share"]),
            "–" if one["conditional"] is None else f"{100 * one['conditional']:.1f}",
            f"{100 * avoidable(one) / max(told['wanted'], 1):.1f}",
            "–" if then["oracle"] is None else _hundreds(then["oracle"]),
            f"{one['candidates']:,.0f}",
        )
    return table


def nominators_table(told: Told) -> Table:
    """Who names what, and what is returned without it."""
    table = Table(title="who finds it", title_justify="left", box=SIMPLE)
    for name in ("nominator", "names", "it alone", "returned without it"):
        table.add_column(name, justify="left" if name == "nominator" else "right")
    for name, one in told["nominators"].items():
        table.add_row(name, f"{one['named']:,}", f"{one['alone']:,}", points(one["without"]))
    return table


def verdict_line(one: Told) -> str:
    """Whether the last ranker would do better alone, in a sentence."""
    if one.get("accuracy") is None:
        return f"without the first stages: {one.get('why') or 'there is no scorer to ask'}"
    if one["difference"]["mean"] == 0 and one["gain"]["mean"] == 0:
        return (
            f"without the first stages: {one['stage']!r} would put the same items first; they cost it nothing"
        )
    return (
        f"without the first stages: {ANSWERS[one['answer']].format(stage=one['stage'])}: its first item is wanted for "
        f"{percent(one['accuracy'])} of {counted(one['users'], 'user')}, {percent(one['accuracy_flat'])} if it scores "
        f"the whole catalogue ({points(one['difference'])})"
    )


def shift_lines(told: Told) -> list[str]:
    """Training against serving for each scorer, with the mode it learned in and what its training warned of."""
    lines = []
    for name, one in told["shift"].items():
        lines += _mode_lines(name, told.get("training", {}).get(name, {}))
        if not isinstance(one, Mapping) or "recall_serving" not in one:
            lines.append(f"training and serving, {name}: {_why(one)}")
            continue
        lines.append(
            f"training and serving, {name}: the difference of its candidates is {one['level']}; told apart with "
            f"{one['auc']:.2f} (0.50: not at all); wanted among them {percent(one['recall_training'])} then, "
            f"{percent(one['recall_serving'])} now"
        )
    return lines


def _mode_lines(name: str, one: Told) -> list[str]:
    """The mode a ranker learned in, and the guard's numbers and warnings."""
    if not one.get("mode"):
        return []
    said = f"training of {name}: mode = {one['mode']!r}, negatives = {one.get('negatives')!r}"
    if one.get("harmony"):
        guard = one["harmony"]
        said += (
            f"; {guard['kept']:,} of {guard['instances']:,} wanted items ({percent(guard['recall'])}) were among its "
            "candidates"
        )
    return [said, *(f"mind, training of {warning}" for warning in one.get("warnings", ()))]


def calibration_lines(calibration: Told) -> list[str]:
    """How far said odds are off, a line for each scorer."""
    lines = []
    for name, one in calibration.items():
        if not isinstance(one, Mapping) or "ece" not in one:
            lines.append(f"odds of {name}: {_why(one)}")
            continue
        after = one.get("after")
        heat = (
            f"; {percent(after['ece'])} with its scores divided by {one['temperature']:.2f}" if after else ""
        )
        lines.append(
            f"odds of {name}: off by {percent(one['ece'])} on average, {percent(one['by_chance'])} would be chance"
            + heat
        )
    return lines


def segment_lines(told: Told) -> list[str]:
    """The parts of users and items whose recall is furthest from everyone's."""
    everyone = told["recall"]["mean"]
    known = [one for one in told["segments"] if not one.get("few") and one["recall"]["mean"] is not None]
    if everyone is None or not known:
        return []
    furthest = sorted(known, key=lambda one: -abs(one["recall"]["mean"] - everyone))[:FURTHEST]
    return [
        f"{one['kind']}, {one['name']}: {around(one['recall'])} returned, everyone {percent(everyone)} "
        f"({counted(one['users'], 'user')})"
        for one in furthest
    ]


def _why(one: object) -> str:
    return str(one.get("why", "not measured")) if isinstance(one, Mapping) else str(one)


def _hundreds(one: Told) -> str:
    if one["mean"] is None:
        return "–"
    middle = f"{100 * one['mean']:.1f}"
    return middle if one["low"] is None else f"{middle} [{100 * one['low']:.1f}, {100 * one['high']:.1f}]"


def show_tree(name: str, tree: Told, console: Console) -> None:
    """What was found in a tree, then its levels."""
    say(
        console,
        f"tree {name!r}: {tree['items']:,} items, {tree['height']} levels, branch {tree['branch']}, beam "
        f"{tree['beam']}, asked for {tree['k']}; {counted(tree['users'], 'user')}, "
        f"{tree['account']['wanted']:,} held-out items",
    )
    for number, one in enumerate(tree["findings"], start=1):
        say(console, f"{number}. {one['what']}")
        say(console, f"   -> {one['knob']}")
    console.print(levels_table(tree))


def levels_table(tree: Told) -> Table:
    """A row per level; levels that fit into the beam are marked."""
    table = Table(
        title=f"level by level: {_left_out(tree)}",
        title_justify="left",
        caption=CAPTION,
        caption_justify="left",
    )
    for name in ("level", "nodes", "wrong", "reach", "lost", "label", "KL", "flat", "pure", "chance"):
        table.add_column(name, justify="right")
    for one in tree["levels"]:
        table.add_row(
            str(one["level"]),
            f"{one['nodes']:,}" + ("" if one["decides"] else "*"),
            _share(one["violations"]),
            _share(one["top_kept"]),
            f"{one['search_lost']:,}",
            _share(one["label"]),
            _number(one["kl_tree"]),
            _number(one["kl_uniform"]),
            _number(one["purity"]),
            _number(one["purity_chance"]),
        )
    return table


def _left_out(tree: Told) -> str:
    return f"{tree['regret']:.1%} of the best {tree['k']} of all leaves are left out"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
