"""What a full-stage log says about the cuts of two stages in training lists, and objectives that read it.

The next stage is fixed: its scores are those of the log. One training is a step of block-coordinate descent on the
joint objective; training round after round from new logs repeats it for every stage.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.train.objectives.icc import icc, threshold
from shortlist.train.objectives.lists import Cap, has_pair
from shortlist.train.objectives.neuralsort import arf, lcron_terms
from shortlist.train.objectives.rankflow import OWN, rankflow

BELOW = 1.0  # an item without a score is this far below the lowest score of its list, in standard deviations


@dataclass(frozen=True, eq=False)
class LoggedCuts:
    """Items of lists [B, L]: which of them two stages passed on, and the scores of the second one."""

    kept: Tensor  # bool: the stage in training passed it on when the log was written
    kept_next: Tensor | None = None  # bool: the next stage that scores passed it on; None: there is none
    next_scores: Tensor | None = None  # of that stage, NaN where it never scored the item

    def cap(self, chosen: int, mask: Tensor) -> Cap:
        """The items of each list that the stage keeps [B, 1]: those of the log, unless a number is chosen."""
        return chosen or _count(self.kept & mask)

    def next_cap(self, chosen: int, mask: Tensor) -> Cap:
        """The same of the next stage."""
        assert self.kept_next is not None
        return chosen or _count(self.kept_next & mask)

    def known(self, mask: Tensor) -> Tensor:
        """Where the next stage scored the item [B, L]."""
        assert self.next_scores is not None
        return mask & ~self.next_scores.isnan()

    def filled(self, mask: Tensor) -> Tensor:
        """The scores of the next stage [B, L]; below all others of the list where there is none."""
        assert self.next_scores is not None
        known = self.known(mask)
        lowest = self.next_scores.masked_fill(~known, torch.inf).amin(1, keepdim=True)
        lowest = torch.where(lowest.isinf(), 0.0, lowest)
        return torch.where(known, self.next_scores, lowest - BELOW)


def _count(kept: Tensor) -> Tensor:
    return kept.sum(1, keepdim=True).clamp(min=1)


def arf_cut(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor,
    weight: Tensor | None = None,
    *,
    cap: int,
    tau: float,
    relevant_from: float,
    log_a: Tensor | None = None,
    cuts: LoggedCuts | None = None,
) -> Tensor:
    """ARF [B]; with cap = 0 a list keeps what the logged stage passed on, without a log its relevant items."""
    relevant = (labels >= relevant_from) & mask
    own = (LoggedCuts(relevant) if cuts is None else cuts).cap(cap, mask)
    return arf(scores, labels, mask, weight, cap=own, log_a=log_a, tau=tau, relevant_from=relevant_from)


def lcron_next(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor,
    weight: Tensor | None = None,
    *,
    cuts: LoggedCuts,
    cap: int,
    next_cap: int,
    tau: float,
    relevant_from: float,
    log_a: Tensor | None = None,
) -> Tensor:
    """LCRON of two stages, the second fixed [B]: L_e2e + L_1 / (2 a^2) + log a. L_2 is constant and left out.

    With a cap of 0 a stage keeps as many items as are relevant: the loss counts every other item that is kept as an
    error, so larger caps make negatives equal instead of low.
    """
    relevant = _count((labels >= relevant_from) & mask)
    caps = (cap or relevant, next_cap or relevant)
    both = (scores, cuts.filled(mask).to(scores.dtype))
    e2e, own = lcron_terms(both, labels, mask, weight, caps=caps, tau=tau, relevant_from=relevant_from)
    log_a = own.new_zeros(()) if log_a is None else log_a.to(own.dtype)
    total = e2e + own[:, 0] * torch.exp(-2 * log_a) / 2 + log_a
    return torch.where(has_pair(labels >= relevant_from, mask), total, 0.0)


def icc_next(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor,
    weight: Tensor | None = None,
    *,
    cuts: LoggedCuts,
    cap: int,
    gate_width: float,
    sigma: float,
    reduction: str,
) -> Tensor:
    """ICC of two stages, the second fixed [B]: RankNet on (1 - g) (s_1 - kappa) + g (s_2 - min s_2).

    Items that pass are then above all that do not. With the scores as they are, a stage could learn to drop the best
    items: below the gate its own scores count, and nothing keeps them below those of the next stage.
    """
    own_cap = cuts.cap(cap, mask)
    kappa = threshold(scores, mask, own_cap)
    following = cuts.filled(mask).to(scores.dtype)
    lowest = following.masked_fill(~mask, torch.inf).amin(1, keepdim=True)
    both = (
        scores - kappa.masked_fill(kappa.isinf(), 0.0),
        following - lowest.masked_fill(lowest.isinf(), 0.0),
    )
    return icc(
        both, labels, mask, weight, caps=(own_cap,), width=gate_width, sigma=sigma, reduction=reduction
    )


def rankflow_next(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor,
    weight: Tensor | None = None,
    *,
    cuts: LoggedCuts,
    next_cap: int,
    top_share: float,
    own_loss: str,
    relevant_from: float,
) -> Tensor:
    """The own loss of a stage, and the RankFlow term with the logged scores of the next one as teacher [B].

    Items that the teacher never scored are in the rest of the top-k term and not in the squared error.
    """
    own = OWN[own_loss](scores, labels, mask, weight, relevant_from=relevant_from)
    known, teacher = cuts.known(mask), cuts.filled(mask).to(scores.dtype)
    lists = mask & known.any(1, keepdim=True)
    k = cuts.next_cap(next_cap, mask)
    apart = rankflow(scores, teacher, lists, weight, k=k, alpha=1.0)
    squares = rankflow(scores, teacher, known, weight, k=k, alpha=0.0)
    return own + top_share * apart + (1 - top_share) * squares
