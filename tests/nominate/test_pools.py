"""Item pools: every nominator has items, every item a nominator."""

import numpy as np
import pytest

from shortlist.errors import ConfigError
from shortlist.nominate.pools import Pools, by_block, by_feature_cluster, by_popularity_stripe, make_pools


@pytest.mark.parametrize(("n_items", "n_nominators"), [(10, 3), (12, 4), (5, 5), (7, 1)])
def test_random_pools_are_a_partition_of_nearly_equal_sizes(n_items, n_nominators):
    pools = make_pools(n_items, n_nominators, seed=0)
    assert pools.partition
    assert pools.sizes.sum() == n_items
    assert pools.sizes.max() - pools.sizes.min() <= 1


def test_the_seed_decides_the_pools():
    one, same, other = (make_pools(50, 5, seed=seed).matrix for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("n_nominators", [4, 6, 7, 13])
def test_with_more_nominators_than_items_each_has_one_and_overlap_is_least(n_nominators):
    pools = make_pools(4, n_nominators, seed=3)
    assert pools.sizes.tolist() == [1] * n_nominators
    assert pools.overlap == n_nominators - 4
    per_item = pools.matrix.sum(0)
    assert per_item.max() - per_item.min() <= 1


def test_blocks_keep_neighbours_of_an_order_together_and_stripes_deal_them_out():
    order = np.array([4, 2, 0, 5, 1, 3])
    assert by_block(order, 3).matrix[:, order].argmax(0).tolist() == [0, 0, 1, 1, 2, 2]
    assert by_popularity_stripe(order, 3).matrix[:, order].argmax(0).tolist() == [0, 1, 2, 0, 1, 2]


def test_clusters_hold_near_items_and_are_of_equal_size():
    random = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    features = centres.repeat(4, 0) + random.normal(size=(12, 2))
    pools = by_feature_cluster(features, 3, seed=1)
    assert pools.sizes.tolist() == [4, 4, 4]
    assert {tuple(np.flatnonzero(row)) for row in pools.matrix} == {
        (0, 1, 2, 3),
        (4, 5, 6, 7),
        (8, 9, 10, 11),
    }


def test_pools_from_lists_and_back():
    pools = Pools.of([[0, 2], [1], [2, 3]])
    items, valid = pools.padded()
    assert [row[own].tolist() for row, own in zip(items, valid, strict=True)] == [[0, 2], [1], [2, 3]]
    assert (pools.n_nominators, pools.n_items, pools.overlap, pools.partition) == (3, 4, 1, False)


def test_bad_pools_are_refused_with_what_is_wrong():
    with pytest.raises(ConfigError, match="at least one item for every nominator, got none for 1"):
        Pools.of([[0, 1], []], 2)
    with pytest.raises(ConfigError, match=r"every item in a pool, got 2 items in none \(1, 3\)"):
        Pools.of([[0], [2]], 4)
    with pytest.raises(ConfigError, match="nominators by items"):
        Pools(np.zeros(3, dtype=np.bool_))
    with pytest.raises(ConfigError, match="at least one item and one nominator, got 0 and 2"):
        make_pools(0, 2, seed=0)


def test_items_and_features_that_make_no_pools_are_refused():
    with pytest.raises(ConfigError, match="expected items from 0 to 1, got -1"):
        Pools.of([[-1, 0], [1]])
    with pytest.raises(ConfigError, match="expected items from 0 to 2, got 3"):
        Pools.of([[0, 1], [2, 3]], 3)
    for make in (by_block, by_popularity_stripe):
        with pytest.raises(ConfigError, match="an order of the items 0 to 2, each once"):
            make(np.array([0, 0, 2]), 2)
        with pytest.raises(ConfigError, match="0 nominators"):
            make(np.arange(3), 0)
    with pytest.raises(ConfigError, match="expected finite features"):
        by_feature_cluster(np.full((4, 2), np.nan), 2, seed=0)
    with pytest.raises(ConfigError, match="of at least 5 items"):
        by_feature_cluster(np.zeros((4, 2)), 5, seed=0)
