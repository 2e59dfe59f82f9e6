import pytest

from shortlist.data.sources.taobao import read_taobao
from shortlist.errors import ConfigError, DataError

LOG = "1,10,5,pv,1511544070\n1,11,6,buy,1511544071\n2,10,5,cart,1511544072\n2,10,5,stare,1511544073\n"


def test_behaviours_are_kept_as_a_column_and_unknown_ones_counted(put, events_of):
    raw = read_taobao(put("UserBehavior.csv", LOG))
    assert events_of(raw)[0] == (1, 10, 1511544070000, None)
    assert raw.columns["behaviour"].tolist() == ["pv", "buy", "cart"]
    assert (raw.read, raw.dropped) == (4, {"behaviour not kept": 1})
    assert raw.item_table["category"].to_pylist()[:2] == ["5", "6"]


def test_some_behaviours_can_be_kept(put):
    raw = read_taobao(put("UserBehavior.csv", LOG).parent, behaviours="buy,cart")
    assert raw.items.to_pylist() == [11, 10]
    assert raw.dropped == {"behaviour not kept": 2}


def test_errors_name_the_line_or_the_option(put):
    with pytest.raises(DataError, match=r"UserBehavior.csv:5: expected 5 fields"):
        read_taobao(put("UserBehavior.csv", LOG + "1,2,3\n"))
    with pytest.raises(ConfigError, match=r"behaviours: expected some of pv, cart, fav, buy, got 'like'"):
        read_taobao(put("UserBehavior.csv", LOG), behaviours="like")
