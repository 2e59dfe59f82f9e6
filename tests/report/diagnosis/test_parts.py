from dataclasses import replace

from shortlist.diagnose.not_measured import NotMeasured
from shortlist.report.diagnosis.nominators import nominators
from shortlist.report.diagnosis.parts import calibration, coverage, segments, verdict
from shortlist.report.diagnosis.shift import shift
from shortlist.report.page import Html
from tests.diagnose.example import COVERAGE, VERDICT, between, full_diagnosis, segment


def text(section):
    return " ".join(part.text if isinstance(part, Html) else part for part in section.parts)


def test_verdict_is_yes_no_or_undecided():
    assert "Undecided" in text(verdict(full_diagnosis()))
    for answer, expected in (("helps", "Yes, the stages before"), ("hurts", "No, the stages before")):
        assert expected in text(verdict(full_diagnosis(verdict=replace(VERDICT, answer=answer))))


def test_verdict_that_was_not_measured_says_why():
    missing = NotMeasured("its scores depend on the others")
    assert text(verdict(full_diagnosis(verdict=missing))) == "Its scores depend on the others."


def test_threshold_is_shown_where_it_is_above_0():
    assert "as long as fewer than 40.0% of the requests" in text(verdict(full_diagnosis()))
    below = full_diagnosis(verdict=replace(VERDICT, threshold=-0.5))
    assert "as long as" not in text(verdict(below))


def test_no_gain_and_no_loss_are_no_difference():
    same = replace(VERDICT, gain=between(0.0, 0.0), loss=between(0.0, 0.0))
    assert "No difference" in text(verdict(full_diagnosis(verdict=same)))


def test_segments_show_the_stage_that_loses_most_and_mark_few_users():
    shown = text(segments(full_diagnosis()))
    assert "rank\u00a0(40.0%)" in shown
    assert shown.count("(few users)") == 1


def test_precision_at_1_is_shown_for_segments_of_users_only():
    first, *rest = full_diagnosis().segments
    found = full_diagnosis(segments=(replace(first, precision_at_1=between(0.31)), *rest))
    users, items = text(segments(found)).split("<tbody>")[1:]
    assert "31.0%" in users
    assert "users: new" in users
    assert "31.0%" not in items
    assert "items: head" in items


def test_explanation_in_the_name_of_a_segment_is_in_brackets():
    found = full_diagnosis(segments=(segment("items", "new: fewer than 5 events", 100, 0.1),))
    assert "items: new (fewer than 5 events)" in text(segments(found))


def test_parts_without_numbers_are_left_out():
    bare = full_diagnosis(nominators={}, segments=(), shift={}, calibration={})
    assert [part(bare) for part in (nominators, segments, shift, calibration)] == [None] * 4


def test_reasons_are_shown_once():
    found = full_diagnosis(shift={"a": NotMeasured("no record"), "b": NotMeasured("no record")})
    assert text(shift(found)).count("No record.") == 1


def test_collapse_is_an_alarm():
    assert "Alarm" in text(coverage(full_diagnosis(coverage=replace(COVERAGE, collapse=True))))
    assert "Alarm" not in text(coverage(full_diagnosis()))
