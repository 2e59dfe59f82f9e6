from shortlist.metrics.estimate import Estimate
from shortlist.report.diagnosis.cells import as_gain, in_percent, in_points, points_text

SHARE = Estimate(0.123, 0.1, 0.15)


def test_numbers_have_their_interval_in_small_print():
    assert in_points(SHARE).text == "12.3<br><small>[10.0, 15.0]</small>"
    assert as_gain(SHARE).text == "+12.3<br><small>[+10.0, +15.0]</small>"
    assert in_percent(SHARE).text == "12.3%<br><small>[10.0%, 15.0%]</small>"
    assert points_text(SHARE) == "12.3 [10.0, 15.0]"


def test_missing_numbers_are_dashes_and_missing_intervals_are_left_out():
    for cell in (in_points, as_gain, in_percent):
        assert cell(Estimate(None)).text == "–"
        assert "[" not in cell(Estimate(0.1)).text
    assert in_points(None).text == "–"
    assert (points_text(Estimate(None)), points_text(Estimate(0.1))) == ("none", "10.0")
