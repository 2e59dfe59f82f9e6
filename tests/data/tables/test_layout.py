import pytest

from shortlist.data.tables.layout import KINDS, Layout, is_number, is_time


def test_a_valid_line_has_no_problem():
    layout = Layout(("a", "b", "c"), {"c": "integer", "a": "id"})
    assert layout.positions == {"c": 2, "a": 0}
    assert layout.problem(("", "anything", "7")) == ""


def test_a_wrong_number_of_fields_is_reported_with_the_first_eight_names():
    assert Layout(("a", "b"), {}, "::").problem(("1",)) == "expected 2 fields (a::b), got 1"
    many = Layout(tuple("abcdefghij"), {})
    assert many.problem(()) == "expected 10 fields (a,b,c,d,e,f,g,h ...), got 0"


def test_the_first_wrong_field_is_reported_in_forty_characters():
    layout = Layout(("a", "b"), {"b": "number", "a": "integer"})
    assert layout.problem(("x", "y" * 50)) == f"expected a number as 'b', got '{'y' * 40}'"


def test_a_time_must_match_a_given_format():
    layout = Layout(("t",), {"t": "time"}, time_format="%d/%m/%Y")
    assert layout.problem(("31/12/2023",)) == ""
    assert layout.problem(("2023-12-31",)) == "expected a time like %d/%m/%Y as 't', got '2023-12-31'"
    assert layout.problem(("31/02/2023",)) == "expected a time like %d/%m/%Y as 't', got '31/02/2023'"


@pytest.mark.parametrize("text", ["0", "-1", "+1", "1.", ".5", "1e3", "1E-3", " 7 ", "1" * 300])
def test_finite_decimals_are_numbers(text):
    assert is_number(text)
    assert is_time(text)


@pytest.mark.parametrize("text", ["", ".", "nan", "inf", "1e999", "1_0", "0x1", "1,5", "٣", "1 2", "e3"])
def test_python_only_literals_are_no_numbers(text):
    assert not is_number(text)
    assert not is_time(text)


def test_iso_dates_are_times_and_other_dates_are_not():
    for text in ("2023-11-14", " 2023-11-14 22:13:20 ", "2023-11-14T22:13:20Z", "2023-11-14T22:13:20+01:00"):
        assert is_time(text), text
    for text in ("2023-13-01", "14/11/2023", "yesterday"):
        assert not is_time(text), text


@pytest.mark.parametrize(
    ("kind", "fits", "not_"),
    [
        ("integer", ["0", "-9223372036854775808", "+5"], ["", "1.0", "9223372036854775808", "٣"]),
        ("number?", ["", "1.5"], [" ", "nan"]),
        ("list", ["", "1", "-1,2"], [",", "1,", "1, 2", "a"]),
        ("clicks", ["N1-0", "N1-0 N2-1"], ["", "N1", "N1-2", "N1-0  N2-1", "N1-0 "]),
    ],
)
def test_every_kind_accepts_valid_text_only(kind, fits, not_):
    _, accepts = KINDS[kind]
    assert [accepts(text) for text in fits] == [True] * len(fits)
    assert [accepts(text) for text in not_] == [False] * len(not_)
