"""Frozen experts: calibrated scores of any nominator beside learned experts."""

import pytest
import torch
from torch import Tensor

from shortlist.errors import ConfigError, DataError
from shortlist.models.mixture import (
    Calibration,
    FrozenExpert,
    FrozenTable,
    Gate,
    JoinedExperts,
    PoolMixture,
    TwoTowerExperts,
)
from tests.models.mixture.worlds import WIDTH, A, D, examples


def nothing(contexts: Tensor, items: Tensor) -> Tensor:
    return torch.full(items.shape, torch.nan, dtype=contexts.dtype)


def first_feature(contexts: Tensor, items: Tensor) -> Tensor:
    return contexts[:, :1] + items


def test_scores_are_calibrated_and_missing_ones_get_the_outcome_without_a_score() -> None:
    line = Calibration((0.0,), (0.1,), 0.5, absent=0.02)
    assert torch.allclose(
        line(torch.tensor([0.0, 2.0, torch.nan, -torch.inf])), torch.tensor([0.1, 1.1, 0.02, 0.02])
    )
    steps = Calibration((1.0, 2.0, 4.0), (0.0, 0.5, 0.6), 0.0)
    assert torch.allclose(
        steps(torch.tensor([[0.0, 1.5], [3.0, 9.0]])), torch.tensor([[0.0, 0.25], [0.55, 0.6]])
    )


def test_a_nominator_that_returns_nothing_predicts_a_constant() -> None:
    expert = FrozenExpert(nothing, A, Calibration(absent=0.3))
    contexts, items, _ = examples()
    assert torch.equal(expert(contexts, items), torch.full((len(items), 1), 0.3, dtype=torch.float64))


def test_a_frozen_expert_and_a_table_join_learned_experts() -> None:
    learned = TwoTowerExperts(torch.ones(D, 2, dtype=torch.bool), A, WIDTH).double()
    popularity = FrozenTable.of(torch.arange(A).double(), Calibration((0.0,), (0.0,), 0.1))
    experts = JoinedExperts([learned, popularity, FrozenExpert(first_feature, A, Calibration())])
    contexts, items, rewards = examples()
    assert experts.all(contexts).shape == (len(contexts), A, 4)
    assert torch.allclose(experts.all(contexts)[0, items[0]], experts(contexts, items)[0])
    assert torch.allclose(experts(contexts, items)[:, 2], items.double() / 10)
    model = PoolMixture(experts, Gate("item", 4, A).double())
    model.log_likelihood(contexts, items, rewards).mean().backward()
    assert all(one.grad is not None and bool(one.grad.any()) for one in model.parameters())
    assert not list(popularity.parameters())


def test_a_constant_score_is_a_valid_expert() -> None:
    experts = FrozenTable.of(torch.full((A,), 7.0, dtype=torch.float64), Calibration((7.0,), (0.1,), 0.0))
    model = PoolMixture(experts, Gate("item", 1, A).double())
    contexts, items, rewards = examples()
    assert torch.allclose(
        model.mixture_mean(contexts, items), torch.full((len(items),), 0.1, dtype=torch.float64)
    )
    assert bool(model.log_likelihood(contexts, items, rewards).isfinite().all())


def test_bad_experts_are_refused() -> None:
    contexts, items, _ = examples()
    with pytest.raises(DataError, match=r"expected scores \[20, 1\], got \[20\]"):
        FrozenExpert(lambda x, a: x[:, 0], A, Calibration())(contexts, items)
    with pytest.raises(DataError, match="outcomes of items"):
        FrozenTable(torch.zeros(3))
    with pytest.raises(ConfigError, match=r"the same items, got \[2, 3\]"):
        JoinedExperts([FrozenTable(torch.zeros(2, 1)), FrozenTable(torch.zeros(3, 1))])
