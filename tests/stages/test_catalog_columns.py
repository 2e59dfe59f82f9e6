"""Catalogue columns: numbers are scaled, texts become codes, lists become tags, other columns are left out."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest
import torch

from shortlist.data import Catalog, Vocabulary
from shortlist.data.catalog import split_texts
from shortlist.errors import ArtifactError, ConfigError
from shortlist.stages.catalog_columns import CLIP, MAX_TAGS_PER_ITEM, CatalogColumns

ALL = np.ones(6, bool)


def catalog(**columns) -> Catalog:
    return Catalog(Vocabulary.of([f"i{row}" for row in range(6)]), split_texts(pa.table(columns)))


def read(trained=ALL, only=(), **columns) -> CatalogColumns:
    return CatalogColumns.of(catalog(**columns), trained, only)


def test_numbers_have_mean_0_and_std_1_and_a_flag_where_some_are_missing():
    made = read(price=[1.0, 2.0, 3.0, 4.0, None, float("nan")], pages=[1, 2, 3, 4, 5, 6])
    assert made.names == ("price", "pages")
    price, missing, pages = made.numbers.T
    assert price[:4].mean().item() == pytest.approx(0, abs=1e-6)
    assert price[:4].std(correction=0).item() == pytest.approx(1, rel=1e-5)
    assert price[4:].tolist() == [0, 0]
    assert missing.tolist() == [0, 0, 0, 0, 1, 1]
    assert pages.mean().item() == pytest.approx(0, abs=1e-6)


def test_numbers_are_scaled_by_items_that_occur_in_training():
    trained = np.array([True, True, False, False, False, False])
    made = read(trained, price=[0.0, 2.0, 3.0, 1e9, -1e9, None])
    assert made.numbers[:, 0].tolist() == [-1, 1, 2, CLIP, -CLIP, 0]


def test_dates_and_booleans_are_numbers():
    days = [datetime.date(2020, 1, day) for day in range(1, 7)]
    made = read(added=days, new=[True, False, True, False, None, True])
    assert made.numbers.shape == (6, 3)
    assert bool((made.numbers[1:, 0] > made.numbers[:-1, 0]).all())


def test_texts_become_codes_by_frequency_and_rare_ones_are_0():
    made = read(kind=["b", "a", "a", "b", "rare", None], title=["x"] * 6)
    assert made.names == ("kind",)
    assert made.codes[:, 0].tolist() == [2, 1, 1, 2, 0, 0]
    assert made.sizes == (3,)
    trained = np.array([True, False, False, True, True, True])
    assert read(trained, kind=["b", "a", "a", "b", "a", None]).codes[:, 0].tolist() == [1, 0, 0, 1, 0, 0]


def test_uninformative_columns_are_left_out_unless_requested():
    columns = {
        "link": [f"http://{row}" for row in range(6)],
        "same": [3] * 6,
        "none": pa.array([None] * 6, pa.string()),
    }
    made = read(**columns)
    assert made.names == ()
    assert made.numbers.shape == made.codes.shape == made.tags.shape == (6, 0)
    assert read(only=["link"], **columns).codes[:, 0].tolist() == [1, 2, 3, 4, 5, 6]
    assert read(odd=[b"x"] * 6).names == ()


def test_unknown_column_is_refused():
    with pytest.raises(ConfigError, match="'nobody' is not a column of the catalogue; it has kind, price"):
        read(only=["kind", "nobody"], kind=["a"] * 6, price=[1] * 6)


@pytest.mark.parametrize(
    "genres",
    [
        ["war|love", "love", "love|war", "", None, "sea|love"],
        [["war", "love"], ["love"], ["love", "war"], [], None, ["sea", "love"]],
    ],
)
def test_lists_become_tags_the_most_frequent_first(genres):
    made = read(genres=genres)
    assert made.names == ("genres",)
    assert made.tags.tolist() == [[0, 1], [0, -1], [0, 1], [-1, -1], [-1, -1], [0, 2]]
    assert made.n_tags == 3


def test_an_item_has_at_most_eight_tags():
    assert read(words=[[f"w{n}" for n in range(50)]] * 6).tags.shape == (6, MAX_TAGS_PER_ITEM)


def test_match_is_the_share_of_the_history_with_the_same_value():
    made = read(kind=["a", "a", "b", "b", "b", None], genres=["x|y", "x", "y", "y|z", "", "z"])
    history = torch.tensor([[-1, 0, 1, 2], [-1, -1, -1, -1], [5, 5, 5, 5]])
    rows = torch.tensor([[0, 3, 5]] * 3)
    values = made.match(history, rows)

    def slow(past, row):
        kinds, tags = made.codes[:, 0].tolist(), [{t for t in one if t >= 0} for one in made.tags.tolist()]
        past = [one for one in past if one >= 0]
        share = len(past) or 1
        same = sum(kinds[one] == kinds[row] != 0 for one in past) / share
        own = [sum(tag in tags[one] for one in past) / share for tag in tags[row]]
        return [same, sum(own) / (len(own) or 1)]

    expected = [
        [slow(past, row) for row in some] for past, some in zip(history.tolist(), rows.tolist(), strict=True)
    ]
    assert torch.allclose(values, torch.tensor(expected))
    assert values[0, 0].tolist() == pytest.approx([2 / 3, 2 / 3])


def test_catalogue_without_columns_has_no_match():
    made = CatalogColumns.of(Catalog.bare(Vocabulary.of(["a", "b"])), np.ones(2, bool))
    assert made.names == ()
    assert made.match(torch.tensor([[0]]), torch.tensor([[1, 0]])).tolist() == [[[0.0], [0.0]]]


def test_catalogue_without_trained_items_has_no_columns():
    made = read(np.zeros(6, bool), price=[1, 2, 3, 4, 5, 6], kind=["a"] * 6, genres=["a|b"] * 6)
    assert made.numbers.shape == (6, 0)
    assert made.tags.shape == (6, 0)


def test_columns_are_the_same_when_rebuilt():
    made = read(kind=["a", "a", "b", "b", "b", None], genres=["x|y"] * 6, price=[1, 2, 3, 4, 5, None])
    rebuilt = CatalogColumns.build(list(made.names), made.tensors())
    assert rebuilt.names == made.names
    assert all(torch.equal(one, made.tensors()[name]) for name, one in rebuilt.tensors().items())


def test_damaged_columns_are_refused():
    made = read(price=[1, 2, 3, 4, 5, 6])
    with pytest.raises(ArtifactError, match=r"tensor 'columns\.numbers' is missing"):
        CatalogColumns.build([], {})
    with pytest.raises(ArtifactError, match="one row per item"):
        CatalogColumns.build([], made.tensors() | {"columns.codes": torch.zeros(3, 0, dtype=torch.int64)})
    with pytest.raises(ArtifactError, match="one row per item"):
        CatalogColumns.build([], made.tensors() | {"columns.tags": torch.tensor(3)})


@pytest.mark.parametrize(
    "damage",
    [
        {"columns.numbers": torch.full((6, 1), torch.nan)},
        {"columns.numbers": torch.zeros(6, 1, dtype=torch.float64)},
        {"columns.codes": torch.full((6, 1), -1)},
        {"columns.codes": torch.zeros(6, 1)},
        {"columns.tags": torch.full((6, 1), -2)},
    ],
)
def test_impossible_codes_are_refused(damage):
    made = read(kind=["a"] * 6, genres=["x|y"] * 6, price=[1, 2, 3, 4, 5, None])
    with pytest.raises(ArtifactError, match="codes from 0 and tags from -1"):
        CatalogColumns.build(list(made.names), made.tensors() | damage)


def test_timestamps_in_nanoseconds_are_numbers():
    times = pa.array([1_577_836_800_123_456_789 + day * 10**14 for day in range(6)], pa.timestamp("ns"))
    assert bool((read(added=times).numbers.diff(dim=0) > 0).all())


def test_decimals_are_numbers():
    prices = [decimal.Decimal(f"{euros}.99") for euros in range(6)]
    assert bool((read(price=prices).numbers.diff(dim=0) > 0).all())


def test_constant_numbers_are_left_out_despite_rounding():
    many = Catalog(Vocabulary.of([f"i{row}" for row in range(1000)]), pa.table({"same": [0.1] * 1000}))
    assert CatalogColumns.of(many, np.ones(1000, bool)).names == ()


def test_huge_numbers_are_clipped():
    made = read(wild=[1.7e308, -1.7e308, 1e308, float("inf"), 2.0, 3.0])
    assert bool(made.numbers.isfinite().all())


def test_vectors_and_unshared_texts_are_no_tags():
    texts = [f"the story of number {row}" for row in range(5)] + ["a | b"]
    assert read(vector=[[0.5, float(row)] for row in range(6)], story=texts).names == ()
    assert read(only=["story"], story=texts).n_tags == 7
