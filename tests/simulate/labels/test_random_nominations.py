import numpy as np
import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.nominate.pools import Pools, by_block, by_popularity_stripe, make_pools
from shortlist.simulate.labels import LabelBandit, PowerLawWorld, chance_of_reward


def test_ten_random_nominations_of_arms_with_equal_rates_have_the_chance_of_the_paper():
    pools = make_pools(100, 10, seed=0)
    assert chance_of_reward(pools, np.full(100, 0.1)) == pytest.approx(0.65132, abs=5e-6)
    assert chance_of_reward(pools, np.full(100, 0.1073)) == pytest.approx(0.6786, abs=5e-5)
    assert chance_of_reward(make_pools(100, 20, seed=0), np.full(100, 0.1)) == pytest.approx(0.878, abs=5e-4)


def test_pools_with_unequal_rates_raise_the_chance():
    rates = PowerLawWorld().frequencies
    even, order = 1 - (1 - rates.mean()) ** 10, np.arange(100)
    chances = [chance_of_reward(make_pools(100, 10, seed=seed), rates) for seed in range(20)]
    assert min(chances) >= even
    blocks, stripes = by_block(order, 10), by_popularity_stripe(order, 10)
    assert chance_of_reward(blocks, rates) > max(chances) > chance_of_reward(stripes, rates) >= even


def test_the_chance_is_that_of_a_bandit_whose_arms_are_rows_of_their_own():
    table = PowerLawWorld(arms=20, width=20, positives=3.0, blocks=2).table(3000)
    pools = make_pools(20, 4, seed=1)
    stream = LabelBandit(table, "arm_is_label", arms=20).rounds([0])
    rewards = torch.cat([stream.next(64).rewards[0] for _ in range(200)]).numpy()  # [R, A]
    random = np.random.default_rng(0)
    picked = np.stack([random.choice(np.flatnonzero(pool), len(rewards)) for pool in pools.matrix], 1)
    seen = np.take_along_axis(rewards, picked, 1).any(1).mean()
    error = np.sqrt(seen * (1 - seen) / len(rewards))
    assert seen == pytest.approx(chance_of_reward(pools, table.popularity.numpy()), abs=4 * error)


def test_rates_that_do_not_fit_are_refused():
    with pytest.raises(ConfigError, match="each of 10 arms"):
        chance_of_reward(make_pools(10, 2, seed=0), np.full(9, 0.1))
    with pytest.raises(ConfigError, match="from 0 to 1"):
        chance_of_reward(make_pools(10, 2, seed=0), np.full(10, 1.5))


def test_overlapping_pools_are_refused():
    with pytest.raises(ConfigError, match="expected disjoint pools, got 1 arms in more than one"):
        chance_of_reward(Pools.of([[0, 1], [1]]), np.array([0.5, 0.5]))
