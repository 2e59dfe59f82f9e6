import re
from html.parser import HTMLParser

import pytest

from shortlist.report.page import Html, Section, facts, figure, page, table

EVIL = "<script>alert('x')</script> & \"quotes\""


class Balance(HTMLParser):
    """Checks that what is opened is closed."""

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


def test_the_page_asks_nothing_of_the_network():
    assert not re.search(r"https?://|src=|@import|url\(", whole())


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1234567, "1,234,567"), (0.123456, "0.1235"), (12345.6, "12,346"), (None, "–"), (True, "True")],
)
def test_numbers_are_told_shortly(value, shown):
    assert f"<dd>{shown}</dd>" in facts({"a": value}).text


def test_columns_of_numbers_stand_to_the_right():
    text = table(("name", "count"), [("a", 1), ("b", 2)]).text
    assert '<th class="number">count</th>' in text
    assert '<td class="number">2</td>' in text
    assert "<td>a</td>" in text


def test_html_in_a_cell_is_left_as_it_is():
    assert "<td><b>x</b></td>" in table(("a",), [(Html("<b>x</b>"),)]).text
