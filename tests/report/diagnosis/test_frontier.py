from dataclasses import replace

from shortlist.diagnose.knobs.budget import BudgetReport, SettingReport, SizeChange
from shortlist.diagnose.knobs.stage_times import Times
from shortlist.metrics.estimate import Estimate
from shortlist.report.diagnosis.frontier import frontier_drawing

CHANGE = SizeChange("x", "cut", 4, 8)


def setting(label, ms, mean, interval=False, changes=()):
    recall = Estimate(mean, mean - 0.1, mean + 0.1) if interval else Estimate(mean)
    gain = Estimate(0.0, -0.01, 0.01) if interval else Estimate(0.0)
    times = Times(ms, ms, 60, ())
    return SettingReport(label, changes, "", "", times, recall, recall, gain, None, True, False)


def report(**changes):
    settings = (
        setting("current", 5.0, 0.2, True),
        setting("a", 9.0, 0.3, True, (CHANGE,)),
        setting("b", 7.0, 0.1),
    )
    whole = BudgetReport(
        budget_ms=8.0,
        metric="recall",
        k=10,
        users=100,
        requests=100,
        status="some",
        current="current",
        best="a",
        advised="a",
        fastest="current",
        frontier=("current", "a"),
        settings=settings,
        left_out=0,
        busy=False,
    )
    return replace(whole, **changes)


def test_plot_is_deterministic():
    assert frontier_drawing(report()) == frontier_drawing(report())
    assert frontier_drawing(report()).startswith("<svg")


def test_every_part_of_the_report_changes_the_plot():
    usual = frontier_drawing(report())
    for changes in (
        {"budget_ms": 6.0},
        {"budget_ms": 4000.0},
        {"budget_ms": 0.01},
        {"advised": None, "best": None},
        {"frontier": ("current",)},
        {"settings": report().settings[:2]},
    ):
        assert frontier_drawing(report(**changes)) != usual, changes


def test_budget_far_away_does_not_squeeze_the_points():
    far = frontier_drawing(report(budget_ms=4000.0))
    farther = frontier_drawing(report(budget_ms=9000.0))
    # The axis is the same; only the legend differs.
    assert far.count("<use") == farther.count("<use")


def test_settings_without_a_number_are_drawn_at_0():
    settings = (setting("current", 5.0, None), setting("a", 90.0, None))
    assert "<svg" in frontier_drawing(report(settings=settings))
