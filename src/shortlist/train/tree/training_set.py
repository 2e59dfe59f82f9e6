"""The data a tree is trained on."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from shortlist.data import HeldOut, Interactions
from shortlist.train.tree.logged_lists import LoggedLists
from shortlist.train.tree.rectify import Estimator


@dataclass(frozen=True, eq=False)
class TreeTrainingSet:
    """The data a tree is trained on."""

    events: Interactions
    categories: Tensor | None = None  # [n_items], -1 = unknown
    vectors: Tensor | None = None  # [n_items, D] for the order "vectors"
    valid: HeldOut | None = None
    estimator: Estimator | None = None  # for rectified labels
    order: Tensor | None = None  # items of the first tree, in the order of leaves
    weights: Mapping[str, Tensor] | None = (
        None  # initial weights of the scorer, from a tree of the same shape
    )
    lists: LoggedLists | None = None  # of a full-stage log, beside the events
