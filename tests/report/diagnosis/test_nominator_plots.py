from dataclasses import replace

from shortlist.metrics.estimate import Estimate
from shortlist.report.diagnosis.nominator_plots import reveal_scatter, share_bars
from tests.diagnose.example import NOMINATION

VALUES = NOMINATION.nominators


def test_plots_are_deterministic_and_change_with_the_numbers():
    for draw in (share_bars, reveal_scatter):
        assert draw(VALUES).startswith("<svg")
        assert draw(VALUES) == draw(VALUES)
        assert draw(dict(reversed(VALUES.items()))) != draw(VALUES)


def test_missing_numbers_are_left_out():
    popular = VALUES["popular"]
    shares = replace(popular.found, refilled=None, leave_one_out=Estimate(None))
    bare = {"$x$": replace(popular, found=shares)}
    assert share_bars(bare).startswith("<svg")
    assert reveal_scatter(bare).startswith("<svg")
    assert share_bars(bare) != share_bars({"$x$": popular})
