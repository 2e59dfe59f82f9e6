import pytest

from shortlist.data.sources.jodie import read_jodie
from shortlist.errors import ConfigError, DataError

HEADER = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"
LOG = HEADER + "0,0,0.0,0,-0.1,0.2\n1,0,36.5,1,0.3,0.4\n"


def test_rows_may_be_wider_than_the_header(put, events_of):
    raw = read_jodie(put("wikipedia.csv", LOG))
    assert events_of(raw) == [(0, 0, 0, None), (1, 0, 36500, None)]
    assert raw.columns["state_label"].tolist() == [0.0, 1.0]
    assert list(raw.columns) == ["state_label"]


def test_features_are_read_on_request(put):
    raw = read_jodie(put("wikipedia.csv", LOG), features=True)
    assert raw.columns["feature_1"].tolist() == [0.2, 0.4]


def test_a_short_row_raises_an_error_with_its_line(put):
    with pytest.raises(DataError, match=r"wikipedia.csv:4: expected 6 fields"):
        read_jodie(put("wikipedia.csv", LOG + "1,0,40.0,1,0.3\n"))
    with pytest.raises(DataError, match=r"wikipedia.csv:2: expected at least one row of events, got none"):
        read_jodie(put("wikipedia.csv", HEADER))


def test_features_must_be_true_or_false(put):
    with pytest.raises(ConfigError, match=r"features: expected true or false, got 'some'"):
        read_jodie(put("wikipedia.csv", LOG), features="some")
