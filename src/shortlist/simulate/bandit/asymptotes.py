"""Regret per round of linear worlds after everything is learned, without a simulation of learning."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, stats

from shortlist.nominate.pools import make_pools
from shortlist.simulate.bandit.draws import generator

Floats = NDArray[np.float64]


def expected_maximum(arms: int) -> float:
    """The expected maximum of as many standard normals: regret per round of an agent that plays at random."""

    def tail(x: float) -> float:
        return float(1 - stats.norm.cdf(x) ** arms - stats.norm.cdf(-x) ** arms)

    return float(integrate.quad(tail, 0, np.inf, epsabs=1e-10)[0])


def expected_norm(subset: int, width: int) -> float:
    """The expected norm of `subset` coordinates of a uniform unit vector of `width`."""
    above = math.lgamma((subset + 1) / 2) + math.lgamma(width / 2)
    below = math.lgamma(subset / 2) + math.lgamma((width + 1) / 2)
    return math.exp(above - below)


def single_stage_asymptote(width: int, subset: int, arms: int) -> float:
    """Regret per round of a single stage that has learned the best coefficients of its features."""
    return expected_maximum(arms) * (1 - expected_norm(subset, width))


def nominator_asymptote(
    width: int,
    subset: int,
    arms: int,
    nominators: int,
    draws: int = 4000,
    seed: int = 0,
    same_masks: bool = False,
) -> float:
    """Nominator regret per round of a two-stage system that has learned, by a Monte Carlo average of worlds."""
    return nominator_asymptotes(width, (subset,), arms, nominators, draws, seed, same_masks)[0]


def nominator_asymptotes(
    width: int,
    subsets: Sequence[int],
    arms: int,
    nominators: int,
    draws: int,
    seed: int = 0,
    same_masks: bool = False,
) -> list[float]:
    """The same for several numbers of features, on the same worlds."""
    random = generator(seed, 0, width, arms, nominators)
    total = np.zeros(len(subsets))
    for number in range(draws):
        theta = random.standard_normal(width)
        theta /= np.linalg.norm(theta)
        pools = make_pools(arms, nominators, seed=number).padded()
        contexts = random.standard_normal((arms, width))
        means = contexts @ theta
        order = np.argsort(random.random((1 if same_masks else nominators, width)), axis=1)
        masks = np.stack([np.broadcast_to(order < one, (nominators, width)) for one in subsets])
        scores = contexts @ (masks * theta).reshape(-1, width).T  # [A, subsets x N]
        total += means.max() - means[_nominated(scores, *pools)].max(1)
    return [float(one) for one in total / draws]


def _nominated(scores: Floats, arms: NDArray[np.int64], valid: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The arms that learned nominators nominate [subsets, N]."""
    nominators = np.arange(len(arms))
    by_pool = scores.reshape(len(scores), -1, len(arms))[arms, :, nominators[:, None]]  # [N, P, subsets]
    places = np.where(valid[..., None], by_pool, -np.inf).argmax(1)  # [N, subsets]
    return np.asarray(arms[nominators[:, None], places].T, np.int64)
