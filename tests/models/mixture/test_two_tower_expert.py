"""Two-tower experts read their own features and nothing else."""

import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.models.mixture import TwoTowerExperts, feature_subsets
from tests.models.mixture.worlds import WIDTH, A, D, N, examples


@pytest.mark.parametrize("shared", [False, True])
def test_all_experts_at_once_equal_one_after_the_other(shared: bool) -> None:
    torch.manual_seed(0)
    features = feature_subsets(D, N, 3, seed=0)
    experts = TwoTowerExperts(features, A, WIDTH, shared_items=shared).double()
    contexts, items, _ = examples()
    for n in range(N):
        own = features[:, n].nonzero()[:, 0]
        users = torch.cat([contexts[:, own], torch.ones(len(contexts), 1)], 1) @ torch.cat(
            [experts.weight[own, n], experts.constant[n][None]]
        )
        expected = users @ experts.items[:, 0 if shared else n].T
        assert torch.allclose(experts.all(contexts)[..., n], expected)
        assert torch.allclose(experts(contexts, items)[:, n], expected[torch.arange(len(items)), items])
        assert torch.allclose(experts(contexts, items[:, None])[:, 0, n], experts(contexts, items)[:, n])


def test_features_outside_the_subset_change_nothing_and_get_no_gradient() -> None:
    features = torch.tensor([[True, False], [False, True]])
    experts = TwoTowerExperts(features, A, WIDTH)
    contexts = torch.randn(4, 2)
    changed = contexts * torch.tensor([1.0, 5.0])
    assert torch.equal(experts.all(contexts)[..., 0], experts.all(changed)[..., 0])
    experts.all(contexts).sum().backward()
    assert experts.weight.grad is not None
    assert torch.equal(experts.weight.grad[~features], torch.zeros(2, WIDTH))


def test_subsets_have_their_size_and_larger_ones_contain_smaller_ones() -> None:
    small, large = (feature_subsets(20, 5, size, seed=3) for size in (4, 11))
    assert small.sum(0).tolist() == [4] * 5
    assert bool((large | ~small).all())
    assert len({tuple(column) for column in small.T.tolist()}) == 5


def test_bad_sizes_are_refused() -> None:
    with pytest.raises(ConfigError, match="a subset of 1 to 20 features, got 21"):
        feature_subsets(20, 5, 21, seed=0)
    with pytest.raises(ConfigError, match="a width of at least 1"):
        TwoTowerExperts(torch.ones(2, 2, dtype=torch.bool), A, 0)
