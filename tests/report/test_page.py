import re
from html.parser import HTMLParser

import pytest

from shortlist.metrics.estimate import Estimate
from shortlist.metrics.significance import Interval, PairedTest
from shortlist.report.page import Html, Section, code, difference, facts, figure, interval, page, table

EVIL = "<script>alert('x')</script> & \"quotes\""


class Balance(HTMLParser):
    """Checks that every tag is closed."""

    void = frozenset({"meta"})

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def whole():
    parts = [EVIL, table((EVIL,), [(EVIL,)]), facts({EVIL: EVIL}), figure("<svg></svg>", EVIL)]
    return page(EVIL, [Section(EVIL, parts)])


def test_every_text_is_escaped_and_every_tag_is_closed():
    parser = Balance()
    parser.feed(whole())
    assert parser.open == []
    assert "script" not in parser.seen


def test_page_needs_no_network():
    assert not re.search(r"https?://|src=|@import|url\(", whole())


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (float("nan"), "–"),
        (1234567, "1,234,567"),
        (0.123456, "0.1235"),
        (12345.6, "12,346"),
        (None, "–"),
        (True, "True"),
    ],
)
def test_numbers_are_formatted(value, shown):
    assert f"<dd>{shown}</dd>" in facts({"a": value}).text


def test_columns_of_numbers_are_aligned_right():
    text = table(("name", "count"), [("a", 1), ("b", 2)]).text
    assert '<th class="number">count</th>' in text
    assert '<td class="number">2</td>' in text
    assert "<td>a</td>" in text


def test_html_in_a_cell_is_not_escaped():
    assert "<td><b>x</b></td>" in table(("a",), [(Html("<b>x</b>"),)]).text


def test_means_are_shown_with_their_intervals():
    assert interval(Interval(0.12345, 0.1, 0.2)) == "0.1235 [0.1000, 0.2000]"
    assert interval(Interval(float("nan"), float("nan"), float("nan"))) == "–"
    assert interval(Estimate(0.5)) == "0.5000"
    assert interval(Estimate(None)) == "–"
    assert difference(PairedTest(-0.1, -0.2, 0.05, 0.3, 0.1, 1, 2, 3)) == "-0.1000 [-0.2000, 0.0500]"


def test_controls_and_changes_of_direction_are_shown_as_escapes():
    evil = "a\u202etxt.exe\x1b[2J"
    parts = [evil, table((evil,), [(evil,)]), facts({evil: evil}), figure("<svg></svg>", evil), code(evil)]
    text = page(evil, [Section(evil, parts)])
    assert not re.search("[\u202e\x1b]", text)
    assert text.count("\\u202etxt.exe\\x1b[2J") == 10
    assert code("a\nb").text == "<pre>a\nb</pre>"
