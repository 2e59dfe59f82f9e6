"""Splits of a budget that read more of a request than the length of its history: clusters of users, and a gate."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.cluster.vq import kmeans2
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.data import Candidates, Interactions, Query
from shortlist.grammar import Selector
from shortlist.metrics.nomination.allocate import allocate
from shortlist.metrics.nomination.coverage import ABSENT, Floats, Ints
from shortlist.metrics.nomination.terms import Lists
from shortlist.nominate.pooled import mean_factors
from shortlist.nominate.split import depth_in_lists, least_deep
from shortlist.train.context import RequestBatch
from shortlist.train.pools.examples import item_factors
from shortlist.train.split.learn import LISTS, SplitRule
from shortlist.train.split.ranks import TargetRanks, all_ranks, ranks_in_pool

FACTORS, LAST = 32, 50  # width of the item factors, and events of a history that count
CLUSTERS = 4  # as many as segments by length of history
DECAYS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # of the coefficients of the gate, chosen on a part of the requests
CHOSEN_ON = 0.25  # share of the requests that choose the decay
STEPS = 100  # of L-BFGS


@dataclass(frozen=True, eq=False)
class UserFeatures:
    """What a request is described with: mean item factors of its history and the length, standardised."""

    factors: Tensor  # [A, F]
    mean: Tensor  # [F + 1]
    deviation: Tensor  # [F + 1]

    @classmethod
    def of(cls, events: Interactions, batches: Sequence[RequestBatch], seed: int) -> "UserFeatures":
        """Factors of the training events; scales of the training requests."""
        factors = item_factors(events, FACTORS, seed)
        raw = torch.cat([_described(factors, one.query) for one in batches])
        return cls(factors, raw.mean(0), raw.std(0).clamp(min=1e-6))

    def __call__(self, query: Query) -> Tensor:
        """Features of every request [B, F + 1]."""
        return (_described(self.factors, query) - self.mean) / self.deviation


@dataclass(frozen=True, eq=False, repr=False)
class ContextualSplit(Selector):
    """At most k candidates of a pool, by limits that are a function of the request's features."""

    nominators: tuple[str, ...]
    features: UserFeatures
    limits: "ClusterLimits | GateLimits"

    def rates(self, query: Query) -> Tensor:
        """The limits of the nominators for every request [B, N]."""
        return self.limits(self.features(query))

    def select(self, query: Query, found: Candidates) -> Tensor:
        return least_deep(found, depth_in_lists(found, self.nominators, self.rates(query)), self.k)


@dataclass(frozen=True, eq=False)
class ClusterLimits:
    """Limits of the nearest of some centres."""

    centres: Tensor  # [G, F]
    limits: Tensor  # [G, N]

    def __call__(self, features: Tensor) -> Tensor:
        return self.limits[torch.cdist(features, self.centres).argmin(1)]


@dataclass(frozen=True, eq=False)
class GateLimits:
    """Limits in proportion to a softmax over nominators, times those of `scale`."""

    weights: Tensor  # [F + 1, N], the last row is the bias
    scale: Tensor  # [N]

    def __call__(self, features: Tensor) -> Tensor:
        return _gate(features, self.weights) * self.scale


def cluster_split(
    batches: Sequence[RequestBatch], features: UserFeatures, names: Sequence[str], budget: int, seed: int
) -> ContextualSplit:
    """Limits learned for each cluster of users, shrunk to those of all like the segments by length of history."""
    described = torch.cat([features(one.query) for one in batches])
    centres, _ = kmeans2(described.double().numpy(), CLUSTERS, minit="++", seed=seed)
    nearest = torch.cdist(described, torch.from_numpy(centres).float()).argmin(1).numpy()
    ranks, rule = ranks_in_pool(batches, names), SplitRule()
    allocation = allocate(
        ranks.rank,
        budget,
        segments=nearest[ranks.request],
        n_segments=CLUSTERS,
        weights=ranks.weights,
        block=rule.block,
        floor=min(rule.floor, budget // len(names)),
        shrink=rule.shrink,
        lists=_lists(batches, names, nearest),
    )
    limits = ClusterLimits(torch.from_numpy(centres).float(), torch.from_numpy(allocation.limits).float())
    return ContextualSplit(tuple(names), features, limits, k=budget)


def gate_split(
    batches: Sequence[RequestBatch],
    features: UserFeatures,
    names: Sequence[str],
    budget: int,
    seed: int,
    learned: Sequence[int] | None = None,
) -> ContextualSplit:
    """Limits in proportion to a logistic gate over nominators; with `learned` limits, to these times its tilt.

    The gate predicts which nominators return the targets of a request; those that return the same one share it.
    """
    described, credit = torch.cat([features(one.query) for one in batches]), _credits(batches, names)
    found = credit.sum(1) > 0
    weights = _fitted(described[found], credit[found], seed)
    mean = _gate(described, weights).mean(0)
    scale = torch.full((len(names),), float(budget)) if learned is None else torch.tensor(learned) / mean
    return ContextualSplit(tuple(names), features, GateLimits(weights, scale.float()), k=budget)


def _described(factors: Tensor, query: Query) -> Tensor:
    means, _ = mean_factors(factors, query.history[:, -LAST:])
    length = (query.history >= 0).sum(1, keepdim=True).float().log1p()
    return torch.cat([means, length], dim=1)


def _lists(batches: Sequence[RequestBatch], names: Sequence[str], segment: Ints) -> Lists:
    """The candidates of some requests, by segment of the request [R]."""
    ends = np.cumsum([len(one.targets) for one in batches])
    some = batches[: int(np.searchsorted(ends, LISTS)) + 1]
    ranks, request = all_ranks(some, names)
    own = segment[: sum(len(one.targets) for one in some)]
    return Lists(ranks, own[request], np.bincount(own, minlength=CLUSTERS))


def _credits(batches: Sequence[RequestBatch], names: Sequence[str]) -> Tensor:
    """Shares of each request's targets that nominators return [R, N]; those of the same target divide it equally."""
    ranks: TargetRanks = ranks_in_pool(batches, names)
    listed = (ranks.rank < ABSENT).astype(np.float64)
    each: Floats = listed / listed.sum(1, keepdims=True).clip(min=1) * ranks.weights[:, None]
    credit = np.zeros((len(ranks), len(names)))
    np.add.at(credit, ranks.request, each)
    return torch.from_numpy(credit).float()


def _fitted(features: Tensor, credit: Tensor, seed: int) -> Tensor:
    """Coefficients with the decay that predicts a random part of the requests best."""
    held = torch.rand(len(features), generator=torch.Generator().manual_seed(seed)) < CHOSEN_ON
    trials = [_coefficients(features[~held], credit[~held], decay) for decay in DECAYS]
    losses = [float(_loss(features[held], credit[held], one)) for one in trials]
    return _coefficients(features, credit, DECAYS[int(np.argmin(losses))])


def _coefficients(features: Tensor, credit: Tensor, decay: float) -> Tensor:
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
    return -(credit * _logits(features, weights).log_softmax(1)).sum() / credit.sum()


def _gate(features: Tensor, weights: Tensor) -> Tensor:
    return _logits(features, weights).softmax(1)


def _logits(features: Tensor, weights: Tensor) -> Tensor:
    return F.pad(features, (0, 1), value=1.0) @ weights
