import pytest

from shortlist.data.sources.kuairec import read_kuairec
from shortlist.errors import ConfigError, DataError

HEADER = "user_id,video_id,play_duration,video_duration,time,date,timestamp,watch_ratio\n"
ROWS = "1,10,2,4,2020-07-04 02:08:23.438,20200704,1593799703.438,0.5\n1,11,8,4,,,,2.0\n"


def test_the_watch_ratio_is_the_weight_and_rows_without_time_are_counted(put, events_of):
    put("data/item_categories.csv", 'video_id,feat\n10,"[27, 9]"\n11,[8]\n')
    raw = read_kuairec(put("data/small_matrix.csv", HEADER + ROWS).parent, matrix="small")
    assert events_of(raw) == [(1, 10, 1593799703438, 0.5)]
    assert (raw.read, raw.dropped) == (2, {"no time": 1})
    assert raw.item_table.to_pylist() == [{"item": 10, "category": ["27", "9"]}]


def test_the_matrix_file_can_be_given_directly(put):
    assert len(read_kuairec(put("small_matrix.csv", HEADER + ROWS))) == 1


def test_errors_name_the_line_or_the_option(put):
    with pytest.raises(DataError, match=r"big_matrix.csv:4: expected 8 fields"):
        read_kuairec(put("big_matrix.csv", HEADER + ROWS + "1,2\n").parent)
    with pytest.raises(ConfigError, match=r"matrix: expected big or small, got 'huge'"):
        read_kuairec("anywhere", matrix="huge")
