import pyarrow as pa
import pytest

from shortlist.data.tables.times import milliseconds
from shortlist.errors import ConfigError, DataError

SECOND = 1_700_000_000


def convert(values, unit="auto", kind=None):
    """The milliseconds of a column whose rows are lines from 1."""
    column = pa.chunked_array([pa.array(values, kind)])
    return milliseconds(column, unit, lambda row: f"log:{row + 1}").tolist()


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_detected_and_given_units_give_the_same_time(unit, factor):
    times = [SECOND * factor, (SECOND + 60) * factor]
    assert convert(times) == convert(times, unit) == [SECOND * 1000, (SECOND + 60) * 1000]


def test_fractions_of_milliseconds_are_dropped():
    fractions = [SECOND + 0.5, SECOND + 0.0014, SECOND + 0.0016]
    assert convert(fractions) == [SECOND * 1000 + 500, SECOND * 1000 + 1, SECOND * 1000 + 2]
    assert convert([SECOND * 10**6 + 1999], "us") == [SECOND * 1000 + 1]


def test_dates_and_timestamps_need_no_unit():
    assert convert([19675], kind=pa.date32()) == [19675 * 86_400_000]
    for unit, factor in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        assert convert([SECOND * factor], kind=pa.timestamp(unit, "UTC")) == [SECOND * 1000]


def test_times_that_do_not_count_from_1970_are_accepted():
    assert convert([0, 5, 9000]) == [0, 5000, 9_000_000]
    assert convert([0, 5, 9000], "ms") == [0, 5, 9000]


def test_a_unit_that_contradicts_the_values_is_refused():
    with pytest.raises(DataError) as caught:
        convert([SECOND * 1000], "s")
    assert str(caught.value) == (
        "log:1: expected times in seconds, got 1700000000000, which looks like milliseconds; "
        "in a table, use --option unit=ms"
    )


def test_a_line_in_another_unit_is_reported():
    with pytest.raises(
        DataError, match=r"^log:3: expected a time in seconds as on the other lines, got 17000"
    ):
        convert([SECOND, SECOND + 1, SECOND * 1000])


def test_an_unknown_unit_is_refused():
    with pytest.raises(ConfigError, match=r"^unit: expected auto, s, ms, us, ns, got 'hours'$"):
        convert([1], "hours")
