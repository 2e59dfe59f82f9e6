import xml.etree.ElementTree as ET

from shortlist.report.plots import (
    COLORS,
    DARK,
    _spaced,
    bars,
    canvas,
    histogram,
    lines,
    literal,
    panels,
    whiskers,
)


def test_same_numbers_give_the_same_bytes():
    steps = [("1", 3), ("2–3", 5)]
    assert histogram(steps, "events", "users") == histogram(steps, "events", "users")
    assert bars(steps, "events") == bars(steps, "events")


def test_plot_is_svg_without_a_date():
    text = histogram([("1", 3)], "events")
    assert ET.fromstring(text).tag.endswith("svg")
    assert "dc:date" not in text


def test_special_characters_and_empty_data_are_plotted():
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


def test_error_bars_are_drawn_where_given():
    named = [("a", 1.0), ("b", 2.0)]
    assert bars(named, "x", [0.0, 0.0]) == bars(named, "x")
    assert DARK in bars(named, "x", [0.1, 0.2])
    assert DARK not in bars(named, "x")


def test_lines_of_one_family_share_a_colour():
    points = [(2.0, 1.0, 0.0), (4.0, 2.0, 0.0)]
    drawn = lines({"a, one": points, "a, two": points, "b": points}, ("x", "y"))
    colours = [colour for colour in ("#2f6f8f", "#c2703d", "#6a8f3a") if colour in drawn]
    assert colours == ["#2f6f8f", "#c2703d"]


def test_legend_of_many_lines_is_beside_the_plot():
    far = [(place, 1.0, 0.0) for place in (2.0, 8.0, 32.0)]
    wide = lines({f"{n}": far for n in range(9)}, ("x", "y"))
    assert float(ET.fromstring(wide).attrib["width"].removesuffix("pt")) > float(
        ET.fromstring(lines({"a": far}, ("x", "y"))).attrib["width"].removesuffix("pt")
    )


def test_few_distant_places_get_ticks_on_a_logarithmic_axis():
    _, axes = canvas(4.0, 3.0)
    for places, scale in (
        ((2.0, 8.0, 32.0), "log"),
        ((2.0, 3.0), "linear"),
        ((0.0, 50.0), "linear"),
        ((0.0, 1.0, 8.0), "symlog"),
    ):
        axes.set_xscale("linear")
        _spaced(axes, places)
        assert axes.get_xscale() == scale
        assert list(axes.get_xticks()) == list(places)


def test_path_joins_points_in_the_given_order():
    points = {"ann": [(3.0, 0.1, 0.0), (1.0, 0.2, 0.0), (10.0, 0.3, 0.0)]}
    assert lines(points, ("time", "recall"), path=True) != lines(points, ("time", "recall"))
    reversed_points = {"ann": points["ann"][::-1]}
    assert lines(reversed_points, ("time", "recall")) == lines(points, ("time", "recall"))


def test_control_characters_in_a_name_are_drawn_as_escapes():
    assert literal("a\x1b[31m$b") == r"a\x1b[31m\$b"
    assert "<svg" in bars([("a\x1b[31m", 1.0)], "share")


def test_panels_have_a_plot_for_each_group_and_one_legend():
    groups = {
        "wide": {"a": [(0.0, 1.0, 0.0), (1.0, 2.0, 0.5)], "b": [(0.0, 2.0, 0.0)]},
        "tight": {"a": [(0.0, 3.0, 0.0)]},
        "x": {},
    }
    drawn = panels(groups, ("round", "utility"))
    assert drawn == panels(groups, ("round", "utility"))
    assert drawn.count('id="axes_') == 4  # the last one is empty and has no axes
    assert drawn.count('id="legend_') == 1
    assert drawn.count('id="FillBetween') + drawn.count('id="PolyCollection') == 1  # the band of one line


def test_a_line_of_one_point_is_a_marker_and_one_group_has_the_whole_width() -> None:
    two = [(0.0, 2.0, 0.0), (1.0, 1.0, 0.0)]
    point = panels({"wide": {"a": two[:1], "b": two}}, ("x", "y"))
    line = panels({"wide": {"a": two, "b": two}}, ("x", "y"))
    assert point.count('id="axes_') == line.count('id="axes_') == 1
    assert point.count("<use ") == line.count("<use ") + 2  # in the plot and in the legend


def test_lines_of_more_names_than_colours_differ_in_style() -> None:
    points = [(1.0, 1.0, 0.0), (2.0, 2.0, 0.0)]
    count = len(COLORS)
    last = lines({f"name {number}": points for number in range(count + 1)}, ("x", "y"))
    assert "stroke-dasharray" in last
    assert "stroke-dasharray" not in lines({f"name {number}": points for number in range(count)}, ("x", "y"))
