"""Pairs of one positive and one negative row, counted by weight without listing them: the basis of every AUC here."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Placements:
    """How every row stands among the rows of the other class of its group, and what each group weighs."""

    share: Floats  # [n] of the other class that the row is ordered right against; ties count half, NaN without any
    group: Ints  # [n], 0..G-1
    positives: Floats  # [G] weight
    negatives: Floats  # [G] weight

    @property
    def pairs(self) -> Floats:
        """Weight of the pairs of every group [G]."""
        return self.positives * self.negatives


def placements(scores: Floats, positive: Bools, weight: Floats, group: Ints) -> Placements:
    """Compare rows within groups 0..G-1: a positive is right where its score is above that of a negative.

    The mean of `share` over positives, and the mean over negatives, both by weight, are the AUC of the group.
    """
    order = np.lexsort((scores, group))
    score, own, row_group = scores[order], np.where(positive, 0.0, weight)[order], group[order]
    totals = sums(group, weight * positive), sums(group, weight * ~positive)  # of every group [G]
    pos_below = _below(score, weight[order] - own, row_group, totals[0])
    neg_below = _below(score, own, row_group, totals[1])
    right = np.where(positive[order], neg_below, totals[0][row_group] - pos_below)
    other = np.where(positive[order], totals[1][row_group], totals[0][row_group])
    share = np.empty(len(scores))
    share[order] = np.divide(right, other, out=np.full(len(scores), np.nan), where=other > 0)
    return Placements(share, group, *totals)


def sums(at: Ints, values: Floats, count: int = 0) -> Floats:
    """Sum of the values [n] of every number in `at` [n]: [max(count, largest number + 1)]."""
    return np.bincount(at, values, count).astype(np.float64)


def _below(score: Floats, weight: Floats, group: Ints, totals: Floats) -> Floats:
    """Weight of the rows of the same group with a lower score plus half of those with the same, rows sorted."""
    new = np.ones(len(score), np.bool_)
    new[1:] = (score[1:] != score[:-1]) | (group[1:] != group[:-1])
    tie = np.cumsum(new) - 1
    tied = sums(tie, weight)
    before = np.concatenate([[0.0], np.cumsum(totals)])[group]  # weight of earlier groups
    return np.asarray((np.cumsum(tied) - tied / 2)[tie] - before, np.float64)
