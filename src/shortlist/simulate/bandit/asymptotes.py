"""Regret per round of linear worlds after everything is learned, without a simulation of learning."""

import math

import numpy as np
from scipy import integrate, stats

from shortlist.nominate.pools import make_pools
from shortlist.simulate.bandit.draws import generator


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
    random = generator(seed, 0, width, subset, arms, nominators)
    total = 0.0
    for number in range(draws):
        theta = random.standard_normal(width)
        theta /= np.linalg.norm(theta)
        pools = make_pools(arms, nominators, seed=number).matrix
        contexts = random.standard_normal((arms, width))
        means = contexts @ theta
        masks = np.argsort(random.random((1 if same_masks else nominators, width)), axis=1) < subset
        scores = contexts @ (np.broadcast_to(masks, (nominators, width)) * theta).T  # [A, N]
        nominated = np.where(pools, scores.T, -np.inf).argmax(1)
        total += means.max() - means[nominated].max()
    return total / draws
