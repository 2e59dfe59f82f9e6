import xml.etree.ElementTree as ET

from shortlist.report.plots import bars, funnel, histogram, whiskers


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


def test_whiskers_show_every_series_and_group():
    drawn = whiskers(
        ["a", "b"], {"one": [(1.0, 0.5, 1.5), (2.0, 1.5, 2.5)], "two": [(1.0, 1.0, 1.0)] * 2}, "value"
    )
    assert drawn.startswith("<svg")
    assert drawn == whiskers(
        ["a", "b"], {"one": [(1.0, 0.5, 1.5), (2.0, 1.5, 2.5)], "two": [(1.0, 1.0, 1.0)] * 2}, "value"
    )


def test_a_funnel_draws_a_bar_pair_per_stage():
    few, many = (
        funnel([(f"s{n}", 10.0 / (n + 1), 0.5) for n in range(count)], ("left", "right")) for count in (1, 4)
    )
    assert few.startswith("<svg")
    assert many.count("<path") > few.count("<path")
