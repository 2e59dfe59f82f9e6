"""Threshold curves of trained vectors."""

from shortlist.lab.experiments.two_time_scale.threshold_fit import two_time_scale_threshold
from shortlist.lab.experiments.two_time_scale.threshold_rows import LOSS


def test_curves_are_measured_once_and_drawn(tmp_path):
    path = tmp_path / "cache.st"
    result = two_time_scale_threshold(None, "quick", (0,), cache_file=path)
    points = [one for one in result.rows if one.metric == LOSS]
    assert {one.method for one in points} >= {"recurrence on world-tiny", "mean vector on world-tiny"}
    assert all(one.x is not None for one in points)
    again = two_time_scale_threshold(None, "quick", (0,), cache_file=path)
    assert again.rows == result.rows
    assert again.claims == result.claims
