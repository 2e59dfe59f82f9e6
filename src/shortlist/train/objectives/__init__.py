"""Objectives of learning to rank on dense lists, full-stage labels and training instances of logged requests."""

from shortlist.train.objectives.icc import icc, icc_public_scores, icc_scores
from shortlist.train.objectives.instances import InstanceBatch, InstanceSampler, default_counts
from shortlist.train.objectives.listwise import bce, soft_label, ssm
from shortlist.train.objectives.neuralsort import arf, lcron, neuralsort
from shortlist.train.objectives.pairwise import bpr, lambdaloss, lambdarank, margin, ranknet
from shortlist.train.objectives.rankflow import rankflow, rankflow_cascade
from shortlist.train.objectives.registry import (
    JOINT_OBJECTIVES,
    OBJECTIVES,
    Objective,
    ObjectiveSettings,
    make_joint_objective,
    make_objective,
)
from shortlist.train.objectives.relabel import LADDERS, lowest_stage, reindex, relabel
from shortlist.train.objectives.stage_log import StageLog

__all__ = [
    "JOINT_OBJECTIVES",
    "LADDERS",
    "OBJECTIVES",
    "InstanceBatch",
    "InstanceSampler",
    "Objective",
    "ObjectiveSettings",
    "StageLog",
    "arf",
    "bce",
    "bpr",
    "default_counts",
    "icc",
    "icc_public_scores",
    "icc_scores",
    "lambdaloss",
    "lambdarank",
    "lcron",
    "lowest_stage",
    "make_joint_objective",
    "make_objective",
    "margin",
    "neuralsort",
    "rankflow",
    "rankflow_cascade",
    "ranknet",
    "reindex",
    "relabel",
    "soft_label",
    "ssm",
]
