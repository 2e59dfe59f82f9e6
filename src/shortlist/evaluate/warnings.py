"""What speaks against trusting a comparison, in sentences."""

import math
from collections.abc import Iterator, Mapping
from statistics import NormalDist
from typing import Any

from shortlist.evaluate.compare import SURE, Contest, Pair

POWER = 0.8  # how often a difference should be seen that is there


def doubts(contest: Contest, about: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """All doubts, the gravest first; `about` a system are its "training", "seed", "package" and "version"."""
    return [
        *_unfinished(about),
        *_below_popularity(contest),
        *_too_few_users(contest),
        *_twins(about),
        *_apart(about, "seed", "with different seeds"),
        *_apart(about, "package", "by different versions of the package"),
    ]


def _unfinished(about: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, one in about.items():
        for stage, went in one.get("training", {}).items():
            if went["converged"] is False:
                yield (
                    f"{name}: its stage {stage!r} did not converge: it was still getting better when its training "
                    f"ended (best at {went['best']} of {went['most']}); train it for longer before you judge it"
                )


def _below_popularity(contest: Contest) -> Iterator[str]:
    for pair in contest.popularity:
        if not (pair.sure and pair.found.above):
            word = "is below" if pair.found.difference < 0 else "is not clearly above"
            yield (
                f"{pair.system}: {word} {pair.against} by {contest.metric} "
                f"({_signed(pair.found.difference)}, {_interval(pair)})"
            )


def _too_few_users(contest: Contest) -> Iterator[str]:
    for pair in contest.pairs:
        if not pair.sure and pair.found.difference:
            yield (
                f"{pair.system} and {pair.against}: too few users to tell them apart by {contest.metric}: the "
                f"difference is {_signed(pair.found.difference)}, its interval {_interval(pair)}, p by "
                f"Holm {pair.p_holm:.3f}{_needed(pair, len(contest.pairs))}"
            )


def _needed(pair: Pair, pairs: int) -> str:
    """How many users would show a difference as large as the one seen, among so many pairs."""
    effect, normal = abs(pair.found.effect_size), NormalDist()
    enough = normal.inv_cdf(1 - SURE / 2 / pairs) + normal.inv_cdf(POWER)  # standard errors
    return f"; it would take about {math.ceil((enough / effect) ** 2):,} users" if effect > 0 else ""


def _twins(about: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for version in dict.fromkeys(one["version"] for one in about.values()):
        same = [name for name, one in about.items() if one["version"] == version]
        if len(same) > 1:
            yield f"{', '.join(same)}: are the same model ({version})"


def _apart(about: Mapping[str, Mapping[str, Any]], what: str, words: str) -> Iterator[str]:
    found = {name: one[what] for name, one in about.items()}
    if len(set(found.values())) > 1:
        yield f"the systems were trained {words}: " + ", ".join(f"{n} {v}" for n, v in found.items())


def _signed(value: float) -> str:
    return f"{value:+.4f}"


def _interval(pair: Pair) -> str:
    return f"[{_signed(pair.found.low)}, {_signed(pair.found.high)}]"
