"""Catalogues: what is known of an item, and what stands in where nothing is."""

import pyarrow as pa
import pytest

from shortlist.data import Catalog, Vocabulary
from shortlist.errors import DataError

ITEMS = Vocabulary.of(["x", "y", "z"])


def test_an_item_without_a_title_is_called_by_its_id_and_one_without_a_category_has_none():
    known = Catalog(ITEMS, pa.table({"title": ["Ex", None, ""], "category": ["sea", None, "air"]}))
    assert [known.title(row) for row in range(3)] == ["Ex", "y", "z"]
    assert [known.category(row) for row in range(3)] == ["sea", "", "air"]
    assert known.categories.ids.to_pylist() == ["", "air", "sea"]
    assert known.category_rows.tolist() == [2, 0, 1]


def test_a_bare_catalogue_knows_the_ids_and_one_nameless_category():
    bare = Catalog.bare(ITEMS)
    assert len(bare) == 3
    assert (bare.title(1), bare.category(1)) == ("y", "")
    assert bare.category_rows.tolist() == [0, 0, 0]


def test_numbers_as_ids_and_categories_are_spoken_as_text():
    known = Catalog(Vocabulary.of([7, 8]), pa.table({"other": [1, 2]}))
    assert known.title(0) == "7"
    assert known.categories.ids.to_pylist() == [""]


def test_a_table_of_another_length_is_refused():
    with pytest.raises(DataError, match="3 items but 2 described"):
        Catalog(ITEMS, pa.table({"title": ["a", "b"]}))
