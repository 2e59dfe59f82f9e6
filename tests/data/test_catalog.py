"""Catalogs: item metadata and its defaults."""

import pyarrow as pa
import pytest

from shortlist.data import Catalog, Vocabulary
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
