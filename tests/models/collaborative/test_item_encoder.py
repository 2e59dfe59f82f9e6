"""Item vectors from rows and features: formulas, missing values, dropout, and items without a row."""

import pytest
import torch

from shortlist.errors import DataError
from shortlist.models.collaborative.item_encoder import CLIP, EncoderSizes, ItemEncoder
from shortlist.models.collaborative.item_features import ItemFeatures

NAN = float("nan")
SIZES = EncoderSizes(n_items=4, width=3, feature_width=5, n_categories=3, categories_of_item=2, n_numbers=2)
FEATURES = ItemFeatures(
    torch.tensor([[0, 1], [2, -1], [-1, -1], [1, -1]]),
    3,
    torch.tensor([[1.0, 10.0], [3.0, NAN], [NAN, NAN], [5.0, 30.0]], dtype=torch.float64),
    ("a", "b"),
)


def encoder(sizes=SIZES, features=FEATURES, dropout=0.0) -> ItemEncoder:
    torch.manual_seed(0)
    made = ItemEncoder(sizes, dropout)
    return made if features is None else made.with_features(features)


def test_vector_is_the_row_beside_the_mean_of_categories_plus_a_network_of_numbers():
    made = encoder()
    vectors = made(torch.arange(4))
    assert vectors.shape == (4, 8)
    assert torch.equal(vectors[:, :3], made.items.weight[:4])
    table = made.category_vectors.weight
    mean, std = FEATURES.scale()
    scaled = ((FEATURES.numbers - mean) / std).nan_to_num(0.0)
    numbers = made.layers(torch.cat([scaled, FEATURES.numbers.isnan()], 1).float())
    tags = torch.stack([(table[0] + table[1]) / 2, table[2], torch.zeros(5), table[1]])
    assert torch.allclose(vectors[:, 3:], tags + numbers, atol=1e-6)


def test_missing_numbers_are_flagged_and_never_spread():
    made = encoder()
    assert made.numbers[1].tolist() == [0.0, 0.0, 0.0, 1.0]
    assert made.numbers[2].tolist() == [0.0, 0.0, 1.0, 1.0]
    assert made(torch.arange(-1, 4)).isfinite().all()


def test_without_features_a_vector_is_the_row():
    made = encoder(EncoderSizes(4, 3, 5), None, dropout=0.9).train()
    assert torch.equal(made(torch.tensor([2, 0])), made.items.weight[[2, 0]])


def test_dropout_replaces_rows_in_training_only_and_keeps_features():
    made = encoder(dropout=0.5).train()
    ids = torch.arange(4).repeat(500)
    vectors, whole = made(ids), made.eval()(ids)
    dropped = (vectors[:, :3] == made.items.weight[-1]).all(1)
    assert 0.45 < dropped.float().mean() < 0.55
    assert torch.equal(vectors[~dropped], whole[~dropped])
    assert torch.equal(vectors[:, 3:], whole[:, 3:])


def test_row_of_the_unknown_item_is_zero_before_training():
    assert not encoder().items.weight[-1].any()


def test_new_item_with_the_features_of_a_known_one_differs_in_its_row_alone():
    made = encoder()
    new = made.of_features(FEATURES.categories, FEATURES.numbers)
    assert torch.allclose(new[:, 3:], made(torch.arange(4))[:, 3:], atol=1e-6)
    assert torch.equal(new[:, :3], made.items.weight[-1].expand(4, -1))


def test_unknown_id_has_the_vector_of_an_item_without_features():
    made = encoder()
    missing = made.of_features(torch.tensor([[-1, -1]]), torch.tensor([[NAN, NAN]]))
    assert torch.allclose(made(torch.tensor([-1])), missing, atol=1e-6)


def test_new_items_of_an_encoder_without_features_have_the_unknown_row():
    made = encoder(EncoderSizes(4, 3, 5), None)
    new = made.of_features(torch.empty(2, 0, dtype=torch.int64), torch.empty(2, 0))
    assert torch.equal(new, made.items.weight[-1].expand(2, -1))


def test_extreme_numbers_are_clipped():
    made = encoder()
    one, two = (
        made.of_features(torch.tensor([[-1]]), torch.tensor([[value, NAN]], dtype=torch.float64))
        for value in (1e12, 1e300)
    )
    assert torch.equal(one, two)
    assert one.isfinite().all()
    assert float(made.numbers.abs().max()) <= CLIP


@pytest.mark.parametrize(
    ("categories", "numbers", "message"),
    [
        ([[0]], [[1.0]], "expected 2 numbers for each of 1 items, got a tensor of"),
        ([[0], [1]], [[1.0, 2.0]], "expected 2 numbers for each of 2 items"),
        ([[0]], [[float("inf"), 2.0]], "expected finite numbers or NaN, got infinity"),
        ([[3]], [[1.0, 2.0]], "expected category rows below 3, got 3; use -1"),
    ],
)
def test_invalid_features_of_new_items_are_refused(categories, numbers, message):
    with pytest.raises(DataError, match=message):
        encoder().of_features(torch.tensor(categories), torch.tensor(numbers))
