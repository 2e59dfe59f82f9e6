"""How often nominators that nominate at random have a rewarded arm among them."""

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import ConfigError
from shortlist.nominate.pools import Pools


def chance_of_reward(pools: Pools, rates: NDArray[np.float64]) -> float:
    """The probability that one random arm of each pool includes a reward of 1, for independent rewards of arms.

    `rates` [A] are the probabilities of a reward. Disjoint pools of equal sizes have the lowest chance where all have
    the same mean rate.
    """
    if rates.shape != (pools.n_items,) or not ((rates >= 0) & (rates <= 1)).all():
        raise ConfigError(
            f"chance of a reward: expected a rate from 0 to 1 for each of {pools.n_items} arms, got {rates.shape} "
            f"from {rates.min():g} to {rates.max():g}"
        )
    if not pools.partition:
        raise ConfigError(
            f"chance of a reward: expected disjoint pools, got {pools.overlap} arms in more than one; then nominations "
            "are not independent"
        )
    means = pools.matrix @ rates / pools.sizes
    return float(1 - np.prod(1 - means))
