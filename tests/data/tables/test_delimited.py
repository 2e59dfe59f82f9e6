import pytest

from shortlist.data.tables.delimited import check_columns, header_of, read_delimited
from shortlist.data.tables.files import File
from shortlist.data.tables.layout import Layout
from shortlist.errors import ConfigError, DataError

LAYOUT = Layout(("user", "item", "stars"), {"user": "id", "stars": "number"})


def test_only_the_columns_of_the_layout_are_read_with_their_kinds(put):
    kinds = {"i": "id", "x": "text", "n": "integer", "f": "number", "m": "number?"}
    layout = Layout(("i", "skipped", "x", "n", "f", "m"), kinds)
    found = read_delimited(File(put("log.csv", "7,?,8,-3,2,\n7,?,,4,.5,1e2\n")), layout)
    assert found.table.to_pylist() == [
        {"i": "7", "x": "8", "n": -3, "f": 2.0, "m": None},
        {"i": "7", "x": "", "n": 4, "f": 0.5, "m": 100.0},
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("1,2", "expected 3 fields (user,item,stars), got 2"),
        ("1,2,", "expected a number as 'stars', got ''"),
        ("1,2,inf", "expected a number as 'stars', got 'inf'"),
        ("1,2,five", "expected a number as 'stars', got 'five'"),
    ],
)
def test_the_first_bad_line_is_reported_or_skipped(put, line, problem):
    file = File(put("log.csv", f"1,2,3\n\n{line}\n4,5,6\n"))
    with pytest.raises(DataError) as caught:
        read_delimited(file, LAYOUT)
    assert str(caught.value) == (
        f"{file.name}:3: {problem}; fix the line, or skip such lines with --bad-lines skip"
    )
    found = read_delimited(file, LAYOUT, bad_lines="skip")
    assert (found.table["stars"].to_pylist(), found.bad) == ([3.0, 6.0], 1)
    assert [found.locate(row) for row in range(2)] == [f"{file.name}:1", f"{file.name}:4"]


def test_if_every_line_is_bad_all_are_counted(put):
    found = read_delimited(File(put("log.csv", "a\nb\n")), LAYOUT, bad_lines="skip")
    assert (found.table.column_names, len(found), found.bad) == (["user", "stars"], 0, 2)


def test_times_in_two_formats_are_refused_at_the_first_that_differs(put):
    file = File(put("log.csv", "1,2020-01-01\n1,2021-12-31\n1,1577836800\n"))
    message = r"log.csv:3: expected a time written like '2020-01-01', got '1577836800'; use one format$"
    with pytest.raises(DataError, match=message):
        read_delimited(file, Layout(("user", "time"), {"user": "id", "time": "time"}))


def test_a_long_delimiter_and_another_encoding_are_read(put):
    file = File(put("log.dat", "1::Amélie: a::5\n".encode("latin-1")), encoding="latin-1")
    layout = Layout(("user", "title", "stars"), {"title": "text", "stars": "integer"}, "::")
    assert read_delimited(file, layout).table.to_pylist() == [{"title": "Amélie: a", "stars": 5}]


def test_a_file_without_rows_is_refused_at_the_first_row(put):
    layout = Layout(("user",), {"user": "id"}, header=True)
    message = r"log.csv:2: expected at least one row of events, got only a line of column names; add events$"
    with pytest.raises(DataError, match=message):
        read_delimited(File(put("log.csv", "user\n")), layout)


def test_bad_lines_must_be_refuse_or_skip(put):
    with pytest.raises(ConfigError, match=r"^--bad-lines: expected refuse or skip, got 'repair'$"):
        read_delimited(File(put("log.csv", "1,2,3\n")), LAYOUT, bad_lines="repair")


def test_header_names_are_stripped_and_may_be_quoted(put):
    assert header_of(File(put("a.csv", '\ufeffuser, item ,"a, b"\n1,2,3\n'))) == ("user", "item", "a, b")
    assert header_of(File(put("a.dat", 'user::"item\n')), "::") == ("user", '"item')
    with pytest.raises(DataError, match=r"a.csv: is empty; expected a line of column names$"):
        header_of(File(put("a.csv", "")))
    with pytest.raises(
        DataError,
        match=r"a.csv:1: expected utf-8 text, got the byte 0xFF at position 1; if the line reads 'ÿ', use",
    ):
        header_of(File(put("a.csv", b"\xff\n")))


def test_a_column_must_occur_exactly_once(put):
    file = File(put("log.csv", ""))
    check_columns(file, ("user", "item"), {"item": "id"})
    with pytest.raises(
        DataError, match=r"log.csv:1: expected a column 'time', found user, item; map another column$"
    ):
        check_columns(file, ("user", "item"), {"time": "time"})
    with pytest.raises(
        DataError, match=r"log.csv:1: expected a column 'user', found it twice; map another column$"
    ):
        check_columns(file, ("user", "user"), {"user": "id"})
