import pyarrow as pa
import pytest

from shortlist.data.sources.times import milliseconds
from shortlist.errors import ConfigError, DataError

SECOND = 1_700_000_000


def events_of(values, unit="auto", kind=None):
    """The milliseconds of a column whose rows stand on lines from 1."""
    column = pa.chunked_array([pa.array(values, kind)])
    return milliseconds(column, unit, lambda row: f"log:{row + 1}").tolist()


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_every_unit_is_seen_or_said_and_gives_the_same_moment(unit, factor):
    times = [SECOND * factor, (SECOND + 60) * factor]
    assert events_of(times) == events_of(times, unit) == [SECOND * 1000, (SECOND + 60) * 1000]


def test_fractions_of_seconds_are_kept_and_of_milliseconds_are_not():
    fractions = [SECOND + 0.5, SECOND + 0.0014, SECOND + 0.0016]
    assert events_of(fractions) == [SECOND * 1000 + 500, SECOND * 1000 + 1, SECOND * 1000 + 2]
    assert events_of([SECOND * 10**6 + 1999], "us") == [SECOND * 1000 + 1]


def test_dates_and_moments_of_any_width_need_no_unit():
    assert events_of([19675], kind=pa.date32()) == [19675 * 86_400_000]
    for unit, factor in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        assert events_of([SECOND * factor], kind=pa.timestamp(unit, "UTC")) == [SECOND * 1000]


def test_a_small_clock_is_taken_as_it_is():
    assert events_of([0, 5, 9000]) == [0, 5000, 9_000_000]
    assert events_of([0, 5, 9000], "ms") == [0, 5, 9000]


def test_a_unit_that_the_numbers_contradict_is_refused():
    with pytest.raises(DataError) as caught:
        events_of([SECOND * 1000], "s")
    assert str(caught.value) == (
        "log:1: expected times in seconds, got 1700000000000, which looks like milliseconds; "
        "say which unit it is"
    )


def test_one_line_in_another_unit_is_named():
    with pytest.raises(
        DataError, match=r"^log:3: expected a time in seconds as on the other lines, got 17000"
    ):
        events_of([SECOND, SECOND + 1, SECOND * 1000])


def test_a_unit_nobody_knows_is_refused():
    with pytest.raises(ConfigError, match=r"^unit: expected auto, s, ms, us, ns, got 'hours'$"):
        events_of([1], "hours")
