from shortlist.report.diagnosis.frontier import frontier_drawing


def setting(label, ms, mean, low=None, high=None, changes=()):
    return {
        "label": label,
        "p95_ms": ms,
        "recall": {"mean": mean, "low": low, "high": high},
        "gain": {"mean": 0.0, "low": None if low is None else -0.01, "high": None if low is None else 0.01},
        "changes": list(changes),
    }


def told(**changes):
    settings = [
        setting("as it is", 5.0, 0.2, 0.1, 0.3),
        setting("a", 9.0, 0.3, 0.2, 0.4, ["x"]),
        setting("b", 7.0, 0.1),
    ]
    given = {"frontier": ["as it is", "a"], "present": "as it is", "best": "a", "advised": "a"}
    return {"settings": settings, "metric": "recall", "budget_ms": 8.0, **given, **changes}


def test_the_same_numbers_give_the_same_bytes():
    assert frontier_drawing(told()) == frontier_drawing(told())
    assert frontier_drawing(told()).startswith("<svg")


def test_everything_that_is_told_changes_the_drawing():
    usual = frontier_drawing(told())
    for change in (
        {"budget_ms": 6.0},
        {"budget_ms": 4000.0},
        {"budget_ms": 0.01},
        {"advised": None, "best": None},
        {"frontier": ["as it is"]},
        {"settings": told()["settings"][:2]},
    ):
        assert frontier_drawing(told(**change)) != usual, change


def test_a_budget_far_away_does_not_squeeze_the_points():
    far = frontier_drawing(told(budget_ms=4000.0))
    farther = frontier_drawing(told(budget_ms=9000.0))
    # The axis is the same; only the words of the legend differ.
    assert far.count("<use") == farther.count("<use")


def test_settings_without_a_number_are_drawn_at_nothing():
    settings = [setting("as it is", 5.0, None), setting("a", 90.0, None)]
    assert "<svg" in frontier_drawing(told(settings=settings))
