"""Weights of examples by who nominated the item, on hand-made nominations."""

import numpy as np
import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.nominate.pools import Pools, make_pools
from shortlist.train.pools import Nominations, WeightRule

# Items 0, 1, 2 shown in turn; nominator 0 has the pool {0, 1}, nominator 1 the pool {1, 2}.
KNOWN = Nominations(
    in_pool=torch.tensor([[True, False], [True, True], [False, True]]),
    picked=torch.tensor([[True, False], [True, False], [False, True]]),
    own_policy=torch.tensor([[0.5, 0.0], [0.25, 0.0], [0.0, 1.0]]),
    shown=torch.tensor([0.5, 0.1, 0.02]),
)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("all", [[1, 1], [1, 1], [1, 1]]),
        ("own_pool", [[1, 0], [1, 1], [0, 1]]),
        ("own_pick", [[1, 0], [1, 0], [0, 1]]),
        ("mix:0.3", [[1, 0.3], [1, 1], [0.3, 1]]),
        ("mix:0", [[1, 0], [1, 1], [0, 1]]),
        ("mix:1", [[1, 1], [1, 1], [1, 1]]),
        ("ips:10", [[1, 0], [2.5, 0], [0, 10]]),
        ("ips:2", [[1, 0], [2, 0], [0, 2]]),
    ],
)
def test_rules_give_the_weights_of_the_specification(rule, expected):
    weights = WeightRule.parse(rule).weights(KNOWN)
    assert torch.allclose(weights, torch.tensor(expected, dtype=torch.float32))


def shown_from(pools: Pools, items: np.ndarray, scores: np.ndarray) -> Nominations:
    """Every nominator nominates its best item by its own scores [N, A], per request; the shown item is one of them."""
    in_pool = pools.matrix[:, items].T
    best = np.where(pools.matrix, scores, -np.inf).argmax(2)  # [T, N]
    return Nominations(torch.from_numpy(in_pool), torch.from_numpy(best == items[:, None]))


def played(pools: Pools, seed: int) -> Nominations:
    random = np.random.default_rng(seed)
    scores = random.normal(size=(200, pools.n_nominators, pools.n_items))
    best = np.where(pools.matrix, scores, -np.inf).argmax(2)
    items = best[np.arange(200), random.integers(0, pools.n_nominators, 200)]
    return shown_from(pools, items, scores)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("nominators", [1, 3, 7, 12])
def test_own_pool_is_own_pick_for_any_partition(seed, nominators):
    pools = make_pools(12, nominators, seed=seed)
    assert pools.partition
    known = played(pools, seed)
    first, second = (WeightRule(kind).weights(known) for kind in ("own_pool", "own_pick"))
    assert torch.equal(first, second)
    assert bool((first.sum(1) == 1).all())


def test_own_pool_is_not_own_pick_where_pools_overlap():
    pools = Pools.of([[0], [0, 1]])
    known = shown_from(
        pools, np.array([0]), np.array([[[1.0, 0.0], [0.0, 1.0]]])
    )  # nominator 1 nominates item 1
    assert WeightRule("own_pool").weights(known).tolist() == [[1, 1]]
    assert WeightRule("own_pick").weights(known).tolist() == [[1, 0]]


@pytest.mark.parametrize("seed", range(3))
def test_importance_weights_estimate_the_own_policy_without_bias(seed):
    """Two pools, one random pick of each, a fair choice between both: the weighted mean is that of its own policy."""
    random = np.random.default_rng(seed)
    policy, value = random.dirichlet(np.ones(4)), random.normal(size=4)
    shown = policy / 2  # the other nominator's pick is shown otherwise
    weights = WeightRule.parse("ips:1000").weights(
        Nominations(
            torch.ones(4, 1, dtype=torch.bool),
            torch.ones(4, 1, dtype=torch.bool),
            torch.from_numpy(policy)[:, None],
            torch.from_numpy(shown),
        )
    )
    assert float((torch.from_numpy(shown * value) * weights[:, 0]).sum()) == pytest.approx(policy @ value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("own_pol", r"expected all, own_pool, .* got 'own_pol'; did you mean own_pool"),
        ("mix:1.5", "expected beta from 0 to 1, got 1.5"),
        ("mix:half", "expected beta from 0 to 1, got nan"),
        ("mix", "expected a number from 0 to 1 after mix:"),
        ("ips:0", "expected clip above 0, got 0"),
        ("all:2", "expected a number only after mix: or ips:, got 'all:2'"),
    ],
)
def test_unknown_rules_are_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        WeightRule.parse(text)


def test_importance_weights_need_propensities_above_0():
    only = Nominations(KNOWN.in_pool, KNOWN.picked)
    with pytest.raises(ConfigError, match=r"let nominators explore .* or use own_pool"):
        WeightRule("ips").weights(only)
    zero = Nominations(KNOWN.in_pool, KNOWN.picked, KNOWN.own_policy, torch.tensor([0.5, 0.0, 0.1]))
    with pytest.raises(ConfigError, match="a probability above 0 for every shown item, got 0"):
        WeightRule("ips").weights(zero)
    with pytest.raises(ConfigError, match="responsibilities of a gate, got none"):
        WeightRule("gate").weights(KNOWN)
