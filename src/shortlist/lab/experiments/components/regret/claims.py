"""What the regret figure should show, with two standard errors over seeds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from shortlist.lab.experiments.components.regret.cells import Played, Sizes
from shortlist.lab.result import Claim, claim
from shortlist.simulate.bandit import PairedDifference, paired
from shortlist.simulate.bandit.grid import subsets

PAPER = "002 figure 3"
SPEC = "pools 5.1"
TWO_STAGE = ("U+U", "U+G", "G+U", "G+G")
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Curves:
    """Final regret by width, arms, nominators, system and subset [S]."""

    played: Sequence[Played]
    sizes: Sizes

    def final(self, one: Played, name: str, count: int, subset: int, part: str = "total") -> Floats:
        return one.regret.final(one.system(name, count, subset), part)

    def places(self) -> Iterable[tuple[Played, int]]:
        """Every world with every number of nominators."""
        for one in self.played:
            for count in self.sizes.nominators[one.width]:
                if count <= one.arms:
                    yield one, count


def all_claims(curves: Curves, control: Played) -> list[Claim]:
    """The directions of the paper, and the control."""
    return [
        below_single(curves),
        *grows(curves),
        as_many_as_arms(curves),
        concave(curves),
        *more_nominators(curves),
        policies(curves),
        by_width(curves),
        *same_features(curves, control),
    ]


def below_single(curves: Curves) -> Claim:
    """Two stages have less regret than a single stage with the same features, in every cell."""
    gaps = [
        paired(curves.final(one, name, count, subset), curves.final(one, name[-1], count, subset))
        for one, count in curves.places()
        for subset in subsets(one.width, curves.sizes.ratios)
        if subset < one.width
        for name in TWO_STAGE
    ]
    return _every(
        "two-stage < single",
        PAPER,
        gaps,
        "paired difference in regret to a single stage with the same features",
    )


def grows(curves: Curves) -> list[Claim]:
    """Regret grows with arms and with misspecification."""
    ratios = sorted(curves.sizes.ratios)
    by_ratio, by_arms = [], []
    for one, count in curves.places():
        for name in TWO_STAGE if count < one.arms else ():
            own = [curves.final(one, name, count, subset) for subset in subsets(one.width, ratios)]
            by_ratio += [paired(low, high) for low, high in pairwise(own)]
    for fewer, count in curves.places():
        more = _next_arms(curves, fewer)
        if more is None:
            continue
        for subset in subsets(fewer.width, ratios):
            by_arms += [
                paired(curves.final(fewer, name, count, subset), curves.final(more, name, count, subset))
                for name in TWO_STAGE
            ]
    note = "difference in regret of two-stage systems"
    return [
        _every(
            "regret grows with d/s", PAPER, by_ratio, f"{note}, a step of d/s, fewer nominators than arms"
        ),
        _every("regret grows with arms", PAPER, by_arms, f"{note}, ten times as many arms in other rounds"),
    ]


def as_many_as_arms(curves: Curves) -> Claim:
    """With a nominator for each arm the regret is that of the ranker alone, whatever nominators see."""
    gaps = [
        float(
            np.abs(curves.final(one, name, count, subset) - curves.final(one, name, count, one.width)).max()
        )
        for one, count in curves.places()
        if count == one.arms
        for subset in subsets(one.width, curves.sizes.ratios)
        for name in TWO_STAGE
    ]
    note = f"largest difference over d/s and seeds in {len(gaps)} cells, exactly 0 expected"
    return claim(
        "N = arms: the ranker alone", SPEC, bool(gaps) and max(gaps) == 0, max(gaps, default=0.0), note
    )


def _next_arms(curves: Curves, one: Played) -> Played | None:
    more = [other for other in curves.played if other.width == one.width and other.arms > one.arms]
    return min(more, key=lambda other: other.arms) if more else None


def concave(curves: Curves) -> Claim:
    """Slopes over d/s fall: no second difference is clearly positive."""
    ratios = sorted(curves.sizes.ratios)
    bends = []
    for one, count in curves.places():
        for name in TWO_STAGE:
            own = [curves.final(one, name, count, subset) for subset in subsets(one.width, ratios)]
            slopes = [(b - a) / (y - x) for a, b, x, y in zip(own, own[1:], ratios, ratios[1:], strict=False)]
            bends += [paired(after, before) for before, after in pairwise(slopes)]
    above = sum(bend.low > 0 for bend in bends)
    worst = max(bends, key=lambda bend: bend.mean)
    note = f"{above} of {len(bends)} changes of slope are clearly positive; the largest is shown"
    return claim("regret is concave in d/s", PAPER, above == 0, worst.mean, note, [worst.low, worst.high])


def more_nominators(curves: Curves) -> list[Claim]:
    """With more nominators regret falls, and so does their share of it."""
    regret, shares = [], []
    for one in curves.played:
        counts = [count for count in curves.sizes.nominators[one.width] if count <= one.arms]
        for subset in subsets(one.width, curves.sizes.ratios):
            if subset == one.width:
                continue
            for name in TWO_STAGE:
                for few, many in pairwise(counts):
                    regret.append(
                        paired(curves.final(one, name, many, subset), curves.final(one, name, few, subset))
                    )
                    shares.append(
                        paired(share(curves, one, name, many, subset), share(curves, one, name, few, subset))
                    )
    return [
        _every(
            "regret falls with nominators", PAPER, regret, "paired difference, more against fewer nominators"
        ),
        _every(
            "nominator share falls with nominators", PAPER, shares, "paired difference in the share of regret"
        ),
    ]


def share(curves: Curves, one: Played, name: str, count: int, subset: int) -> Floats:
    """The share of the nominators in the regret of each seed."""
    whole = curves.final(one, name, count, subset)
    return np.asarray(curves.final(one, name, count, subset, "nominator") / np.maximum(whole, 1e-12))


def policies(curves: Curves) -> Claim:
    """UCB and greedy components differ by little."""
    gaps = []
    for one, count in curves.places():
        for subset in subsets(one.width, curves.sizes.ratios):
            if subset == one.width:
                continue
            means = [float(curves.final(one, name, count, subset).mean()) for name in TWO_STAGE]
            gaps.append((max(means) - min(means)) / min(means))
    below = sum(gap < 0.05 for gap in gaps)
    note = f"largest relative gap of the four systems where s < d; below 5 % in {below} of {len(gaps)} cells"
    return claim("U and G differ by less than 5 %", PAPER, below == len(gaps), max(gaps), note)


def by_width(curves: Curves) -> Claim:
    """Regret at the same d/s grows with d, where the learning cost counts; the asymptote hardly does."""
    gaps: dict[str, list[float]] = {"d/s below 2": [], "d/s of 2 and more": []}
    common = set.intersection(*(set(counts) for counts in curves.sizes.nominators.values()))
    for arms in curves.sizes.arms:
        worlds = sorted((one for one in curves.played if one.arms == arms), key=lambda one: one.width)
        for count in sorted(one for one in common if one <= arms):
            for ratio in curves.sizes.ratios:
                means = [
                    curves.final(one, "U+U", count, subsets(one.width, (ratio,))[0]).mean() for one in worlds
                ]
                key = "d/s below 2" if ratio < 2 else "d/s of 2 and more"
                gaps[key] += [float(b / a - 1) for a, b in pairwise(means)]
    text = "; ".join(f"{name}: {min(own):+.2f} to {max(own):+.2f}" for name, own in gaps.items() if own)
    every = [one for own in gaps.values() for one in own]
    holds = bool(every) and min(every) > 0
    note = f"relative change of U+U from one width to the next with the same N and arms; {text}"
    return claim("regret grows with d at the same d/s", PAPER, holds, min(every, default=0.0), note)


def same_features(curves: Curves, control: Played) -> list[Claim]:
    """Nominators with the same features: is the gain over a single stage due to other features or to the ranker?"""
    usual = next(one for one in curves.played if (one.width, one.arms) == (control.width, control.arms))
    count = curves.sizes.control[2]
    sizes = [subset for subset in subsets(control.width, curves.sizes.ratios) if subset < control.width]
    still = [
        paired(curves.final(control, "U+U", count, one), curves.final(usual, "U", count, one))
        for one in sizes
    ]
    cost = [
        paired(curves.final(usual, "U+U", count, one), curves.final(control, "U+U", count, one))
        for one in sizes
    ]
    return [
        _every("two-stage < single with equal features", SPEC, still, "U+U with one set of features for all"),
        _every("different features help", SPEC, cost, "U+U with own features minus U+U with one set for all"),
    ]


def _every(name: str, source: str, gaps: Sequence[PairedDifference], note: str) -> Claim:
    """All differences lie below 0 by two standard errors; the one nearest to failing is shown."""
    clear = sum(gap.high < 0 for gap in gaps)
    worst = max(gaps, key=lambda gap: gap.high)
    text = f"{note}; clearly below 0 in {clear} of {len(gaps)}, the highest is shown"
    return claim(name, source, clear == len(gaps), worst.mean, text, [worst.low, worst.high])


def ratio_of(sizes: Sizes, width: int) -> Mapping[int, float]:
    """d/s by the number of features of a nominator."""
    return {subset: width / subset for subset in subsets(width, sizes.ratios)}
