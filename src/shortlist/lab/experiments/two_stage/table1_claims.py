"""The claims of table 1 of the two-stage bounds paper and of our specification, each with two intervals."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from scipy.special import stdtrit
from torch import Tensor

from shortlist.data.membership import is_in
from shortlist.lab.experiments.two_stage.trial import Sizes
from shortlist.lab.result import Claim, claim
from shortlist.metrics.significance import paired

SOURCE, COROLLARY = "two-stage bounds paper, table 1", "two-stage bounds paper, corollary 4.2"
SPEC = "two_stage.md"
POINT = 0.01  # the specification expects no larger gain


@dataclass(frozen=True, eq=False)
class Run:
    """The answers of one trial: the top items of every arm at each K, and facts about its training."""

    relevant: Tensor  # [C, R] items of the second half of test users, -1 = padding; the next item first
    candidates: Tensor  # [C, most] retrieved items
    retrieval: Mapping[str, Any]  # facts about the retriever
    first_items: dict[str, Tensor] = field(
        default_factory=dict
    )  # by arm [C, len(ks) + 1], the last for K = N
    facts: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # by arm

    def hits(self, arm: str, position: int, next_only: bool = False) -> Tensor:
        """Whether the top item is relevant [C]: any relevant item, or only the next one."""
        return self._hits(self.first_items[arm][:, position], next_only)

    def retriever_hits(self, next_only: bool = False) -> Tensor:
        """The same for the first retrieved item: K = 1."""
        return self._hits(self.candidates[:, 0], next_only)

    def _hits(self, first: Tensor, next_only: bool) -> Tensor:
        relevant = self.relevant[:, :1] if next_only else self.relevant
        return is_in(first[:, None].long(), relevant)[:, 0].double()


def strict_filters(sizes: Sizes) -> tuple[int, int]:
    """Two numbers of retrieved items so small that few instances are among them."""
    return max(sizes.middle // 40, 1), max(sizes.middle // 16, 2)


def random_subset(k: int) -> str:
    """The name of the arm with a random subset of the instances, as large as a filter leaves."""
    return f"random subset as large as H-TS {k}"


@dataclass(frozen=True)
class Comparison:
    """One arm at one K against another; `sign` 1: above, -1: below, 0: within a point."""

    one: tuple[str, int]
    other: tuple[str, int]
    sign: int
    text: str
    source: str


def claims_of(runs: Sequence[Run], sizes: Sizes, dataset: str) -> list[Claim]:
    """All claims whose arms were run."""
    run = runs[0].first_items
    return [
        _claim(runs, each, dataset)
        for each in _comparisons(sizes)
        if each.one[0] in run and each.other[0] in run
    ]


def _comparisons(sizes: Sizes) -> list[Comparison]:
    low, middle, high = sizes.ks
    few, some = strict_filters(sizes)
    whole = len(sizes.ks)  # the position of K = N
    best = f"H-TS {middle}"

    def at(one: str, other: str, position: int, sign: int, source: str) -> Comparison:
        k = (*sizes.ks, "N")[position]
        text = {
            1: f"above {other} at K={k}",
            -1: f"below {other} at K={k}",
            0: f"within a point of {other} at K={k}",
        }
        return Comparison((one, position), (other, position), sign, text[sign], source)

    return [
        *(at(f"H-TS {k}", "TS", position, 1, SOURCE) for position, k in enumerate((low, middle, high))),
        at(best, "TS", 1, 0, f"{SPEC}, E2"),
        *(
            at(f"H-TS {k}", "TS", position, -1, f"{SPEC}, E3")
            for k in (few, some)
            for position in (1, 2, whole)
        ),
        at(f"H-TS {few}", random_subset(few), 1, -1, f"{SPEC}, E3"),
        at(best, random_subset(middle), 1, 1, f"{SPEC}, E3"),
        at("TS, candidates", "TS", 1, 1, f"{SPEC}, E2"),
        at("TS, both", "TS", 1, 1, f"{SPEC}, E2"),
        at(f"{best}, candidates", "TS, candidates", 1, 1, f"{SPEC}, E2"),
        *(at(f"{best}, candidates", "TS", position, 1, f"{SPEC}, E2") for position in (0, 1)),
        at(best, f"{best}, in sample", 1, 1, f"{SPEC}, E4"),
        at(f"mixed {middle}", "TS", 1, 1, f"{SPEC}, 6.3"),
        at(f"weighted {middle}", "TS", 1, 1, f"{SPEC}, 6.3"),
        *(
            Comparison(
                (arm, 1), (arm, whole), 1, f"better on {middle} retrieved items than on all", COROLLARY
            )
            for arm in ("TS", best)
        ),
    ]


def _claim(runs: Sequence[Run], compared: Comparison, dataset: str) -> Claim:
    sides = [[run.hits(*which) for run in runs] for which in (compared.one, compared.other)]
    found = paired(torch.cat(sides[0]), torch.cat(sides[1]), 0)
    differences = [float((a - b).mean()) for a, b in zip(*sides, strict=True)]
    seeds = over_seeds(differences)
    low, high = min(found.low, seeds[0]), max(found.high, seeds[1])
    clear = {1: found.above and seeds[0] > 0, -1: found.below and seeds[1] < 0}
    holds = low >= -POINT and high <= POINT if compared.sign == 0 else clear[compared.sign]
    note = (
        f"paired difference in P@1 over {sum(map(len, sides[0]))} answers, above on "
        f"{sum(one > 0 for one in differences)} of {len(differences)} seeds; over seeds "
        f"[{seeds[0]:.4f}, {seeds[1]:.4f}]"
    )
    name = f"{compared.one[0]}: {compared.text} on {dataset}"
    return claim(name, compared.source, holds, found.difference, note, [found.low, found.high])


def over_seeds(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Student's interval of the mean over seeds; infinite for one seed."""
    if len(values) < 2:
        return float("-inf"), float("inf")
    half = float(stdtrit(len(values) - 1, (1 + level) / 2)) * statistics.stdev(values) / len(values) ** 0.5
    return statistics.fmean(values) - half, statistics.fmean(values) + half
