from dataclasses import replace

from shortlist.diagnose.nominators.text import brings, gains, limits, milliseconds, refilled
from shortlist.metrics.estimate import Estimate
from tests.diagnose.example import between, split, value

VALUE = value(0.1, 0.05, 0.003, 0.0)


def test_sentence_has_the_cost_the_recall_and_its_interval():
    expected = "'covisit' costs 4.0 ms and brings 0.3 points of recall that nobody else brings [0.1, 0.5]"
    assert brings("covisit", VALUE) == expected
    free = replace(VALUE, cost=None, found=replace(VALUE.found, leave_one_out=Estimate(0.003)))
    assert brings("covisit", free) == "'covisit' brings 0.3 points of recall that nobody else brings"
    unknown = replace(VALUE, found=replace(VALUE.found, leave_one_out=Estimate(None)))
    assert brings("covisit", unknown) == "'covisit' costs 4.0 ms and finds nothing that could be measured"


def test_change_without_a_nominator_is_the_negative_of_what_is_lost():
    lost = replace(VALUE, found=replace(VALUE.found, refilled=between(0.02, 0.01)))
    assert refilled(lost).endswith("changes by -2.0 points [-3.0, -1.0]")
    assert refilled(VALUE).endswith("changes by 0.0 points [-0.2, +0.2] (not significant)")
    assert "was not measured" in refilled(replace(VALUE, found=replace(VALUE.found, refilled=None)))


def test_split_names_what_changes_and_both_gains():
    advice = split(0.02, -0.01)
    assert limits(advice) == "popular 40 -> 5, covisit 200 -> 220"
    assert limits(split(0.02, 0.0, popular=40)) == "covisit 200 -> 220"
    assert gains(advice) == (
        "+2.0 points [+1.0, +3.0] of pool recall and -1.0 points [-2.0, 0.0] of the recall of slates on 200 users it "
        "was not learned on, with 231 candidates per request instead of 230"
    )


def test_short_times_have_two_decimals():
    assert [milliseconds(one) for one in (4.04, 0.1, 0.034)] == ["4.0 ms", "0.1 ms", "0.03 ms"]
