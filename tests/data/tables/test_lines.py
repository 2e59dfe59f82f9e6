import io

import pytest

from shortlist.data.raw_events import Place
from shortlist.data.tables.files import File
from shortlist.data.tables.layout import Layout
from shortlist.data.tables.lines import (
    LONGEST,
    Lines,
    Record,
    parse_error,
    places_of,
    records,
    split_records,
)

TWO = Layout(("a", "b"), {"a": "id", "b": "number"}, quoted=True)
GOOD, BAD = Record(1, b"1,2\r\n", ("1", "2"), ""), Record(2, b"x\n", ("x",), "expected more")


def seen(put, blob, layout=TWO):
    return [(one.line, one.fields, one.problem) for one in records(File(put("log.csv", blob)), layout)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_numbered_from_one_for_every_line_ending(put, end):
    text = end.join(["\ufeffa,b", "", "1,2", "3,4"])
    layout = Layout(("a", "b"), {}, header=True)
    assert seen(put, text, layout) == [(3, ("1", "2"), ""), (4, ("3", "4"), "")]


def test_a_quoted_record_may_span_lines(put):
    assert seen(put, '"a\n""b""\n",2\n3,4\n') == [(1, ('a\n"b"\n', "2"), ""), (4, ("3", "4"), "")]


def test_a_quote_that_never_closes_makes_one_line_bad(put):
    unclosed = "expected closed quotes, got an open one"
    assert seen(put, '"1,2\n3,4\n5,6\n') == [(1, (), unclosed), (2, ("3", "4"), ""), (3, ("5", "6"), "")]


def test_a_quote_that_closes_too_late_counts_as_never_closed(put):
    for further, problems in ((LONGEST, 0), (LONGEST + 1, 2)):
        found = seen(put, '"1' + "\n" * further + '",2\n')
        assert [bool(problem) for *_, problem in found].count(True) == problems, further


def test_bytes_of_another_encoding_are_a_problem_of_their_line(put):
    assert seen(put, b"1,2\n\xff,3\n")[1] == (2, (), "expected utf-8 text, got the byte 0xFF at position 1")


def test_pushed_back_lines_are_read_again_in_order():
    lines = Lines(io.BytesIO(b"a\nb\nc\n"))
    taken = [next(lines), next(lines)]
    lines.push_back(taken)
    assert list(lines) == [(1, b"a\n"), (2, b"b\n"), (3, b"c\n")]


def test_valid_records_are_split_from_bad_ones_and_located_by_row():
    last = Record(4, b"5,6", ("5", "6"), "")
    assert split_records([GOOD, BAD, last]) == (b"1,2\n5,6\n", [BAD])
    assert places_of("f", [GOOD, BAD, last], [1, 0]) == [Place("f", "4", "5,6"), Place("f", "1", "1,2")]


def test_a_parse_error_names_the_first_bad_line_then_the_odd_one_then_only_the_file():
    cut = Record(2, b"x", ("x",), "expected more")
    odd = Record(3, b"1,2020-01-01\n", ("1", "2020-01-01"), "")
    assert str(parse_error("f", [GOOD, odd, BAD], "?", same_form=1)) == (
        "f:2: expected more; fix the line, or skip such lines with --bad-lines skip"
    )
    assert str(parse_error("f", [GOOD, cut], "?")) == (
        "f:2: expected more; the file seems truncated in its last line, download it again"
    )
    assert str(parse_error("f", [GOOD, odd], "?", same_form=1)) == (
        "f:3: expected a time written like '2', got '2020-01-01'; use one format"
    )
    assert str(parse_error("f", [GOOD, odd], "is odd\nin many words")) == "f: is odd; check the file"
