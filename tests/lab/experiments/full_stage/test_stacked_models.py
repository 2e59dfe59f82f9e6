"""Stacked models against single ones."""

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from shortlist.lab.experiments.full_stage.stacked_models import StackedFactors, StackedTowers

USERS, ITEMS = torch.tensor([3, 0]), torch.tensor([[1, 4, 4], [0, -1, 2]])


@pytest.mark.parametrize("kind", [StackedFactors, StackedTowers])
def test_scores_are_cosines_divided_by_the_temperature(kind) -> None:
    model = kind(5, 6, 8, (0.1, 0.5), seed=1)
    users, items = model.vectors()
    assert torch.allclose(users.norm(dim=-1), torch.ones(2, 5))
    scores = model(USERS, ITEMS)
    for at, temperature in enumerate((0.1, 0.5)):
        cosines = F.cosine_similarity(users[at][USERS][:, None], items[at][ITEMS.clamp(min=0)], dim=-1)
        assert torch.allclose(scores[at], cosines / temperature, atol=1e-5)


@pytest.mark.parametrize("kind", [StackedFactors, StackedTowers])
def test_models_of_all_temperatures_start_equal_and_have_their_own_gradients(kind) -> None:
    stack = kind(5, 6, 8, (0.1, 0.5), seed=2)
    stack(USERS, ITEMS).pow(2).sum().backward()
    for at, temperature in enumerate((0.1, 0.5)):
        alone = kind(5, 6, 8, (temperature,), seed=2)
        alone(USERS, ITEMS).pow(2).sum().backward()
        for own, other in zip(stack.parameters(), alone.parameters(), strict=True):
            assert torch.equal(own[at], other[0])
            assert torch.allclose(own.grad[at], other.grad[0], atol=1e-4, rtol=1e-4)


def test_towers_of_other_seeds_differ() -> None:
    one, other = (StackedTowers(5, 6, 8, (0.1,), seed).vectors()[0] for seed in (1, 2))
    assert not torch.allclose(one, other)


@pytest.mark.parametrize("kind", [StackedFactors, StackedTowers])
def test_scores_of_a_large_batch_are_those_of_its_parts(kind) -> None:
    model = kind(5, 6, 8, (0.1, 0.5), seed=3)
    large = model(USERS.repeat(4), ITEMS.repeat(4, 1))  # more rows than users and items: tables first
    assert torch.allclose(large, model(USERS, ITEMS).repeat(1, 4, 1), atol=1e-5)
