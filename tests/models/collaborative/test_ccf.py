"""CCF: known users have their own vectors, all others the mean; item vectors are stored for scoring."""

import pytest
import torch

from shortlist.models.collaborative.ccf import CCF, CCFConfig
from shortlist.models.collaborative.item_features import ItemFeatures

FEATURES = ItemFeatures(
    torch.arange(6)[:, None] % 2, 2, torch.arange(6, dtype=torch.float64)[:, None], ("number",)
)


def model(features: bool) -> CCF:
    """Users 0, 1 and 3 of five and items 0..3 of six had events."""
    torch.manual_seed(0)
    sizes = {"n_categories": 2, "categories_of_item": 1, "n_numbers": 1} if features else {}
    made = CCF(CCFConfig(6, n_users=5, width=4, feature_width=3, **sizes))
    if features:
        made.encoder.with_features(FEATURES)
        torch.nn.init.normal_(made.encoder.items.weight)
    made.finish(torch.tensor([True, True, False, True, False]), torch.arange(6) < 4)
    return made.eval()


@torch.no_grad()
@pytest.mark.parametrize("features", [False, True])
def test_known_users_have_their_own_vector_and_all_others_the_mean(features):
    made = model(features)
    table = made.user_embedding.weight
    mean = table[[0, 1, 3]].mean(0)
    history = torch.tensor([[1], [2], [-1], [0], [3]])
    found = made.users(history, torch.tensor([3, 2, -1, 5, 2**40]))
    assert torch.equal(found[0], table[3])
    assert torch.allclose(found[1:], mean.expand(4, -1), atol=1e-6)
    assert torch.allclose(made.users(history), mean.expand(5, -1), atol=1e-6)


@torch.no_grad()
def test_item_vectors_are_those_of_the_encoder():
    made = model(features=True)
    assert torch.equal(made.vectors()[:4], made.encoder(torch.arange(4)))
    assert made.vectors().shape == (6, 7)


@torch.no_grad()
def test_item_without_events_has_the_unknown_row_and_its_own_features():
    made = model(features=True)
    new = made.encoder.of_features(FEATURES.categories[4:], FEATURES.numbers[4:])
    assert torch.allclose(made.vectors()[4:], new, atol=1e-6)


@torch.no_grad()
def test_without_features_an_item_without_events_has_the_mean_vector():
    made = model(features=False)
    assert torch.allclose(made.vectors()[4:], made.vectors()[:4].mean(0).expand(2, -1), atol=1e-6)


def test_without_any_event_nothing_is_averaged():
    made = CCF(CCFConfig(3, n_users=2, width=4))
    made.finish(torch.zeros(2, dtype=torch.bool), torch.zeros(3, dtype=torch.bool))
    assert made.scores(torch.tensor([[0]])).isfinite().all()


def test_histories_are_not_read():
    made = model(features=False)
    assert not made.reads_history
    one, two = (made.scores(torch.tensor([history]), torch.tensor([1])) for history in ([0, 1], [-1, 5]))
    assert torch.equal(one, two)
