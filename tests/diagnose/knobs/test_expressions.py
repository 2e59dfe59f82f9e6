import pytest

from shortlist.diagnose.knobs.expressions import (
    first_step,
    renamed,
    sizes_of,
    with_nominator,
    with_size,
    without_stage,
)

FUNNEL = """
popular % 50 + towers % 200
>> seen >> prerank % 200
>> rank % 60 >> diverse % 10
"""


def test_sizes_are_read_and_changed_one_at_a_time():
    assert sizes_of(FUNNEL) == {"popular": 50, "towers": 200, "prerank": 200, "rank": 60, "diverse": 10}
    wider = with_size(FUNNEL, "prerank", 400)
    assert sizes_of(wider) == {**sizes_of(FUNNEL), "prerank": 400}
    assert sizes_of("Optional(a % 3) + b >> Within(c, ms=30) % 5") == {"a": 3, "c": 5}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a % 3", "a % 3 + ease % 5"),
        ("a % 3 + b >> c", "a % 3 + b + ease % 5 >> c"),
        ("(a % 3 + b) % 100 >> c", "(a % 3 + b + ease % 5) % 100 >> c"),
    ],
)
def test_new_nominator_is_the_last_of_its_pool(expression, expected):
    assert with_nominator(expression, "ease", 5) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("popular", "towers % 200 >> seen >> prerank % 200 >> rank % 60 >> diverse % 10"),
        ("prerank", "popular % 50 + towers % 200 >> seen >> rank % 60 >> diverse % 10"),
        ("diverse", "popular % 50 + towers % 200 >> seen >> prerank % 200 >> rank % 10"),
    ],
)
def test_without_a_stage_slates_keep_their_size(name, expected):
    assert without_stage(FUNNEL, name) == expected


def test_only_nominator_stays():
    assert without_stage("a % 3 >> b", "a") is None
    assert without_stage("a % 3 >> b", "other") is None
    assert without_stage("Optional(a % 3) + b >> c", "a") == "b >> c"


def test_first_step_and_another_stage_in_place_of_one():
    assert first_step(FUNNEL) == "popular % 50 + towers % 200"
    assert first_step("a % 3") == "a % 3"
    assert renamed("a % 3 >> b % 2", "b", "c") == "a % 3 >> c % 2"
