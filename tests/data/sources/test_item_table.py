"""Item tables beside a log: lists in every format, and a table of other ids is an error."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shortlist.data import load_dataset, save_dataset
from shortlist.data.read import read
from shortlist.errors import DataError

LOG = "user,item,time\n1,B0,1700000000\n2,B1,1700000060\n1,B2,1700000120\n3,B3,1700000180\n"
TITLES = ["One|Two", "b", "c", "d"]
LISTS = [["War", "Comedy"], ["War"], None, ["Drama"]]
ITEMS = pa.table({"item": ["B0", "B1", "B2", "B3"], "title": TITLES, "category": LISTS})


def as_csv(separator="|"):
    rows = [
        f"{row['item']},{row['title']},{separator.join(row['category'] or [])}" for row in ITEMS.to_pylist()
    ]
    return "item,title,category\n" + "\n".join(rows) + "\n"


@pytest.fixture(params=["csv", "jsonl", "mixed.jsonl", "parquet", "arrow", "pandas"])
def items(request, put, tmp_path):
    """The same item table in each form; `mixed` has a text where an item has one category."""
    rows = ITEMS.to_pylist()
    if request.param == "mixed.jsonl":
        rows[1] = {**rows[1], "category": "War"}
    if request.param == "parquet":
        pq.write_table(ITEMS, tmp_path / "items.parquet")
        return tmp_path / "items.parquet"
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    forms = {"arrow": ITEMS, "pandas": ITEMS.to_pandas()}
    texts = {"csv": as_csv(), "jsonl": lines, "mixed.jsonl": lines}
    return (
        forms[request.param]
        if request.param in forms
        else put(f"items.{request.param}", texts[request.param])
    )


def test_categories_are_lists_in_every_form_and_in_the_saved_folder(items, put, tmp_path):
    dataset = read(put("log.csv", LOG), items=items)
    save_dataset(dataset, tmp_path / "data", "test")
    for catalog in (dataset.catalog, load_dataset(tmp_path / "data").catalog):
        assert pa.types.is_list(catalog.table["category"].type)
        assert [catalog.categories_of(row) for row in range(4)] == [tuple(one or ()) for one in LISTS]
        assert catalog.title(0) == "One|Two", "titles are not split"


def test_another_separator_or_none_can_be_chosen(put):
    other = read(put("log.csv", LOG), items=put("items.csv", as_csv("; ")), list_separator=";")
    assert other.catalog.categories_of(0) == ("War", "Comedy")
    whole = read(put("log.csv", LOG), items=put("items.csv", as_csv()), list_separator="")
    assert whole.catalog.categories_of(0) == ("War|Comedy",)


def test_item_table_of_other_ids_is_an_error_with_examples_and_the_option(put):
    items = put("films.csv", "number,title,sku\n1,One,B0\n2,Two,B1\n")
    with pytest.raises(DataError) as error:
        read(put("log.csv", LOG), items=items, columns={"item.id": "number"})
    assert str(error.value) == (
        f"{items}: none of its 2 ids 'number' is an item id of the log; ids of the log: 'B0', 'B1', 'B2', ids of the "
        "file: '1', '2'; name the column of ids with --column item.id=NAME (other columns: title, sku)"
    )
    assert read(put("log.csv", LOG), items=items, columns={"item.id": "sku"}).catalog.described == 2


def test_user_table_of_other_ids_is_an_error(put):
    with pytest.raises(DataError, match=r"people.csv: none of its 1 ids 'user' is a user id of the log"):
        read(put("log.csv", LOG), users=put("people.csv", "user,age\nx,30\n"))


def test_lists_of_numbers_stay_numbers(put):
    rows = [{"item": f"B{row}", "vector": [0.5, row]} for row in range(4)]
    items = put("items.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    table = read(put("log.csv", LOG), items=items, columns={"item.vector": "vector"}).catalog.table
    assert table["vector"].to_pylist() == [[0.5, row] for row in range(4)]
    assert pa.types.is_floating(table["vector"].type.value_type)
