"""Softmax of a positive against an offer of sampled items: negatives, their corrections, and the loss."""

from collections.abc import Callable

import torch
from torch import Tensor

from shortlist.train.loop.losses import weighted_mean
from shortlist.train.loop.shared_offers import shared_offer_loss

Vectors = Tensor | Callable[[Tensor], Tensor]
"""Item vectors: all of them [N, D], or a function from item rows [M] to [M, D]."""

NEGLIGIBLE = 1e-2  # share of an item among the candidates; below, masking its hits does not move the optimum


def mixed_negatives(
    batch_items: Tensor,
    n_uniform: int,
    item_counts: Tensor,
    n_events: int,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Candidates that a batch shares, and the log of their expected counts: both [n_b + n_u].

    They are the n_b positives of the batch and n_u uniform items. Item j is expected q_j = n_b f_j + n_u / N times,
    with f_j = item_counts[j] / n_events; `item_counts` [N] are training counts, or a running estimate of them.
    """
    n_items, device = len(item_counts), batch_items.device
    uniform = torch.randint(n_items, (n_uniform,), generator=generator, device=device)
    ids = torch.cat([batch_items, uniform])
    return ids, log_expected(ids, len(batch_items), n_uniform, item_counts, n_events)


def log_expected(ids: Tensor, n_batch: int, n_uniform: int, item_counts: Tensor, n_events: int) -> Tensor:
    """log(n_b f_j + n_u / N) for items [M]."""
    counts = item_counts[ids].to(torch.float32)
    # Without uniform items every candidate is a positive, which occurs at least once, whatever a running count says.
    counts = counts if n_uniform else counts.clamp(min=1)
    return torch.log(counts * (n_batch / max(n_events, 1)) + n_uniform / max(len(item_counts), 1))


def largest_share(n_batch: int, n_uniform: int, item_counts: Tensor, n_events: int) -> float:
    """The largest expected share of one item among the candidates: masking hits matters from NEGLIGIBLE on."""
    most = float(item_counts.max()) if len(item_counts) else 0.0
    expected = n_batch * most / max(n_events, 1) + n_uniform / max(len(item_counts), 1)
    return expected / max(n_batch + n_uniform, 1)


def offer_softmax_loss(
    users: Tensor,
    positive: Tensor,
    candidates: Tensor,
    pos_logq: Tensor | None = None,
    cand_logq: Tensor | None = None,
    hit_mask: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """The mean over events of logsumexp(scores of the offer) - score of the positive; weights [P] multiply losses.

    users [P, D], positive [P, D]; candidates are shared [M, D], or those of each event [P, M, D]. The corrections
    `pos_logq` [P] and `cand_logq` [M] or [P, M] are subtracted from the scores: with both, the optimum is log p(item |
    user) for any sampling. Candidates under `hit_mask` [P, M] are left out: those that equal the positive.
    """
    chosen = (users * positive).sum(1)  # [P]
    shared = candidates.dim() == 2
    others = users @ candidates.T if shared else torch.einsum("pd,pmd->pm", users, candidates)  # [P, M]
    chosen = chosen if pos_logq is None else chosen - pos_logq
    others = others if cand_logq is None else others - cand_logq
    others = others if hit_mask is None else others.masked_fill(hit_mask, -torch.inf)
    return weighted_mean(torch.logsumexp(torch.cat([chosen[:, None], others], dim=1), 1) - chosen, weights)


def batch_offer_loss(
    users: Tensor,
    targets: Tensor,
    vectors: Vectors,
    ids: Tensor,
    log_q: Tensor | None = None,
    weights: Tensor | None = None,
    hidden: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """`offer_softmax_loss` with the candidates of `mixed_negatives` [M], the positives [P] first; hits are masked.

    Every distinct item is looked up and scored once: m copies of a candidate are one with log m added to its score.
    Without `log_q` nothing is corrected. `hidden` says which of the distinct items [U] are left out for each event
    [P, U], such as those of the user's history; never the positive.
    """
    distinct, at, copies = torch.unique(ids, return_inverse=True, return_counts=True)  # [U], [M], [U]
    items = vectors[distinct] if isinstance(vectors, Tensor) else vectors(distinct)  # [U, D]
    target = at[: len(targets)]
    bias = copies.to(items.dtype).log()
    own = -bias[target]  # the positive counts once, its other copies are hits
    if log_q is not None:
        bias = bias - torch.empty_like(bias).index_copy_(0, at, log_q.to(bias.dtype))
    mask = None if hidden is None else hidden(distinct)
    return shared_offer_loss(users, items, target, bias, own, weights, mask)
