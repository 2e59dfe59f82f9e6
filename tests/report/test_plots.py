import xml.etree.ElementTree as ET

from shortlist.report.plots import bars, histogram


def test_the_same_numbers_give_the_same_bytes():
    steps = [("1", 3), ("2–3", 5)]
    assert histogram(steps, "events", "users") == histogram(steps, "events", "users")
    assert bars(steps, "events") == bars(steps, "events")


def test_a_drawing_is_svg_without_a_date():
    text = histogram([("1", 3)], "events")
    assert ET.fromstring(text).tag.endswith("svg")
    assert "dc:date" not in text


def test_odd_names_and_no_names_can_be_drawn():
    for named in ([], [("$100_ {x}", 1), ("a" * 80, 2), ("<b> & 'c'", 3)]):
        assert ET.fromstring(bars(named, "events")).tag.endswith("svg")
