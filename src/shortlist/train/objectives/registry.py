"""Objectives by name, and the settings that a trainer inherits to let a recipe choose one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from shortlist.errors import ConfigError
from shortlist.settings import check_fields, setting, settings_of
from shortlist.train.objectives.cuts import LoggedCuts, arf_cut, icc_next, lcron_next, rankflow_next
from shortlist.train.objectives.icc import icc
from shortlist.train.objectives.lists import REDUCTIONS
from shortlist.train.objectives.listwise import bce, soft_label, ssm
from shortlist.train.objectives.ndcg import GAINS, KINDS
from shortlist.train.objectives.neuralsort import lcron
from shortlist.train.objectives.pairwise import bpr, lambdaloss, lambdarank, margin, ranknet
from shortlist.train.objectives.rankflow import OWN, rankflow_cascade

Loss = Callable[..., Tensor]


@dataclass(frozen=True)
class Entry:
    """A loss function and the settings that it reads."""

    loss: Loss
    reads: tuple[str, ...] = ()
    binary: bool = False  # labels of at least `relevant_from` are relevant, all others are not
    learned: bool = False  # has a learned log_a per stage
    joint: bool = False  # reads the scores of several stages
    cuts: bool = False  # reads what a full-stage log says about cuts


PAIRS = ("sigma", "reduction")
OBJECTIVES: Mapping[str, Entry] = {
    "ranknet": Entry(ranknet, PAIRS),
    "lambdarank": Entry(lambdarank, (*PAIRS, "gain", "truncation")),
    "lambdaloss": Entry(lambdaloss, (*PAIRS, "gain", "truncation", "kind", "mu", "share")),
    "margin": Entry(margin, ("margin", "ndcg_weights", "gain", "reduction")),
    "soft-label": Entry(soft_label, ("label_temperature",)),
    "bpr": Entry(bpr, binary=True),
    "ssm": Entry(ssm, binary=True),
    "bce": Entry(bce, binary=True),
    "arf": Entry(arf_cut, ("tau", "cap"), binary=True, learned=True, cuts=True),
}
"""Objectives of one model: the function gets scores, labels, mask and weight [B, L] and returns one loss per list."""

NEXT_OBJECTIVES: Mapping[str, Entry] = {
    "lcron": Entry(lcron_next, ("tau", "cap", "next_cap"), binary=True, learned=True, cuts=True),
    "icc": Entry(icc_next, ("gate_width", "cap", *PAIRS), cuts=True),
    "rankflow": Entry(rankflow_next, ("top_share", "own_loss", "next_cap"), binary=True, cuts=True),
}
"""Objectives of one stage and the next one, whose scores are those of a full-stage log."""

JOINT_OBJECTIVES: Mapping[str, Entry] = {
    "lcron": Entry(lcron, ("tau",), binary=True, learned=True, joint=True),
    "icc": Entry(icc, ("width", *PAIRS), joint=True),
    "rankflow": Entry(rankflow_cascade, ("alpha", "own"), binary=True, joint=True),
}
"""Objectives of a whole cascade: the function gets one scores [B, L] per stage, and their capacities."""


class Objective(nn.Module):
    """An objective with its parameters; what it learns itself (`log_a`) is in `parameters()`."""

    def __init__(self, entry: Entry, values: Mapping[str, Any], stages: int = 1) -> None:
        super().__init__()
        self.loss, self.values, self.reads_cuts = entry.loss, dict(values), entry.cuts
        shape = (stages,) if entry.joint else ()
        self.log_a = nn.Parameter(torch.zeros(shape)) if entry.learned else None

    def without_parameters(self) -> "Objective":
        """The same objective with a = 1."""
        self.log_a = None
        return self

    def forward(
        self,
        scores: Tensor | Sequence[Tensor],
        labels: Tensor,
        mask: Tensor,
        weight: Tensor | None = None,
        cuts: LoggedCuts | None = None,
    ) -> Tensor:
        """One loss per list [B]."""
        learned = {} if self.log_a is None else {"log_a": self.log_a}
        logged = {"cuts": cuts} if self.reads_cuts else {}
        return self.loss(scores, labels, mask, weight, **self.values, **learned, **logged)


@dataclass(frozen=True)
class ObjectiveSettings:
    """Which objective a trainer minimises; a trainer inherits these fields."""

    objective: str = setting("ranknet", "What is minimised on each list.", choices=tuple(OBJECTIVES))
    sigma: float = setting(1.0, "Factor of score differences in pairwise losses.", least=1e-6, most=1e6)
    reduction: str = setting("mean", "Losses of the pairs of a list: their sum or mean.", choices=REDUCTIONS)
    gain: str = setting("exp", "Gain of a label z in NDCG: 2^z - 1 or z.", choices=GAINS)
    truncation: int = setting(0, "NDCG counts this many ranks; 0 = all.", least=0, most=1_000_000)
    kind: str = setting("loss2++", "Pair weights of lambdaloss.", choices=KINDS)
    mu: float = setting(10.0, "Weight of Loss2 in loss2++.", least=0, most=1e6)
    share: float = setting(0.8, "Share of LambdaRank's weights in kind = mixed.", least=0, most=1)
    margin: float = setting(0.5, "Margin of the margin loss.", least=0, most=1e6)
    ndcg_weights: bool = setting(False, "Multiply pairs of the margin loss by LambdaRank's weights.")
    label_temperature: float = setting(
        0.0, "Targets of soft-label are softmax(label / this); 0 = label / sum.", least=0, most=1e6
    )
    tau: float = setting(1.0, "Temperature of the soft sort.", least=1e-6, most=1e9)
    cap: int = setting(
        0,
        "Items that the stage keeps of a training list; 0 = as many as are relevant (lcron), or as it kept in the log "
        "(arf and icc; arf without a log: as many as are relevant).",
        least=0,
        most=1_000_000,
    )
    next_cap: int = setting(
        0,
        "Items that the next stage keeps of a training list; 0 = as many as are relevant (lcron), or as it kept in the "
        "log (rankflow).",
        least=0,
        most=1_000_000,
    )
    gate_width: float = setting(0.1, "Width of the gate of icc, in scores.", least=1e-6, most=1e6)
    top_share: float = setting(
        0.5,
        "Share of rankflow's top-k term; the rest is the squared error to the next stage's scores.",
        least=0,
        most=1,
    )
    own_loss: str = setting("bpr", "Loss of the stage itself in rankflow.", choices=tuple(OWN))

    def list_objective(self, relevant_from: float = 1.0) -> Objective:
        """The objective; labels of at least `relevant_from` are relevant for objectives with binary labels."""
        check_fields(self, "objective")
        entry = {**OBJECTIVES, **NEXT_OBJECTIVES}[self.objective]
        self._refuse_unread(entry)
        binary = {"relevant_from": relevant_from} if entry.binary else {}
        return Objective(entry, {name: getattr(self, name) for name in entry.reads} | binary)

    def _refuse_unread(self, entry: Entry) -> None:
        """Refuse parameters that the chosen objective does not read."""
        for one in fields(ObjectiveSettings)[1:]:
            if one.name not in entry.reads and getattr(self, one.name) != one.default:
                reads = ", ".join(entry.reads) or "no parameters"
                raise ConfigError(f"objective {self.objective!r} does not read {one.name}; it reads {reads}")


def make_objective(name: str, *, relevant_from: float = 1.0, **settings: Any) -> Objective:
    """`make_objective("lambdarank", gain="linear")`: an objective of one model."""
    known = {one.name for one in settings_of(ObjectiveSettings)}
    unknown = sorted(set(settings) - known)
    if unknown:
        raise ConfigError(
            f"unknown setting {unknown[0]!r} of objective {name!r}; expected one of {sorted(known)}"
        )
    return ObjectiveSettings(objective=name, **settings).list_objective(relevant_from)


def make_joint_objective(
    name: str, caps: Sequence[int], *, relevant_from: float = 1.0, **settings: Any
) -> Objective:
    """`make_joint_objective("lcron", (30, 20), tau=50.0)`: an objective of all stages of a cascade."""
    if name not in JOINT_OBJECTIVES:
        raise ConfigError(f"unknown joint objective {name!r}; expected one of {', '.join(JOINT_OBJECTIVES)}")
    entry = JOINT_OBJECTIVES[name]
    unknown = sorted(set(settings) - set(entry.reads))
    if unknown:
        raise ConfigError(f"objective {name!r} does not read {unknown[0]}; it reads {', '.join(entry.reads)}")
    binary = {"relevant_from": relevant_from} if entry.binary else {}
    return Objective(entry, {"caps": tuple(caps), **binary, **settings}, len(caps))
