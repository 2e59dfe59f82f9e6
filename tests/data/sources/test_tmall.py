from datetime import UTC, datetime

import pytest

from shortlist.data.sources.tmall import read_tmall
from shortlist.errors import ConfigError, DataError

HEADER = "user_id,item_id,cat_id,seller_id,brand_id,time_stamp,action_type\n"


def test_month_and_day_become_a_date(put, events_of):
    raw = read_tmall(put("user_log_format1.csv", HEADER + "1,10,5,7,,829,0\n1,11,6,7,3,1111,2\n"))
    days = [int(datetime(2014, *day, tzinfo=UTC).timestamp() * 1000) for day in ((8, 29), (11, 11))]
    assert events_of(raw) == [(1, 10, days[0], None), (1, 11, days[1], None)]
    assert raw.columns["behaviour"].tolist() == ["click", "buy"]
    assert raw.item_table["category"].to_pylist() == ["5", "6"]


def test_the_five_field_format_has_no_header(put, events_of):
    raw = read_tmall(put("tmall.csv", "1,10,5,click,1511544070\n2,10,5,buy,1511544071\n"), behaviours="buy")
    assert events_of(raw) == [(2, 10, 1511544071000, None)]
    assert raw.dropped == {"behaviour not kept": 1}


@pytest.mark.parametrize("day", ["1301", "231", "0", "100"])
def test_an_impossible_day_is_reported(put, day):
    path = put("user_log_format1.csv", HEADER + f"1,10,5,7,,829,0\n1,10,5,7,,{day},0\n")
    with pytest.raises(DataError, match=r"user_log_format1.csv:3: expected a day as MMDD"):
        read_tmall(path)


def test_a_missing_column_is_reported(put):
    with pytest.raises(DataError, match=r":1: expected a column 'cat_id'"):
        read_tmall(put("user_log_format1.csv", "user_id,item_id,time_stamp,action_type\n1,2,829,0\n"))


def test_a_year_is_four_digits(put):
    with pytest.raises(ConfigError, match=r"year: expected four digits, got 'last'"):
        read_tmall(put("user_log_format1.csv", HEADER + "1,10,5,7,,829,0\n"), year="last")
