"""Catalogs: item metadata and its defaults."""

import pyarrow as pa
import pytest

from shortlist.data import Catalog, Vocabulary
from shortlist.data.catalog import as_lists, split_texts
from shortlist.errors import DataError

ITEMS = Vocabulary.of(["x", "y", "z"])


def test_a_missing_title_defaults_to_the_id_and_a_missing_category_is_empty():
    known = Catalog(ITEMS, pa.table({"title": ["Ex", None, ""], "category": ["sea", None, "air"]}))
    assert [known.title(row) for row in range(3)] == ["Ex", "y", "z"]
    assert [known.category(row) for row in range(3)] == ["sea", "", "air"]
    assert known.categories.ids.to_pylist() == ["", "air", "sea"]
    assert known.category_rows.tolist() == [2, 0, 1]


def test_a_bare_catalog_has_ids_and_one_empty_category():
    bare = Catalog.bare(ITEMS)
    assert len(bare) == 3
    assert (bare.title(1), bare.category(1)) == ("y", "")
    assert bare.category_rows.tolist() == [0, 0, 0]


def test_an_integer_id_is_a_title_as_text():
    known = Catalog(Vocabulary.of([7, 8]), pa.table({"other": [1, 2]}))
    assert known.title(0) == "7"
    assert known.categories.ids.to_pylist() == [""]


def test_a_table_of_another_length_is_refused():
    with pytest.raises(DataError, match="expected one row per item, got 2 rows for 3 items"):
        Catalog(ITEMS, pa.table({"title": ["a", "b"]}))


FILMS = pa.table(
    {
        "title": ["M|A|S|H", "Heat", "Up"],
        "category": ["War|Comedy", "Crime", None],
        "year": [1970, 1995, 2009],
        "studio": ["a", "b", None],
    }
)


def test_texts_with_separators_are_lists_but_titles_and_other_columns_stay():
    table = split_texts(FILMS)
    assert table["category"].to_pylist() == [["War", "Comedy"], ["Crime"], None]
    assert table.drop_columns(["category"]).equals(FILMS.drop_columns(["category"]))
    assert split_texts(FILMS, "").equals(FILMS)
    assert split_texts(FILMS, ";").equals(FILMS)


def test_empty_values_of_a_list_are_left_out():
    column = pa.chunked_array([["a||b", " c | ", "", "|", None]])
    assert as_lists(column, "|").to_pylist() == [["a", "b"], ["c"], [], [], None]
    assert as_lists(column).to_pylist() == [["a||b"], ["c |"], [], ["|"], None]


def test_an_item_has_every_category_of_its_list():
    films = Catalog(ITEMS, split_texts(FILMS))
    assert [films.categories_of(row) for row in range(3)] == [("War", "Comedy"), ("Crime",), ()]
    assert films.category(0) == "War, Comedy"
    assert films.categories.ids.to_pylist() == ["", "Comedy", "Crime", "War"]
    assert films.category_lists.tolist() == [[3, 1], [2, -1], [0, -1]]
    assert films.category_rows.tolist() == [3, 2, 0], "the first of each"


def test_lists_of_numbers_nulls_and_repeats_are_categories():
    table = pa.table({"category": [[27, 9, 27], [None], []]})
    numbers = Catalog(ITEMS, table)
    assert [numbers.categories_of(row) for row in range(3)] == [("27", "9"), (), ()]
    assert numbers.category_lists.tolist() == [[1, 2], [0, -1], [0, -1]]


def test_described_items_have_any_metadata():
    assert Catalog.bare(ITEMS).described == 0
    assert Catalog(ITEMS, pa.table({"title": ["a", None, None], "price": [1, 2, None]})).described == 2
