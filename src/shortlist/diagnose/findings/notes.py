"""What a funnel's owner should know beside the losses: the ranker alone, training and serving, odds, nominators."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from shortlist.diagnose.findings.text import Told, counted, falls, listed, percent, points, rises
from shortlist.metrics.estimate import FEWEST

SMALL = 0.01  # a share of the wanted items that is not worth a knob
ENOUGH = (
    0.1  # of the wanted items among the candidates: with fewer, learning on the retrieved has little to go by
)
CROOKED = 0.05  # mean distance between said and true odds
MISSED = 0.05  # of what is returned: a nominator that surely brings less is not missed
SIZES = ("limit", "cut", "beam", "places", "ef", "nprobe")  # knobs that only let more through
HALVED = 0.5  # what a factor must leave of an error for it to be called mended


@dataclass(frozen=True)
class Remark:
    """One thing to know that is no loss of a stage."""

    stage: str
    what: str
    why: str
    knob: str


def remarks(told: Told) -> tuple[Remark, ...]:
    """By fixed rules, in a fixed order: what hurts, what misleads, what could go."""
    rules = (_same, _hurts, _noise, _search, _shift, _thin, _odds, _short, _idle)
    return tuple(remark for rule in rules for remark in rule(told))


def _same(told: Told) -> Iterator[Remark]:
    one = told.get("coverage") or {}
    if one.get("collapse"):
        yield Remark(
            told["stages"][-1]["name"],
            f"Alarm: {percent(one['first_share'])} of all slates begin with the same item.",
            "More than a fifth of the users are shown one and the same first.",
            "Look at the last scorer: does it see histories at all? Train it longer, or with a lower rate."
            if any(stage["kind"] == "scorer" for stage in told["stages"])
            else "Nothing here orders items by who asks: add a nominator that looks at histories (co-visit), or a "
            "ranker.",
        )


def _hurts(told: Told) -> Iterator[Remark]:
    verdict = _verdict(told)
    if verdict.get("answer") == "hurts":
        yield Remark(
            verdict["stage"],
            f"{verdict['stage']!r} alone, asked about the whole catalogue, would do better: its first item is wanted "
            f"by {percent(verdict['accuracy_flat'])} of the users, behind the stages before it by "
            f"{percent(verdict['accuracy'])} ({points(verdict['difference'])}).",
            "The stages before it withhold items that it would have put first.",
            "Widen the stages before it: more items from the nominators, larger cuts.",
        )


def _noise(told: Told) -> Iterator[Remark]:
    """More candidates make the answer worse: the ranker is misled by items it never learned to refuse."""
    verdict = _verdict(told)
    wider = [one for one in _widened(told) if falls(one["gain"])]
    if wider:
        worst = min(wider, key=lambda one: one["gain"]["mean"])
        what = (
            f"More candidates make the slate worse: {worst['label']} = {worst['setting']} at {worst['stage']!r} gave "
            f"{points(worst['gain'])}."
        )
    elif verdict.get("answer") == "helps":
        what = (
            f"{verdict['stage']!r} needs the stages before it: with the whole catalogue to choose from, its first "
            f"item is wanted by {percent(verdict['accuracy_flat'])} of the users instead of "
            f"{percent(verdict['accuracy'])}."
        )
    else:
        return
    yield Remark(
        verdict.get("stage") or told["stages"][-1]["name"],
        what,
        "Among further candidates the ranker picks wrong ones more often than right ones: beyond what it learned from, "
        "it adds noise.",
        _against(told, verdict.get("stage")),
    )


def _against(told: Told, stage: str | None) -> str:
    """What a ranker that further candidates mislead should learn against, unless it does so already."""
    if told.get("training", {}).get(stage, {}).get("negatives") in ("candidates", "both"):
        return "It learned against candidates already: keep the stages before it as narrow as they are, or narrower."
    return (
        'Train it against what it is served (negatives = "candidates" or "both"); wider stages before it will not '
        "help."
    )


def _verdict(told: Told) -> Told:
    return told["verdict"] or {}


def _of_scorers(part: Told) -> Iterator[tuple[str, Told]]:
    """What was measured of each scorer; a sentence why there is nothing is no scorer."""
    return ((name, one) for name, one in part.items() if isinstance(one, Mapping))


def _widened(told: Told) -> list[Told]:
    """Sizes that let more candidates through than the stage does now."""
    now = {stage["name"]: stage["candidates"] for stage in told["stages"]}
    pool = next((stage["candidates"] for stage in told["stages"] if stage["kind"] == "nominator"), None)
    found = []
    for one in told["knobs"]:
        before = now.get(one["stage"], pool)
        known = before is not None and one["gain"] is not None and one["candidates"] is not None
        if known and one["label"] in SIZES and one["candidates"] > before:
            found.append(one)
    return found


def _search(told: Told) -> Iterator[Remark]:
    for name, tree in told.get("trees", {}).items():
        account = tree["account"]
        if account["wanted"] and account["search"] < SMALL * account["wanted"]:
            yield Remark(
                name,
                f"The search in the tree {name!r} costs {percent(account['search'] / account['wanted'])} of the wanted "
                "items.",
                "Scoring every leaf would find hardly more than the beam does.",
                "A larger beam will not help; better training of the tree's scorer may.",
            )


def _shift(told: Told) -> Iterator[Remark]:
    for name, one in _of_scorers(told["shift"]):
        if one.get("level") in ("large", "noticeable") and not one.get("few"):
            yield Remark(
                name,
                f"{name!r} learned on other candidates than it is served ({one['level']}): a simple test tells them "
                f"apart with {one['auc']:.2f} (0.50: not at all, 1.00: always), and "
                f"{percent(one['recall_training'])} of the wanted items were among them in training, "
                f"{percent(one['recall_serving'])} are when it serves.",
                "What a ranker has not met in training it can only guess about.",
                "Train again with the nominators and cuts that serve now.",
            )


def _thin(told: Told) -> Iterator[Remark]:
    for name, one in _of_scorers(told["shift"]):
        recall = one.get("recall_training")
        if recall is not None and recall < ENOUGH:
            yield Remark(
                name,
                f"Only {percent(recall)} of the wanted items were among the candidates that {name!r} learned from.",
                f"Below {ENOUGH:.0%} too few examples are left when a ranker learns only from what was retrieved.",
                'Keep mode = "original" or "mixed" for it, and mend the nominators first; mode = "harmonised" is not '
                "advised.",
            )


def _odds(told: Told) -> Iterator[Remark]:
    for name, one in [*_of_scorers(told["calibration"])][-1:]:  # only the last one's numbers leave the funnel
        ece = one.get("ece")
        if (
            ece is None
            or ece < max(CROOKED, one.get("by_chance") or 0.0)
            or one.get("users", FEWEST) < FEWEST
        ):
            continue
        much = "is too sure of itself" if _said(one) > _true(one) else "promises less than comes true"
        yield Remark(
            name,
            f"{name!r} {much}: of its first choices it says {percent(_said(one))} on average, and "
            f"{percent(_true(one))} are wanted.",
            "The order of the items, and so every loss above, does not depend on it."
            + (
                ""
                if one.get("probabilities")
                else " Its scores were never meant as odds: shares of a whole, and where "
                "users want several items at once each share is small."
            ),
            _mend(one),
        )


def _said(one: Told) -> float:
    return _mean(one, "confidence")


def _true(one: Told) -> float:
    return _mean(one, "accuracy")


def _mean(one: Told, what: str) -> float:
    count = sum(part["count"] for part in one["bins"])
    return float(sum(part[what] * part["count"] for part in one["bins"]) / max(count, 1))


def _mend(one: Told) -> str:
    after = one.get("after")
    if after and one["temperature"] is not None and after["ece"] < HALVED * one["ece"]:
        return (
            f"Divide its scores by {one['temperature']:.2f} where they are read as odds: then they are off by "
            f"{percent(after['ece'])} instead of {percent(one['ece'])}."
        )
    return (
        'Calibrate it (calibrate = "platt" or "isotonic") where its numbers are read as odds; a mere factor does not '
        "mend it. Where only the order counts, leave it."
    )


def _short(told: Told) -> Iterator[Remark]:
    for stage in told["stages"]:
        if stage["short"]:
            yield Remark(
                stage["name"],
                f"{stage['name']!r} had fewer candidates than places in {counted(stage['short'], 'request')}.",
                "The stages before it pass on too few.",
                "More items from the nominators, or a nominator that always has an answer (popular).",
            )
            return  # the first of them explains the others


def _idle(told: Told) -> Iterator[Remark]:
    if len(told["nominators"]) < 2:
        return
    least = -MISSED * (told["recall"]["mean"] or 0.0)
    spare = [name for name, one in told["nominators"].items() if _unmissed(one["without"], least)]
    better = [name for name in spare if rises(told["nominators"][name]["without"])]
    if not spare:
        return
    changes = "; ".join(f"without {name!r} {points(told['nominators'][name]['without'])}" for name in spare)
    every = len(spare) == len(told["nominators"])
    what = "No single nominator would be missed" if every else f"Nobody would miss {listed(spare)}"
    more = f" The funnel is even better without {listed(better)}." if better else ""
    together = " One at a time, then measure again: those that name the same cover for each other."
    yield Remark(
        spare[0],
        f"{what}: {changes}.{more}",
        "What it names that is wanted, others name too, or later stages lose it.",
        "Take it out and save its time." + (together if spare[1:] else ""),
    )


def _unmissed(without: Told, least: float) -> bool:
    """Whether leaving it out surely costs next to nothing: an interval that is only wide says nothing."""
    return without["low"] is not None and without["low"] > least and not falls(without)
