"""Fine-tuning on distilled pools: the gate is gone, and every expert learns from what its rule says."""

import numpy as np
import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.models.mixture import nominate
from shortlist.nominate.pools import Pools, make_pools
from shortlist.train.pools import PoolTraining, WeightRule, finetune, with_pools
from tests.train.pools.worlds import A, N, mixture, outcomes

FEW = PoolTraining(epochs=20, batch_size=120, learning_rate=0.02)


@pytest.mark.parametrize("rule", ["own_pool", "gate", "mix:0.5", "all"])
def test_fine_tuned_experts_predict_their_pools_better(rule: str) -> None:
    pools, triples, valid = make_pools(A, N, seed=0), outcomes(60), outcomes(30, seed=1)
    before = with_pools(mixture(), pools)
    after = finetune(mixture(), pools, rule, triples, valid, FEW)
    contexts, items, rewards = valid.contexts, valid.items, valid.rewards
    loss = [
        ((one.mixture_mean(contexts, items) - rewards) ** 2).mean().item() for one in (before, after.model)
    ]
    assert loss[1] < loss[0]
    assert after.epochs == 5
    assert not list(after.model.gate.parameters())


def test_lists_of_fine_tuned_pools_hold_items_of_their_pools() -> None:
    pools = make_pools(A, N, seed=0)
    model = finetune(mixture(), pools, "own_pool", outcomes(10), training=FEW).model
    items, _ = nominate(model, torch.randn(4, 6), 2, "pool")
    assert items.shape == (4, 2 * N)
    assert all(len(set(row)) == 2 * N for row in items.tolist())


def test_own_pool_learns_nothing_from_items_of_other_pools() -> None:
    pools, triples = make_pools(A, N, seed=0), outcomes(20)
    changed = torch.from_numpy(pools.matrix[0])[triples.items]
    other = triples.take(torch.arange(len(triples)))
    other.rewards[changed] = 1 - other.rewards[changed]
    one, two = (
        finetune(mixture(), pools, WeightRule("own_pool"), given, training=FEW).model
        for given in (triples, other)
    )
    assert torch.equal(one.experts.items[:, 1], two.experts.items[:, 1])  # type: ignore[index]
    assert not torch.equal(one.experts.items[:, 0], two.experts.items[:, 0])  # type: ignore[index]


def test_the_given_mixture_is_not_changed() -> None:
    model = mixture()
    before = {name: one.clone() for name, one in model.state_dict().items()}
    finetune(model, make_pools(A, N, seed=0), "gate", outcomes(10), training=FEW)
    assert all(torch.equal(before[name], now) for name, now in model.state_dict().items())
    assert model.gate.kind == "item"


def test_items_of_several_pools_count_equally_for_them() -> None:
    pools = Pools(np.ones((N, A), dtype=np.bool_))
    model = with_pools(mixture(), pools)
    assert torch.allclose(model.gate.item_weights(), torch.full((A, N), 1 / N))


def test_rules_that_need_a_log_and_pools_of_other_items_are_refused() -> None:
    with pytest.raises(ConfigError, match="got 'ips'; pools have no log"):
        finetune(mixture(), make_pools(A, N, seed=0), "ips", outcomes(5))
    with pytest.raises(ConfigError, match=r"\(nominators, items\) \(3, 12\), the pools \(2, 12\)"):
        with_pools(mixture(), make_pools(A, 2, seed=0))
