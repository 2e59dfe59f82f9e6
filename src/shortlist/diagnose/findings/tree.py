"""What a diagnosis comes to: sentences by fixed rules, the largest loss first, each with the knob that addresses it."""

from dataclasses import dataclass

from shortlist.diagnose.tree.diagnosis import Level, TreeDiagnosis

SMALL = 0.01  # a share of the wanted items that is not worth a knob
STARVED = 0.1  # a mean label below which a level hardly learns


@dataclass(frozen=True)
class Finding:
    """One thing to know; `share` is what it costs, of all held-out items, None where it is not a loss."""

    what: str
    knob: str
    share: float | None = None


def tree_findings(told: TreeDiagnosis) -> tuple[Finding, ...]:
    """The alarm, then losses by size, then what training should know."""
    alarm = [_alarm(told)] if told.collapse.alarm else []
    losses = [found for found in (_model(told), _search(told), _absent(told), _crowded(told)) if found]
    losses.sort(key=lambda found: -(found.share or 0.0))
    rest = [found for found in (_narrow(told), _sampling(told), _labels(told), _order(told)) if found]
    return (*alarm, *losses, *rest)


def _alarm(told: TreeDiagnosis) -> Finding:
    return Finding(
        f"Alarm: recommendations are nearly the same for everybody: {told.collapse.reason}.",
        "Train longer, or with a lower rate; check that histories reach the scorer.",
    )


def _model(told: TreeDiagnosis) -> Finding | None:
    account = told.account
    lost = account.model - account.absent - account.seen - account.crowded
    if not lost:
        return None
    return Finding(
        f"The scorer misses {_part(lost, account.wanted)}: with every leaf scored they are still not among the "
        f"best {told.k}.",
        "Training: more rounds or epochs, more negatives, a wider scorer. A wider beam cannot find them.",
        lost / account.wanted,
    )


def _search(told: TreeDiagnosis) -> Finding | None:
    account = told.account
    if not account.search:
        return None
    worst = max(told.levels, key=lambda level: level.search_lost)
    what = (
        f"The beam loses {_part(account.search, account.wanted)} that scoring every leaf would find, most of them "
        f"({worst.search_lost:,}) at level {worst.level} of {told.height}; {account.lucky:,} others are found by luck, "
        "in places that better-scored leaves should have had."
    )
    return Finding(what, _search_knob(told, worst), account.search / account.wanted)


def _search_knob(told: TreeDiagnosis, worst: Level) -> str:
    if told.account.search < SMALL * told.account.wanted:
        return "That is less than a hundredth of what is wanted: a wider beam will hardly help."
    here = next(width for width in told.widths if width.beam == told.beam)
    wider = [width for width in told.widths if width.beam > told.beam]
    knobs = []
    if wider:
        cost = wider[0].scored / max(here.scored, 1.0)
        knobs.append(
            f"beam = {wider[0].beam} scores {cost:.1f} times as many nodes and leaves out {wider[0].regret:.0%} of the "
            f"best {told.k} instead of {here.regret:.0%}; of the held-out items it finds {wider[0].found:,}, this one "
            f"{here.found:,}."
        )
        if wider[0].found <= here.found:
            knobs.append("So it does not help here: the scorer's own order is what to mend first.")
    if worst.violations is not None and worst.violations > 0.2:
        knobs.append(
            "Inner nodes do not speak for their best leaf: train longer, with rectified labels (method dtr-t-rl)."
        )
    if told.branch == 2:
        knobs.append("branch = 4 halves the number of levels on which something can be lost.")
    return " ".join(knobs)


def _absent(told: TreeDiagnosis) -> Finding | None:
    lost = told.account.absent
    if not lost:
        return None
    return Finding(
        f"{_part(lost, told.account.wanted)} have no leaf: the tree does not know them.",
        "Insert new items into the tree (index.tree.insert), or train again.",
        lost / told.account.wanted,
    )


def _crowded(told: TreeDiagnosis) -> Finding | None:
    lost = told.account.crowded
    if not lost:
        return None
    return Finding(
        f"{_part(lost, told.account.wanted)} have no place: their users want more than the {told.k} asked for.",
        "Ask the tree for more (tree % k), or read these numbers as what they are.",
        lost / told.account.wanted,
    )


def _narrow(told: TreeDiagnosis) -> Finding | None:
    """A narrower beam that returns almost the same."""
    here = next(width for width in told.widths if width.beam == told.beam)
    close = [
        width
        for width in told.widths
        if width.beam < told.beam and width.regret <= here.regret + SMALL and width.scored < here.scored
    ]
    if not close:
        return None
    return Finding(
        f"A beam of {close[0].beam} returns almost the same as {told.beam}.",
        f"beam = {close[0].beam} scores {here.scored / max(close[0].scored, 1.0):.1f} times fewer nodes.",
    )


def _sampling(told: TreeDiagnosis) -> Finding | None:
    last = told.levels[-1] if told.levels else None
    if last is None or last.kl_tree is None or last.kl_tree <= last.kl_uniform:
        return None
    return Finding(
        "Negatives drawn by walking down the tree are further from the scorer's own competitors than uniform ones "
        f"(KL {last.kl_tree:.2f} against {last.kl_uniform:.2f} at the leaves).",
        "Training: the tree is not learned well enough to draw by; use method dtr-u first, or a larger mix.",
    )


def _labels(told: TreeDiagnosis) -> Finding | None:
    starved = [
        level for level in told.levels if level.decides and level.label is not None and level.label < STARVED
    ]
    if not starved:
        return None
    return Finding(
        f"Strict rectified labels would leave level {starved[0].level} with {starved[0].label:.0%} of its examples.",
        'Training with rectified labels: prefer rectify = "one_step" or "normalised".',
    )


def _order(told: TreeDiagnosis) -> Finding | None:
    middle = [level for level in told.levels if level.nodes * 4 <= told.items and level.level > 1]
    if told.categories < 2 or not middle or max(_above_chance(level) for level in middle) > 0.1:
        return None
    return Finding(
        "The tree is no purer in categories than a random one.",
        'That is no fault if categories say little; else begin with order = "category", or let updates move items.',
    )


def _above_chance(level: Level) -> float:
    return level.purity - level.purity_chance


def _part(count: int, wanted: int) -> str:
    return f"{count:,} of {wanted:,} held-out items ({count / wanted:.1%})"
