"""The catalogue sizes of the DTR paper: time and memory depend on them, not on the events."""

from collections.abc import Mapping

import torch

from shortlist.errors import ConfigError
from shortlist.index.tree import TreeIndex, grow, random_order
from shortlist.models.nodes import make_scorer
from shortlist.train.tree.plan import TreePlan
from shortlist.train.tree.training import scorer_config

ITEMS: Mapping[str, int] = {"movie": 10_677, "mind": 7_129, "amazon": 67_402, "tmall": 135_293}
FEW: Mapping[str, int] = {"small": 200, "smaller": 100}


def catalogues(profile: str, experiment: str) -> Mapping[str, int]:
    """The number of items of each catalogue."""
    if profile not in ("quick", "full"):
        raise ConfigError(f"{experiment}: expected the profile quick or full, got {profile!r}")
    return ITEMS if profile == "full" else FEW


def untrained(plan: TreePlan, items: int, seed: int, device: torch.device | str = "cpu") -> TreeIndex:
    """An index before training."""
    tree = grow(random_order(items, seed), items, plan.branch or items)
    scorer = make_scorer(scorer_config(plan, tree.shape, items), seed)
    return TreeIndex(tree, scorer.eval(), plan.leaf_vectors).to(device)
