"""The arms of the tables: an objective, and which negatives its training lists have."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shortlist.train.objectives.registry import (
    JOINT_OBJECTIVES,
    Objective,
    make_joint_objective,
    make_objective,
)

RETRIEVAL, PRERANK = "retrieval", "pre-rank"
STAGES = (RETRIEVAL, PRERANK)
RANDOM, ORACLE = "random", "oracle"
GLOBAL, PRERANK_NEGATIVES, RANK_NEGATIVES, EXPOSED = range(
    4
)  # strata of negatives: the last stage S they passed
ARF_SORT, SOFT_SORT = 5.0, 50.0  # temperatures of the soft sort of ARF and LCRON, lists of six cosines / T

CONSECUTIVE = "consecutive"

Counts = tuple[tuple[int, int], ...]  # (stratum, negatives), as a mapping that can be hashed


def counts(exposed: int = 0, rank: int = 0, prerank: int = 0, random: int = 0) -> Counts:
    """Numbers of negatives of an instance; strata without any are left out."""
    every = ((EXPOSED, exposed), (RANK_NEGATIVES, rank), (PRERANK_NEGATIVES, prerank), (GLOBAL, random))
    return tuple((stage, count) for stage, count in every if count)


ALL_STAGES = counts(1, 1, 1, 2)
SERVING = counts(1, 2, 2)  # what pre-ranking gets: S >= 1


@dataclass(frozen=True)
class Arm:
    """One row of a table."""

    name: str
    objective: str = ""  # empty: random or oracle, nothing is trained
    negatives: Counts = ALL_STAGES
    values: Mapping[str, Any] = field(default_factory=dict)  # settings of the objective
    cuts: tuple[int, int] | None = None  # None: items of a list that this stage and the next one kept
    ladder: str = CONSECUTIVE  # one of `LADDERS`: labels by the last stage that an item passed

    @property
    def trained(self) -> bool:
        return bool(self.objective)

    @property
    def joint(self) -> bool:
        """Whether the model of the next stage is trained with it."""
        return self.objective in JOINT_OBJECTIVES

    @property
    def capacities(self) -> tuple[int, int]:
        """Items of a list that this stage and the next one keep: what they kept in the logged request, or `cuts`."""
        if self.cuts is not None:
            return self.cuts
        below = [count for stage, count in sorted(self.negatives)]
        kept = 1 + sum(below)
        return max(kept - below[0], 1), max(kept - sum(below[:2]), 1)

    def make_objective(self, relevant_from: float) -> Objective:
        """The objective of a training; labels of at least `relevant_from` are positives."""
        if self.joint:
            return make_joint_objective(
                self.objective, self.capacities, relevant_from=relevant_from, **self.values
            )
        cap = {"cap": self.capacities[0]} if self.objective == "arf" else {}
        return make_objective(self.objective, relevant_from=relevant_from, **cap, **self.values)


def rankflow(alpha: float, own: str, negatives: Counts) -> Arm:
    """RankFlow; alpha 1 is the reading of the full-stage paper, alpha 0 that of the public LCRON code."""
    return Arm(f"RankFlow {alpha:g}", "rankflow", negatives, {"alpha": alpha, "own": own})


ALPHAS = (0.0, 0.5, 1.0)
ONE_POSITIVE = (1, 1)  # cuts at the number of positives, as in the public code of LCRON
RETRIEVAL_ARMS = (
    Arm(RANDOM),
    Arm("BPR", "bpr", counts(random=5)),
    Arm("SSM", "ssm", counts(random=5)),
    *(rankflow(alpha, "bpr", ALL_STAGES) for alpha in ALPHAS),
    Arm("FS-RN", "ranknet"),
    Arm("FS-LR", "lambdarank"),
    Arm("ICC", "icc", values={"reduction": "mean"}),
    Arm("ARF", "arf", values={"tau": ARF_SORT}),
    Arm("LCRON", "lcron", values={"tau": SOFT_SORT}, cuts=ONE_POSITIVE),
    Arm("LCRON, stage cuts", "lcron", values={"tau": SOFT_SORT}),
    Arm(ORACLE),
)
PRERANK_ARMS = (
    Arm(RANDOM),
    Arm("BCE", "bce", counts(exposed=5)),
    Arm("BCE, stage negatives", "bce", SERVING),
    *(rankflow(alpha, "bce", SERVING) for alpha in ALPHAS),
    Arm("FS-RN", "ranknet", SERVING),
    Arm("FS-LR", "lambdarank", SERVING),
    Arm(ORACLE),
)
TABLE3: Mapping[str, tuple[Arm, ...]] = {RETRIEVAL: RETRIEVAL_ARMS, PRERANK: PRERANK_ARMS}

ABLATIONS = (
    Arm(RANDOM),
    Arm("FS-LR", "lambdarank"),
    Arm("FS-LR without exposed negatives", "lambdarank", counts(0, 1, 1, 2)),
    Arm("FS-LR without stage negatives", "lambdarank", counts(1, 0, 0, 2)),
    Arm("FS-LR without rank negatives", "lambdarank", counts(1, 0, 1, 2)),
    Arm("FS-LR without pre-rank negatives", "lambdarank", counts(1, 1, 0, 2)),
    Arm("FS-LR without stage negatives, 5 negatives", "lambdarank", counts(1, 0, 0, 4)),
)
"""Table 4. The paper removes negatives; the last arm has as many as the complete one."""

MIXTURES = tuple(
    Arm(f"FS-LR {x},{y},{z}", "lambdarank", counts(1, x, y, z))
    for x, y, z in ((1, 1, 1), (1, 2, 1), (2, 1, 1), (1, 1, 2), (1, 1, 3), (1, 2, 3))
)
"""Table 5: x rank, y pre-rank and z random negatives beside one exposed negative."""

LADDER_OBJECTIVES = {
    "FS-RN": ("ranknet", ("low-exposed-negative", "binary")),  # the same pairs with a higher top label
    "FS-LR": ("lambdarank", ("high-positive", "low-exposed-negative", "binary")),
}
LADDER_ARMS = tuple(
    Arm(name if ladder == CONSECUTIVE else f"{name}, {ladder}", objective, ladder=ladder)
    for name, (objective, ladders) in LADDER_OBJECTIVES.items()
    for ladder in (CONSECUTIVE, *ladders)
)
"""Other labels for the same lists, beside those of table 3."""
