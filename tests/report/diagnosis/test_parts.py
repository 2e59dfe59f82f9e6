from shortlist.report.diagnosis.parts import calibration, coverage, nominators, segments, verdict
from shortlist.report.diagnosis.shift import shift
from shortlist.report.page import Html
from tests.diagnose.made_up import between, segment, whole


def text(section):
    return " ".join(part.text if isinstance(part, Html) else part for part in section.parts)


def test_the_verdict_says_yes_no_or_cannot_be_told():
    told = whole()
    assert "cannot be told from chance" in text(verdict(told))
    for answer, said in (("helps", "Yes, the stages before"), ("hurts", "No, the stages before")):
        one = {**told["verdict"], "answer": answer}
        assert said in text(verdict({**told, "verdict": one}))


def test_the_verdict_of_a_ranker_that_sees_all_candidates_at_once_says_why_it_is_missing():
    one = {
        **whole()["verdict"],
        "accuracy": None,
        "pointwise": False,
        "why": "its scores depend on the others",
    }
    assert text(verdict(whole(verdict=one))) == "Its scores depend on the others."


def test_a_threshold_is_told_where_there_is_any():
    assert "in less than 40.0% of the requests" in text(verdict(whole()))
    one = {**whole()["verdict"], "threshold": -0.5}
    assert "in less than" not in text(verdict(whole(verdict=one)))


def test_no_gain_and_no_loss_make_no_difference():
    one = {**whole()["verdict"], "gain": between(0.0, 0.0), "loss": between(0.0, 0.0)}
    assert "It makes no difference" in text(verdict(whole(verdict=one)))


def test_nominators_are_missed_harmful_or_not_measurably_missed():
    without = {"a": between(-0.05), "b": between(0.05), "c": between(0.0)}
    told = whole(nominators={name: {"named": 1, "alone": 0, "without": one} for name, one in without.items()})
    said = text(nominators(told))
    places = [
        said.index(word) for word in ("would be missed</td>", "better without it", "not measurably missed")
    ]
    assert places == sorted(places)


def test_segments_name_where_most_is_lost_and_mark_those_with_few_users():
    said = text(segments(whole()))
    assert "rank\u00a0(40.0%)" in said
    assert said.count("(few users)") == 1


def test_the_first_item_is_told_of_users_and_not_of_items():
    told = whole()
    told["segments"][0]["precision_at_1"] = between(0.31)
    users, items = text(segments(told)).split("<tbody>")[1:]
    assert "31.0%" in users
    assert "users: new" in users
    assert "31.0%" not in items
    assert "items: head" in items


def test_what_explains_the_name_of_a_segment_stands_in_brackets():
    told = whole(segments=[segment("recency", "new: fewer than 5 events", 100, 0.1)])
    assert "moment: new (fewer than 5 events)" in text(segments(told))


def test_what_was_not_measured_is_left_out():
    bare = whole(nominators={}, segments=[], shift={}, calibration={}, coverage=None)
    assert [part(bare) for part in (nominators, segments, shift, calibration, coverage)] == [None] * 5


def test_reasons_are_told_once_however_many_rankers_have_them():
    told = whole(shift={"a": {"why": "no record"}, "b": {"why": "no record"}})
    assert text(shift(told)).count("No record.") == 1


def test_slates_that_all_begin_alike_ring_the_alarm():
    one = {**whole()["coverage"], "collapse": True}
    assert "Alarm" in text(coverage(whole(coverage=one)))
    assert "Alarm" not in text(coverage(whole()))
