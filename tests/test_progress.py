"""Progress is reported before the first step and after each."""

from shortlist.progress import silent, tracked


def test_progress_is_reported_before_the_first_step_and_after_each():
    log = []
    for step in tracked(["a", "b"], "spelling", lambda *report: log.append(report)):
        log.append(step)
    assert log == [("spelling", 0, 2), "a", ("spelling", 1, 2), "b", ("spelling", 2, 2)]


def test_empty_sequence_reports_zero_of_zero():
    log = []
    assert list(tracked([], "resting", lambda *report: log.append(report))) == []
    assert log == [("resting", 0, 0)]


def test_silent_progress_yields_the_same_steps():
    assert list(tracked(range(3), "counting", silent)) == [0, 1, 2]


def test_stopping_early_ends_the_reports():
    log = []
    for step in tracked("abc", "spelling", lambda *report: log.append(report[1])):
        if step == "b":
            break
    assert log == [0, 1]
