from dataclasses import replace

import pytest

from shortlist.diagnose.calibration import Bin
from shortlist.diagnose.shift import PopularityBar
from shortlist.report.diagnosis.plots import dots, gains, histograms, reliability, waterfall
from tests.diagnose.example import BINS, NO_INTERVAL, NO_NUMBER, between, stages

STAGES = stages()


@pytest.mark.parametrize(
    "draw",
    [
        lambda: waterfall(STAGES, 1000, "rank"),
        lambda: gains(STAGES, "rank"),
        lambda: dots([("a", between(0.1)), ("b", NO_INTERVAL), ("c", NO_NUMBER)], "recall", 0.12),
        lambda: histograms({name: [PopularityBar("0", 0.4, 1.0)] for name in ("a", "$b$")}),
        lambda: reliability({"rank": BINS, "first": BINS}, "confidence"),
    ],
)
def test_plots_are_svg_and_deterministic(draw):
    first = draw()
    assert first.startswith("<svg")
    assert first == draw()


def test_largest_loss_has_another_colour():
    assert waterfall(STAGES, 1000, "rank") != waterfall(STAGES, 1000, "")
    assert gains(STAGES, "rank") != gains(STAGES, "pool")


def test_stage_without_an_oracle_is_drawn_with_a_gain_of_0():
    bare = replace(STAGES[0], what_if=replace(STAGES[0].what_if, oracle=None))
    assert gains([bare], "").startswith("<svg")


def test_probabilities_below_a_percent_keep_their_ticks():
    tiny = [Bin(0.0004 * at, 0.0003 * at, 5) for at in range(1, 9)]
    assert reliability({"rank": tiny}, "confidence").startswith("<svg")
