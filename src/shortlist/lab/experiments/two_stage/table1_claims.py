"""What table 1 of the two-stage bounds paper says, and what the specification expects, each with two intervals."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from scipy.special import stdtrit
from torch import Tensor

from shortlist.data.membership import is_in
from shortlist.lab.experiments.trees.common import Trial
from shortlist.lab.experiments.two_stage.common import Sizes
from shortlist.lab.result import claim
from shortlist.metrics.significance import paired

SOURCE, COROLLARY = "two-stage bounds paper, table 1", "two-stage bounds paper, corollary 4.2"
SPEC = "two_stage.md"
POINT = 0.01  # a gain the specification expects not to be exceeded


class Run:
    """What one trial answered: for every arm the first items at each K, and the facts of its training."""

    def __init__(self, trial: Trial, sizes: Sizes) -> None:
        self.trial, self.sizes = trial, sizes
        self.truth = trial.truth
        self.firsts: dict[str, Tensor] = {}  # [C, len(ks) + 1], the last for K = N
        self.told: dict[str, dict[str, Any]] = {}
        self.found = torch.empty(0)  # [C, most]
        self.about: dict[str, Any] = {}

    def right(self, arm: str, place: int, single: bool = False) -> Tensor:
        """Whether the first item was wanted [C]: one of all, or the very next."""
        return self._right(self.firsts[arm][:, place], single)

    def alone(self, single: bool = False) -> Tensor:
        """The same for the first of what was retrieved: K = 1."""
        return self._right(self.found[:, 0], single)

    def _right(self, first: Tensor, single: bool) -> Tensor:
        truth = self.truth[:, :1] if single else self.truth
        return is_in(first[:, None].long(), truth)[:, 0].double()


def strict_of(sizes: Sizes) -> tuple[int, int]:
    """Two numbers of retrieved items so small that few instances are among them."""
    return max(sizes.middle // 40, 1), max(sizes.middle // 16, 2)


@dataclass(frozen=True)
class Said:
    """One arm at one K, held against another; `sign` 1: above, -1: below, 0: within a point."""

    one: tuple[str, int]
    other: tuple[str, int]
    sign: int
    says: str
    source: str


def claims_of(runs: Sequence[Run], sizes: Sizes, place: str) -> list[dict[str, Any]]:
    """All claims whose arms were run."""
    made = [one for one in _said(sizes) if one.one[0] in runs[0].firsts and one.other[0] in runs[0].firsts]
    return [_claim(runs, one, place) for one in made]


def _said(sizes: Sizes) -> list[Said]:
    low, middle, high = sizes.ks
    few, some = strict_of(sizes)
    whole = len(sizes.ks)  # the place of K = N
    best = f"H-TS {middle}"

    def at(one: str, other: str, place: int, sign: int, source: str) -> Said:
        k = (*sizes.ks, "N")[place]
        words = {
            1: f"above {other} at K={k}",
            -1: f"below {other} at K={k}",
            0: f"within a point of {other} at K={k}",
        }
        return Said((one, place), (other, place), sign, words[sign], source)

    return [
        *(at(f"H-TS {k}", "TS", place, 1, SOURCE) for place, k in enumerate((low, middle, high))),
        at(best, "TS", 1, 0, f"{SPEC}, E2"),
        *(at(f"H-TS {k}", "TS", place, -1, f"{SPEC}, E3") for k in (few, some) for place in (1, 2, whole)),
        at(f"H-TS {few}", f"as many by chance as {few}", 1, -1, f"{SPEC}, E3"),
        at(best, f"as many by chance as {middle}", 1, 1, f"{SPEC}, E3"),
        at("TS, candidates", "TS", 1, 1, f"{SPEC}, E2"),
        at("TS, both", "TS", 1, 1, f"{SPEC}, E2"),
        at(f"{best}, candidates", "TS, candidates", 1, 1, f"{SPEC}, E2"),
        *(at(f"{best}, candidates", "TS", place, 1, f"{SPEC}, E2") for place in (0, 1)),
        at(best, f"{best}, in sample", 1, 1, f"{SPEC}, E4"),
        at(f"mixed {middle}", "TS", 1, 1, f"{SPEC}, 6.3"),
        at(f"weighted {middle}", "TS", 1, 1, f"{SPEC}, 6.3"),
        *(
            Said((arm, 1), (arm, whole), 1, f"better on {middle} retrieved items than on all", COROLLARY)
            for arm in ("TS", best)
        ),
    ]


def _claim(runs: Sequence[Run], said: Said, place: str) -> dict[str, Any]:
    sides = [[run.right(*which) for run in runs] for which in (said.one, said.other)]
    found = paired(torch.cat(sides[0]), torch.cat(sides[1]), 0)
    apart = [float((a - b).mean()) for a, b in zip(*sides, strict=True)]
    seeds = over_seeds(apart)
    low, high = min(found.low, seeds[0]), max(found.high, seeds[1])
    clear = {1: found.above and seeds[0] > 0, -1: found.below and seeds[1] < 0}
    holds = low >= -POINT and high <= POINT if said.sign == 0 else clear[said.sign]
    note = (
        f"paired difference in P@1 over {sum(map(len, sides[0]))} answers, above on {sum(one > 0 for one in apart)} of "
        f"{len(apart)} seeds; over seeds [{seeds[0]:.4f}, {seeds[1]:.4f}]"
    )
    name = f"{said.one[0]}: {said.says} on {place}"
    return claim(name, said.source, holds, found.difference, note, [found.low, found.high])


def over_seeds(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Student's interval of the mean over seeds; one seed alone says nothing of them."""
    if len(values) < 2:
        return float("-inf"), float("inf")
    half = float(stdtrit(len(values) - 1, (1 + level) / 2)) * statistics.stdev(values) / len(values) ** 0.5
    return statistics.fmean(values) - half, statistics.fmean(values) + half
