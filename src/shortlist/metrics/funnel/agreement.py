"""Do labels of full-stage training order items as their true worth does? By pair of stages, within requests.

Also the ratios that the second assumption of the paper bounds, as pairs and not as ratios of averages.
"""

from dataclasses import dataclass

import numpy as np

from shortlist.metrics.funnel.pair_counts import Bools, Floats, Ints, placements


@dataclass(frozen=True)
class Cell:
    """Pairs of a request with one item of S = `lower` and one of S = `higher`."""

    lower: int
    higher: int
    agree: float  # share of pairs whose labels and worth have the same order; equal worth counts half
    pairs: float  # by weight; pairs with equal labels are left out


@dataclass(frozen=True)
class Ratio:
    """Values of the items that stage `stage` kept against those it dropped, within requests."""

    stage: int
    of_means: float
    share_at_least: float  # of pairs with value kept >= bound * value dropped; equality counts half
    share_within: float  # of pairs with a ratio in [1 / bound, bound]
    pairs: float


def theorem1_agreement(
    reached: Ints, label: Floats, worth: Floats, request: Ints, weight: Floats | None = None
) -> tuple[Cell, ...]:
    """One cell for every pair of values of S: rows have S, the training label, and the true p r [n].

    `weight` [n] is 1 / incl_prob. Cells without pairs are left out.
    """
    weight, request = _prepared(weight, request)
    stages = np.unique(reached).tolist()
    pairs = [(low, high) for at, low in enumerate(stages) for high in stages[at + 1 :]]
    cells = [_cell(*pair, reached, label, worth, request, weight) for pair in pairs]
    return tuple(cell for cell in cells if cell.pairs > 0)


def stage_ratio(
    values: Floats, reached: Ints, stage: int, request: Ints, bound: float, weight: Floats | None = None
) -> Ratio:
    """Ratios of `values` > 0 [n] between items with S = stage and S = stage - 1 of the same request."""
    weight, request = _prepared(weight, request)
    rows = (reached == stage) | (reached == stage - 1)
    kept, value, own, group = (reached == stage)[rows], values[rows], weight[rows], request[rows]
    pairs, above = _right_pairs(np.where(kept, value, bound * value), kept, own, group)
    _, not_below = _right_pairs(np.where(kept, bound * value, value), kept, own, group)
    if not pairs:
        return Ratio(stage, float("nan"), float("nan"), float("nan"), 0.0)
    means = [float(np.average(value[side], weights=own[side])) for side in (kept, ~kept)]
    return Ratio(stage, means[0] / means[1], above / pairs, (not_below - above) / pairs, pairs)


def _prepared(weight: Floats | None, request: Ints) -> tuple[Floats, Ints]:
    """Weights of 1 by default, and requests numbered from 0."""
    number = np.unique(request, return_inverse=True)[1]
    return np.ones(len(request)) if weight is None else weight, number


def _cell(
    low: int, high: int, reached: Ints, label: Floats, worth: Floats, request: Ints, weight: Floats
) -> Cell:
    """Sum over the pairs of label values of the two stages."""
    agree = total = 0.0
    for below in np.unique(label[reached == low]).tolist():
        for above in np.unique(label[reached == high]).tolist():
            if below == above:
                continue
            rows = ((reached == low) & (label == below)) | ((reached == high) & (label == above))
            better = (label == max(below, above))[rows]
            pairs, right = _right_pairs(worth[rows], better, weight[rows], request[rows])
            agree, total = agree + right, total + pairs
    return Cell(low, high, agree / total if total else float("nan"), total)


def _right_pairs(scores: Floats, positive: Bools, weight: Floats, request: Ints) -> tuple[float, float]:
    """Weight of the pairs within requests, and of those where the positive scores higher; ties count half."""
    if not len(scores):
        return 0.0, 0.0
    counted = placements(scores, positive, weight, request)
    other = counted.negatives[request]
    right = np.where(positive & (other > 0), weight * other * np.nan_to_num(counted.share), 0.0)
    return float(counted.pairs.sum()), float(right.sum())
