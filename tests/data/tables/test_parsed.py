import pyarrow as pa
import pytest

from shortlist.data.raw_events import Place
from shortlist.data.tables.parsed import ParsedTable, joined, missing_column
from shortlist.errors import DataError


def part(name, **columns):
    table = pa.table(columns)
    return ParsedTable(table, name, lambda rows: [Place(name, str(row + 1), "") for row in rows])


def test_rows_of_several_files_are_located_in_their_file():
    found = joined([part("a", x=[1, 2]), part("b", x=[3]), part("c", x=[4, 5])])
    assert found.table["x"].to_pylist() == [1, 2, 3, 4, 5]
    assert [found.locate(row) for row in range(5)] == ["a:1", "a:2", "b:1", "c:1", "c:2"]
    assert [place.file for place in found.places([4, 0, 2])] == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (pa.array([1]), pa.array([1.5]), [1.0, 1.5]),
        (pa.array([1], pa.int32()), pa.array([2]), [1, 2]),
        (pa.array(["010"]).dictionary_encode(), pa.array([10]).dictionary_encode(), ["010", "10"]),
        (pa.array([10]), pa.array(["010"]), ["10", "010"]),
    ],
)
def test_files_with_two_types_share_one(one, other, both):
    assert joined([part("a", x=one), part("b", x=other)]).table["x"].to_pylist() == both


def test_files_without_a_common_type_are_refused():
    date = pa.array([0], pa.timestamp("ms"))
    message = r"^b: expected int64 as 't' like in a, got timestamp\[ms\]; use one form in all files$"
    with pytest.raises(DataError, match=message):
        joined([part("a", t=[1]), part("b", t=date)])


def test_a_missing_column_comes_with_the_option_that_names_it():
    def advice(*arguments):
        return str(missing_column("log:1", *arguments)).rpartition("; ")[2]

    assert advice("user", ("uid", "item"), "--user") == "name the column with --user uid"
    assert advice("user", ("a", "b"), "--user") == "name the column with --user COLUMN"
    assert advice("page", ("a", "b"), "--column page=") == "name the column with --column page=COLUMN"
    assert advice("user", ("user", "user"), "--user") == "rename one of them"
    assert advice("user", ("a", "b")) == "map another column"
