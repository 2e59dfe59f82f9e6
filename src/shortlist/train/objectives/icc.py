"""ICC: one score for a cascade, a mixture of the stages' scores weighted by soft gates."""

from collections.abc import Sequence

import torch
from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.train.objectives.lists import Cap, check_cap, sizes_of, valid_scores
from shortlist.train.objectives.pairwise import ranknet


def icc(
    scores: Sequence[Tensor],
    labels: Tensor,
    mask: Tensor,
    weight: Tensor | None = None,
    *,
    caps: Sequence[Cap],
    width: float = 0.1,
    sigma: float = 1.0,
    reduction: str = "sum",
) -> Tensor:
    """RankNet on the score of the cascade [B]."""
    whole = icc_scores(scores, mask, caps, width)
    return ranknet(whole, labels, mask, weight, sigma=sigma, reduction=reduction)


def icc_scores(scores: Sequence[Tensor], mask: Tensor, caps: Sequence[Cap], width: float = 0.1) -> Tensor:
    """sum_i (g_1 ... g_{i-1}) (1 - g_i) s_i + (g_1 ... g_{T-1}) s_T with gates g_i = sigmoid((s_i - kappa_i) / h).

    The gate of the last stage cancels, so its capacity, if given, changes nothing.
    """
    if len(caps) not in (len(scores), len(scores) - 1):
        raise ConfigError(f"one capacity per stage: got {len(scores)} stages and {len(caps)} capacities")
    passed, whole = torch.ones_like(scores[0]), torch.zeros_like(scores[0])
    for one, cap in zip(scores[:-1], caps, strict=False):
        gate = gates(one, mask, cap, width)
        whole = whole + passed * (1 - gate) * valid_scores(one, mask)
        passed = passed * gate
    return whole + passed * valid_scores(scores[-1], mask)


def icc_public_scores(
    first: Tensor, second: Tensor, mask: Tensor, caps: tuple[int, int], width: float = 0.1
) -> Tensor:
    """(1 - g_1) s_1 + g_1 g_2 s_2, the two-stage form of the public code: its weights do not sum to 1."""
    one, two = gates(first, mask, caps[0], width), gates(second, mask, caps[1], width)
    return (1 - one) * valid_scores(first, mask) + one * two * valid_scores(second, mask)


def gates(scores: Tensor, mask: Tensor, cap: Cap, width: float) -> Tensor:
    """sigmoid((s - kappa) / width), kappa the cap-th largest score of the list [B, L]."""
    return torch.sigmoid((valid_scores(scores, mask) - threshold(scores, mask, cap)) / width)


def threshold(scores: Tensor, mask: Tensor, cap: Cap) -> Tensor:
    """kappa, the cap-th largest score of each list without gradient [B, 1]; -inf where all items pass."""
    check_cap(cap)
    if not scores.shape[1]:
        return scores.new_full((len(scores), 1), -torch.inf)
    known = scores.detach().masked_fill(~mask, -torch.inf)
    sizes = sizes_of(cap, scores).expand(len(scores), 1)
    order = known.sort(dim=1, descending=True).values
    kappa = order.gather(1, (sizes - 1).clamp(max=known.shape[1] - 1))  # [B, 1]
    return kappa.masked_fill(sizes > mask.sum(1, keepdim=True), -torch.inf)
