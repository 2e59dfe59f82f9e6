from shortlist.diagnose.findings.text import (
    counted,
    falls,
    listed,
    percent,
    points,
    rises,
    unbroken,
    with_interval,
)
from shortlist.metrics.estimate import Estimate


def test_shares_are_written_in_percent_with_their_interval():
    assert percent(0.1234) == "12.3%"
    assert percent(None) == "–"
    assert with_interval(Estimate(0.15, 0.14, 0.16)) == "15.0% [14.0%, 16.0%]"
    assert with_interval(Estimate(0.15)) == "15.0%"
    assert with_interval(Estimate(None)) == "–"


def test_changes_are_written_in_points_with_a_sign():
    assert points(Estimate(0.021, -0.001, 0.031)) == "+2.1 points [-0.1, +3.1]"
    assert points(Estimate(-0.00001)) == "0.0 points"
    assert points(Estimate(None)) == "no number"


def test_change_is_significant_only_if_its_whole_interval_lies_on_one_side():
    assert rises(Estimate(0.05, 0.001, 0.1))
    assert not rises(Estimate(0.05, 0.0, 0.1))
    assert falls(Estimate(-0.05, -0.1, -0.001))
    assert not falls(Estimate(-0.05, -0.1, 0.0))
    assert not rises(Estimate(0.1))
    assert not falls(Estimate(-0.1))


def test_counts_agree_with_their_noun():
    assert counted(1, "user") == "1 user"
    assert counted(2000, "user") == "2,000 users"
    assert counted(0, "item is", "items are") == "0 items are"


def test_names_are_listed_as_in_a_sentence():
    assert listed(["a"]) == "'a'"
    assert listed(["a", "b", "c"]) == "'a', 'b' and 'c'"


def test_unbroken_text_has_no_plain_spaces():
    assert unbroken("1.0% [0.5%, 1.5%]").split(" ") == ["1.0%\u00a0[0.5%,\u00a01.5%]"]
