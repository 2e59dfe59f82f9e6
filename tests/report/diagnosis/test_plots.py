import pytest

from shortlist.report.diagnosis.plots import dots, gains, histograms, reliability, waterfall
from tests.diagnose.made_up import BINS, between, made_up

STAGES = made_up()["stages"]
BARE = {"mean": 0.1, "low": None, "high": None}


@pytest.mark.parametrize(
    "draw",
    [
        lambda: waterfall(STAGES, 1000, "rank"),
        lambda: gains(STAGES, "rank"),
        lambda: dots([("a", between(0.1)), ("b", BARE), ("c", BARE | {"mean": None})], "share", 0.12),
        lambda: histograms(
            {name: [{"events": "0", "training": 0.4, "serving": 1.0}] for name in ("a", "$b$")}
        ),
        lambda: reliability({"rank": BINS, "first": BINS}, "says"),
    ],
)
def test_a_drawing_is_svg_and_the_same_every_time(draw):
    first = draw()
    assert first.startswith("<svg")
    assert first == draw()


def test_the_biggest_loss_has_another_colour():
    assert waterfall(STAGES, 1000, "rank") != waterfall(STAGES, 1000, "")
    assert gains(STAGES, "rank") != gains(STAGES, "pool")


def test_a_stage_without_an_oracle_is_drawn_as_a_gain_of_nothing():
    bare = [{**STAGES[0], "what_if": {**STAGES[0]["what_if"], "oracle": None}}]
    assert gains(bare, "").startswith("<svg")


def test_odds_below_a_hundredth_keep_their_marks():
    tiny = [{"confidence": 0.0004 * at, "accuracy": 0.0003 * at, "count": 5} for at in range(1, 9)]
    assert reliability({"rank": tiny}, "says").startswith("<svg")
