"""Item features from a catalogue: categories, numbers, and values that are missing or not finite."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
import torch

from shortlist.data import Catalog, Vocabulary
from shortlist.errors import DataError
from shortlist.models.collaborative.item_features import ItemFeatures


def catalog(**columns) -> Catalog:
    table = pa.table(columns)
    return Catalog(Vocabulary.of(list(range(len(table)))), table)


def test_categories_and_numeric_columns_are_read():
    found = ItemFeatures.of(
        catalog(
            title=["a", "b", "c"],
            category=[["x", "y"], [], ["y"]],
            year=pa.array([1990, None, 2000]),
            price=[1.5, float("nan"), 2.5],
            new=[True, False, None],
            cost=pa.array([Decimal("1.25"), None, Decimal("2.50")]),
        )
    )
    assert found.names == ("year", "price", "new", "cost")
    assert found.n_categories == 3  # an item without a category has the empty one
    assert found.categories.tolist() == [[1, 2], [0, -1], [2, -1]]
    expected = [[1990, 1.5, 1, 1.25], [np.nan, np.nan, 0, np.nan], [2000, 2.5, np.nan, 2.5]]
    assert np.array_equal(found.numbers.numpy(), np.array(expected), equal_nan=True)


def test_a_catalogue_without_features_has_none():
    assert ItemFeatures.of(catalog(title=["a", "b"])) is None
    assert ItemFeatures.of(Catalog.bare(Vocabulary.of([1, 2]))) is None


def test_only_categories_or_only_numbers():
    assert ItemFeatures.of(catalog(category=["x", "y"])).numbers.shape == (2, 0)
    found = ItemFeatures.of(catalog(year=[1, 2]))
    assert found.n_categories == 0
    assert found.categories.shape == (2, 0)


def test_scale_is_of_the_present_values():
    found = ItemFeatures.of(catalog(a=[1.0, 3.0, None], b=[0.1, 0.1, 0.1]))
    mean, std = found.scale()
    assert torch.allclose(mean, torch.tensor([2.0, 0.1], dtype=torch.float64))
    assert std.tolist() == [1.0, 1.0]  # that of a constant column is 1


@pytest.mark.parametrize("value", [float("inf"), -float("inf"), 1e200])
def test_infinity_is_refused_with_its_row(value):
    with pytest.raises(
        DataError,
        match=r"item column 'price': expected finite numbers up to .*, got (-?inf|1e.200) in row 1; fix",
    ):
        ItemFeatures.of(catalog(price=[1.0, value]))


def test_a_column_without_any_value_is_refused():
    with pytest.raises(
        DataError, match="item column 'price': expected at least one number, got only missing"
    ):
        ItemFeatures.of(catalog(price=pa.array([None, None], pa.float64())))


def test_an_empty_catalogue_has_features_of_no_item():
    found = ItemFeatures.of(catalog(price=pa.array([], pa.float64())))
    assert found.numbers.shape == (0, 1)
    assert [one.tolist() for one in found.scale()] == [[0.0], [1.0]]
