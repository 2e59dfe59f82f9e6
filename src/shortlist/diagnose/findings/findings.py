"""What the diagnosis of a funnel comes to: the biggest avoidable loss first, why, and what turning a knob gave."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shortlist.diagnose.findings.notes import SMALL, remarks
from shortlist.diagnose.findings.text import (
    NOISE,
    Told,
    around,
    counted,
    falls,
    listed,
    percent,
    points,
    rises,
)

TENTH = 0.001  # of a point: less is not told apart

KNOBS = {
    "catalogue": "Train again on data that holds these items; no stage can name what it does not know.",
    "nominator": "More items from a nominator (its limit, the number after % in the recipe), or a further nominator.",
    "filter": "The rule of the filter: what it says no to, and how far back it looks. It may stand for other reasons.",
    "hydrator": "It only adds columns: look at the stage before it.",
    "scorer": "How many it lets through (its cut, the number after % in the recipe), and what it is trained on.",
    "selector": "How strongly it mixes (its strength), and how many places there are.",
}
REASONS = {
    "catalogue": "They are not among the items that the bundle knows.",
    "nominator": "No nominator named them, so no later stage ever saw them.",
    "filter": "A filter says no by its rule, not by a score; these users met such items all the same.",
    "hydrator": "It adds columns and should lose nothing.",
    "scorer": "They were among the candidates, but others were scored higher and took the places.",
    "selector": "They were among the last candidates, but others were chosen for the slate.",
}


@dataclass(frozen=True)
class Advice:
    """One thing to know and to do; `share` is what could be avoided, of all wanted items, 0 where it is not a loss."""

    stage: str
    what: str
    why: str
    knob: str
    gain: Mapping[str, Any] | None = None  # the best that was measured, in recall; None where nothing was
    share: float = 0.0


def advice(told: Told) -> tuple[Advice, ...]:
    """Losses by what could be avoided of them, then what else should be known."""
    wanted = max(told["wanted"], 1)
    stages = sorted(told["stages"], key=lambda stage: -avoidable(stage))
    large = [stage for stage in stages if avoidable(stage) >= SMALL * wanted]
    small = [stage for stage in stages if 0 < avoidable(stage) < SMALL * wanted]
    losses = [_loss(stage, told) for stage in large]
    rest = [Advice(one.stage, one.what, one.why, one.knob) for one in remarks(told)]
    return (*losses, *([_little(small, wanted)] if small else []), *rest)


def avoidable(stage: Told) -> int:
    """Wanted items lost at a stage for which there would have been a place in the end."""
    return int(stage["lost"] - stage["no_room"])


def worst_of(told: Told) -> str:
    """The stage with the biggest avoidable loss, no name where none loses anything."""
    worst = max(told["stages"], key=avoidable, default=None)
    return str(worst["name"]) if worst and avoidable(worst) > 0 else ""


def in_short(told: Told) -> list[str]:
    """The verdict in two or three sentences."""
    if not told["wanted"]:
        return ["Nobody in the sample met anything next, so nothing can be said."]
    said = [
        f"Of {counted(told['wanted'], 'wanted item')} (what {counted(told['users'], 'user')} really met next) the "
        f"funnel returned {told['returned']:,}: {around(told['recall'])}.{_held(told)}"
    ]
    if not worst_of(told):
        return [*said, "No stage loses anything that could be avoided."]
    worst = max(told["stages"], key=avoidable)
    said.append(
        f"The biggest avoidable loss is at {worst['name']!r} ({_kind(worst)}{_led_by(worst)}): "
        f"{counted(avoidable(worst), 'wanted item')}, {percent(avoidable(worst) / told['wanted'])}. {_promise(told)}"
    )
    same = (told.get("coverage") or {}).get("collapse")
    alarm = (
        [f"Alarm: {percent(told['coverage']['first_share'])} of all slates begin with the same item."]
        if same
        else []
    )
    return [*said, _most(told), *alarm]


def _held(told: Told) -> str:
    """What slates could hold at most, where users want more than they have places."""
    possible = told.get("possible", 1.0)
    if possible >= 1:
        return ""
    return f" No funnel could return more than {percent(possible)} in slates of {told['k']}: users want more than that."


def _promise(told: Told) -> str:
    """Where a perfect stage would bring most."""
    stages = [stage for stage in told["stages"] if promised(stage)["mean"] > 0]
    if not stages:
        return "No single perfect stage would bring more of them into the slate."
    stage = max(stages, key=lambda one: promised(one)["mean"])
    thing = "a perfect order" if promised(stage) is stage["what_if"].get("order") else "a perfect stage"
    return f"Most could be won at {stage['name']!r}: {thing} there would bring {points(promised(stage))}."


def promised(stage: Told) -> Told:
    """The most that perfecting one stage was measured to bring: it keeps what is wanted, or orders by it."""
    then = stage["what_if"]
    known = [one for one in (then["oracle"], then.get("order")) if one and one["mean"] is not None]
    return max(known, key=lambda one: one["mean"], default={"mean": 0.0, "low": None, "high": None})


def best_knob(knobs: Sequence[Told]) -> Told | None:
    """The measured setting that gained most, surely or not; None where nothing was measured."""
    measured = [one for one in knobs if one["gain"] is not None and one["gain"]["mean"] is not None]
    return max(measured, key=lambda one: (rises(one["gain"]), one["gain"]["mean"]), default=None)


def knobs_of(stage: Told, told: Told) -> list[Told]:
    """What was turned at a stage; the pool owns what belongs to no other, its nominators."""
    others = {one["name"] for one in told["stages"]} - {stage["name"]}
    pool = stage["kind"] == "nominator"
    turned = [*told["knobs"], *told.get("rules", ())]
    return [one for one in turned if one["stage"] == stage["name"] or (pool and one["stage"] not in others)]


def _most(told: Told) -> str:
    best = best_knob(told["knobs"])
    if best is None:
        return "No setting was tried on these users."
    if rises(best["gain"]):
        return (
            f"Of {_tried(told['knobs'])} settings tried, {setting(best)} brought most: {points(best['gain'])} of all "
            "wanted items returned. The best of several looks a little better than it is: measure it on other users."
        )
    return "None of the settings that were tried brought a gain that can be told from chance."


def _tried(knobs: Sequence[Told]) -> int:
    """How many settings were really measured."""
    return sum(one["gain"] is not None for one in knobs)


def setting(knob: Told) -> str:
    """A knob with where it was turned to."""
    if knob["label"] == "rule":
        return f"leaving out the rule of {knob['stage']!r}"
    if knob["label"] == "named":
        return f"letting the whole catalogue into {knob['stage']!r}"
    if knob["setting"] == "none":
        return f"no {knob['label']} at {knob['stage']!r}"
    return f"{knob['label']} = {knob['setting']} at {knob['stage']!r}"


def _loss(stage: Told, told: Told) -> Advice:
    knobs = knobs_of(stage, told)
    best = best_knob(knobs)
    return Advice(
        stage["name"],
        _what(stage, told["wanted"]),
        " ".join(_why(stage, told)),
        " ".join(_turned(stage, knobs, best)),
        best["gain"] if best else None,
        avoidable(stage) / told["wanted"],
    )


def _what(stage: Told, wanted: int) -> str:
    said = (
        f"{stage['name']!r} ({_kind(stage)}) loses {stage['lost']:,} of {counted(wanted, 'wanted item')} "
        f"({around(stage['share'])})"
    )
    if stage["conditional"] is not None and stage["entered"] < wanted:
        said += f", {percent(stage['conditional'])} of the {stage['entered']:,} that reach it"
    if stage["no_room"]:
        said += (
            f"; for {stage['no_room']:,} of them there is no place in the end, because their users want more items "
            "than slates hold"
        )
    return said + "."


def _why(stage: Told, told: Told) -> list[str]:
    said = [REASONS.get(stage["kind"], "")]
    if stage["kind"] == "filter" and stage["removed"] < stage["lost"]:
        said = [_past_the_rule(stage)]
    if stage["kind"] != "filter" and stage["removed"]:
        said.append(f"{stage['removed']:,} of them were said no to.")
    by = stage.get("ordered_by")
    if by and by != stage["name"] and stage["kind"] == "selector":
        said.append(f"It goes by the scores of {by!r}, so a better order there counts most.")
    said += _what_if(stage, told)
    if stage["kind"] == "nominator":
        said += [_blame(name, tree) for name, tree in told.get("trees", {}).items()]
    return [one for one in said if one]


def _past_the_rule(stage: Told) -> str:
    """A filter with a cut behind it loses by its rule and by want of places."""
    others = stage["lost"] - stage["removed"]
    said = (
        f"To {stage['removed']:,} of them its rule said no" if stage["removed"] else "Its rule let them pass"
    )
    thing = (
        f"; {others:,} passed, but stood too far back"
        if stage["removed"]
        else ", but they stood too far back"
    )
    return f"{said}{thing} for the places after it, in the order that the stages before it made."


def _what_if(stage: Told, told: Told) -> list[str]:
    """What a perfect stage would bring, and who would lose it again."""
    then = stage["what_if"]
    if then["oracle"] is None or then["oracle"]["mean"] is None:
        return []
    order = then.get("order")
    apart = order and order["mean"] is not None and order["mean"] > then["oracle"]["mean"] + TENTH
    more = f" ({points(order)} if it also gave them the highest scores)" if apart else ""
    said = [f"A perfect {stage['name']!r} would bring {points(then['oracle'])}{more}."]
    names = [one["name"] for one in told["stages"]]
    later = told["stages"][names.index(stage["name"]) + 1 :]
    if then["oracle"]["mean"] < then["ceiling"] / 2 and later:
        thief = max(later, key=lambda one: one["conditional"] or 0.0)
        much = "Nothing" if then["oracle"]["mean"] <= NOISE else "Less than half"
        said.append(
            f"{much} of what it loses: later stages, {thief['name']!r} most of all, would lose it again."
        )
    return said


def _blame(name: str, tree: Told) -> str:
    """Whether search or scorer of a tree is to blame."""
    account = tree["account"]
    wanted = max(account["wanted"], 1)
    said = (
        f"The tree {name!r} missed {percent(1 - account['found'] / wanted)} of what "
        f"{counted(tree['users'], 'user')} wanted: {percent(account['model'] / wanted)} because its scorer does not "
        "rank them high enough, "
        f"{percent(account['search'] / wanted)} because the search did not reach them (its beam was too narrow)."
    )
    if account["search"] < SMALL * wanted:
        said += " So a larger beam will not help."
    return said


def _turned(stage: Told, knobs: Sequence[Told], best: Told | None) -> list[str]:
    said = [KNOBS.get(stage["kind"], "")]
    if stage["kind"] == "filter" and best is not None:
        end = ": it does more good than harm" if falls(best["gain"]) else ""
        if 2 * stage["removed"] < stage["lost"]:
            said = [
                "A better order before it (a ranker that lets fewer through), or more places; its rule loses little."
            ]
        return [*said, f"Measured: {setting(best)} gave {points(best['gain'])}{end}."]
    tried = _tried(knobs)
    of = f" (the best of {tried} settings tried)" if tried > 1 else ""
    if best is None:
        said.append("No setting of this stage was tried.")
    elif rises(best["gain"]):
        said.append(f"Measured: {setting(best)} gave {points(best['gain'])}{of}{_price(best, stage)}.")
    elif best["gain"]["low"] is None:
        said.append(f"Measured: {setting(best)} gave {points(best['gain'])}{of}.")
    elif falls(best["gain"]):
        said.append(
            f"Every setting tried made it worse; the mildest, {setting(best)}, gave {points(best['gain'])}."
        )
    else:
        said.append(f"Turning it gave nothing measurable: {setting(best)} gave {points(best['gain'])}{of}.")
    waiting = [one for one in knobs if one["needs_training"] and one["gain"] is None and not one.get("why")]
    if waiting:
        tries = ", ".join(f"{one['label']} = {one['setting']}" for one in waiting)
        said.append(f"Not measured: {tries}; that needs training, add --retrain.")
    return said


def _price(knob: Told, stage: Told) -> str:
    before, after = stage["candidates"], knob["candidates"]
    if after is None or not before or after <= before * 1.05:
        return ""
    return f", with {after:,.0f} candidates per request after this stage instead of {before:,.0f}"


def _little(stages: Sequence[Told], wanted: int) -> Advice:
    names = listed([stage["name"] for stage in stages])
    share = sum(avoidable(stage) for stage in stages) / wanted
    alone = len(stages) == 1
    return Advice(
        stages[0]["name"],
        f"{names} {'loses' if alone else 'together lose'} {share:.2%} of what is wanted and would have had a place.",
        "That is less than one in a hundred." if alone else "Each loses less than one in a hundred.",
        "Leave it as it is." if alone else "Leave them as they are.",
        None,
        share,
    )


def _led_by(stage: Told) -> str:
    """Whose scores a stage that chooses goes by, where they are another's."""
    by = stage.get("ordered_by")
    return f" by the scores of {by!r}" if stage["kind"] == "selector" and by and by != stage["name"] else ""


def _kind(stage: Told) -> str:
    return {
        "catalogue": "what is known at all",
        "nominator": "where candidates come from",
        "filter": "a filter",
        "hydrator": "adds columns",
        "scorer": "a ranker",
        "selector": "chooses the slate",
    }.get(stage["kind"], str(stage["kind"]))
