"""A gate of nominators, learned from the lists in which the targets of training requests are."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Interactions
from shortlist.metrics.nomination.coverage import ABSENT, Floats
from shortlist.nominate.split_gate import SplitGate, described, logits, softmax
from shortlist.train.context import RequestBatch
from shortlist.train.pools.examples import item_factors
from shortlist.train.split.ranks import ranks_in_pool

FACTORS = 32  # width of the item factors
DECAYS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # of the weights, chosen on a part of the requests
CHOSEN_ON = 0.25  # share of the requests that choose the decay
STEPS = 100  # of L-BFGS
LEAST_DEVIATION = 1e-6
LEAST_SHARE = torch.finfo(torch.float32).tiny  # a request's share is divided by the mean, which may not be 0


def fit_gate(
    batches: Sequence[RequestBatch], names: Sequence[str], events: Interactions, seed: int
) -> SplitGate:
    """A gate that predicts which nominators return the targets of a request; those of the same target share it."""
    factors = item_factors(events, FACTORS, seed)
    raw = torch.cat([described(factors, one.query) for one in batches])
    scale = torch.stack([raw.mean(0), raw.std(0, correction=0).clamp(min=LEAST_DEVIATION)])
    features, credit = (raw - scale[0]) / scale[1], credits_of(batches, names)
    found = credit.sum(1) > 0
    weights = _fitted(features[found], credit[found], seed)
    return SplitGate(factors, scale, weights, softmax(features, weights).mean(0).clamp(min=LEAST_SHARE))


def credits_of(batches: Sequence[RequestBatch], names: Sequence[str]) -> Tensor:
    """Shares of each request's targets that nominators return [R, N]; those of the same target divide it equally."""
    ranks = ranks_in_pool(batches, names)
    listed = (ranks.rank < ABSENT).astype(np.float64)
    each: Floats = listed / listed.sum(1, keepdims=True).clip(min=1) * ranks.weights[:, None]
    credit = np.zeros((len(ranks), len(names)))
    np.add.at(credit, ranks.request, each)
    return torch.from_numpy(credit).float()


def _fitted(features: Tensor, credit: Tensor, seed: int) -> Tensor:
    """Weights with the decay that predicts a random part of the requests best; the largest one without such a part."""
    held = torch.rand(len(features), generator=torch.Generator().manual_seed(seed)) < CHOSEN_ON
    if not held.any() or held.all():
        return _weights(features, credit, DECAYS[-1])
    trials = [_weights(features[~held], credit[~held], decay) for decay in DECAYS]
    losses = [float(_loss(features[held], credit[held], one)) for one in trials]
    return _weights(features, credit, DECAYS[int(np.argmin(losses))])


def _weights(features: Tensor, credit: Tensor, decay: float) -> Tensor:
    weights = torch.zeros(features.shape[1] + 1, credit.shape[1], requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=STEPS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = _loss(features, credit, weights) + decay * weights[:-1].square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return weights.detach()


def _loss(features: Tensor, credit: Tensor, weights: Tensor) -> Tensor:
    """Cross-entropy of the gate against the credits."""
    return -(credit * logits(features, weights).log_softmax(1)).sum() / credit.sum()
