import re

import pytest

from shortlist.report.funnel import Funnel, FunnelStage, funnel_figure
from shortlist.report.page import STYLE

STAGES = (
    FunnelStage("pool", "nominator", 300.0, 1000, 700),
    FunnelStage("seen", "filter", 280.0, 700, 700),
    FunnelStage("rank", "scorer", 20.0, 700, 250),
)


def heights(kind, text):
    rects = re.findall(rf'<rect class="{kind}"[^>]*height="([0-9.]+)"', text.split('class="narrow"')[0])
    return [float(height) for height in rects]


def test_stages_stand_from_left_to_right_with_candidates_and_shares():
    text = funnel_figure(Funnel(1000, STAGES, "rank"), "caption", "the largest loss").text
    wide = text.split('class="narrow"')[0]
    places = [wide.index(f">{word}<") for word in ("pool", "seen", "rank")]
    assert places == sorted(places)
    for part in (
        ">300<",
        ">70.0%<",
        ">25.0%<",
        "−30.0%",
        "not nominated",
        "loses none",
        "−45.0%",
        "below the cut",
    ):
        assert part in wide


def test_bars_are_proportional_to_the_relevant_items():
    text = funnel_figure(Funnel(1000, STAGES, "rank"), "caption", "the largest loss").text
    whole, *kept = heights("kept", text)
    assert [height / whole for height in kept] == pytest.approx([0.7, 0.7, 0.25], abs=1e-3)
    assert heights("lost", text) == pytest.approx([0.3 * whole, 0.0])
    assert heights("worst", text) == pytest.approx([0.45 * whole])


def test_names_are_escaped_and_shortened():
    evil = FunnelStage("</svg><script>alert(1)</script>", "nominator", 1.0, 10, 5)
    text = funnel_figure(Funnel(10, (evil,), ""), "<b>", "<i>").text
    assert "<script" not in text
    assert "<b>" not in text


def test_funnel_without_relevant_items_is_drawn():
    empty = Funnel(0, (FunnelStage("pool", "nominator", 0.0, 0, 0),), "")
    assert "nan" not in funnel_figure(empty, "caption", "the largest loss").text.replace("nominated", "")


def test_caption_explains_grey_bars_only_where_they_are_drawn():
    text = funnel_figure(Funnel(1000, STAGES, "rank"), "caption", "the largest loss").text
    assert '<span class="wide">Grey: candidates' in text
    assert ".funnel .wide { display: none; }" in STYLE
    assert "dark at the largest loss." in text
