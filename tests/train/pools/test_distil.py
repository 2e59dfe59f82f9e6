"""Pools from a gate: they cover all items, respect their cap, and do not depend on the order of nominators."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from shortlist.errors import ConfigError, DataError
from shortlist.nominate.pools import make_pools
from shortlist.train.pools import distil, pools_from_gate
from shortlist.train.pools.distil import mean_weights
from tests.train.pools.worlds import A, N, mixture, outcomes


def weights_of(n_nominators: int, n_items: int, seed: int = 0) -> NDArray[np.float64]:
    logits = (
        2 * np.random.default_rng(seed).normal(size=(n_nominators, n_items))
        + np.arange(n_nominators)[:, None]
    )
    weights: NDArray[np.float64] = np.exp(logits) / np.exp(logits).sum(0)
    return weights


@pytest.mark.parametrize("cap", [1.0, 1.2, None])
@pytest.mark.parametrize("threshold", [None, 0.2])
def test_pools_cover_all_items_and_respect_the_cap(cap: float | None, threshold: float | None) -> None:
    for seed in range(5):
        pools = pools_from_gate(weights_of(4, 30, seed), threshold=threshold, cap=cap)
        assert pools.matrix.any(0).all()
        assert pools.sizes.min() >= 1
        assert cap is None or pools.sizes.max() <= np.ceil(30 * cap / 4)
        assert pools.partition or threshold is not None
        assert cap is not None or pools.partition == (threshold is None)


@pytest.mark.parametrize("threshold", [None, 0.2])
def test_another_order_of_nominators_gives_the_same_pools(threshold: float | None) -> None:
    weights, order = weights_of(5, 40), np.array([3, 1, 4, 0, 2])
    own = pools_from_gate(weights, threshold=threshold, min_size=6)
    other = pools_from_gate(weights[order], threshold=threshold, min_size=6)
    assert np.array_equal(own.matrix[order], other.matrix)


def test_a_gate_that_is_nearly_hard_gives_its_pools_back() -> None:
    given = make_pools(A, N, seed=3)
    model = mixture("item")
    with torch.no_grad():
        model.gate.items.copy_(20.0 * torch.from_numpy(given.matrix.T).float())
    assert np.array_equal(distil(model, outcomes(2)).matrix, given.matrix)


def test_without_a_cap_every_item_goes_to_its_largest_weight() -> None:
    weights = weights_of(3, 50)
    pools = pools_from_gate(weights, cap=None)
    assert np.array_equal(pools.matrix.argmax(0), weights.argmax(0))
    assert pools.partition


def test_an_empty_pool_gets_the_item_of_its_largest_weight_from_a_larger_pool() -> None:
    weights = np.array([[0.6, 0.7, 0.5, 0.6], [0.3, 0.1, 0.2, 0.1], [0.1, 0.2, 0.3, 0.3]])
    pools = pools_from_gate(weights, cap=None)
    assert pools.matrix[1].tolist() == [True, False, False, False]
    assert pools.sizes.tolist() == [2, 1, 1]


def test_with_more_nominators_than_items_pools_share_items() -> None:
    pools = pools_from_gate(weights_of(5, 3))
    assert pools.sizes.tolist() == [1] * 5
    assert pools.overlap == 2


def test_a_threshold_keeps_ambiguous_items_in_several_pools() -> None:
    weights = np.array([[0.9, 0.5, 0.1, 0.1], [0.1, 0.5, 0.9, 0.9]])
    pools = pools_from_gate(weights, threshold=0.5, cap=2.0)
    assert pools.matrix.sum(0).tolist() == [1, 2, 1, 1]


def test_equal_weights_still_give_every_nominator_items() -> None:
    assert pools_from_gate(np.full((4, 20), 0.25)).sizes.min() >= 1


def test_mean_weights_are_over_the_contexts_of_an_item() -> None:
    model = mixture("user_item")
    with torch.no_grad():
        for one in model.gate.parameters():
            one.normal_(generator=torch.Generator().manual_seed(1))
    triples = outcomes(6)
    triples = triples.take(triples.items != 4)  # an item without examples
    weights = mean_weights(model, triples)
    log_p = model.gate(triples.contexts[triples.rows], triples.items).exp().detach().numpy()
    own = triples.items.numpy() == 7
    assert np.allclose(weights[:, 7], log_p[own].mean(0), atol=1e-6)
    assert np.allclose(weights.sum(0), 1, atol=1e-6)


def test_bad_weights_and_settings_are_refused() -> None:
    with pytest.raises(DataError, match="weights of nominator 1 are not all finite"):
        pools_from_gate(np.array([[1.0, 0.0], [np.nan, 1.0]]))
    with pytest.raises(ConfigError, match="cap of at least 1, got"):
        pools_from_gate(weights_of(2, 4), cap=0.5)
    with pytest.raises(ConfigError, match="min_size from 1 to the largest pool, 3, got 4"):
        pools_from_gate(weights_of(2, 4), min_size=4)
    with pytest.raises(DataError, match="nominators by items"):
        pools_from_gate(np.zeros(3))
