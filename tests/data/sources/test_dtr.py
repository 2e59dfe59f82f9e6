import pytest

from shortlist.data import build_dataset
from shortlist.data.sources.dtr import read_dtr
from shortlist.errors import DataError


def test_history_precedes_labels_and_padding_is_dropped(put, events_of):
    raw = read_dtr(put("test_instances", "5|-1,-1,3|4,3\n6|7,-1,8|9\n"))
    assert events_of(raw) == [
        (5, 3, None, None),
        (5, 4, None, None),
        (5, 3, None, None),
        (6, 7, None, None),
        (6, 8, None, None),
        (6, 9, None, None),
    ]
    assert raw.times is None


def test_a_folder_joins_its_parts_and_lists_may_be_empty(put, events_of):
    put("d/validation_instances", "1|2,3|\n")
    path = put("d/test_instances", "4||5\n")
    assert [event[:2] for event in events_of(read_dtr(path.parent))] == [(1, 2), (1, 3), (4, 5)]


@pytest.mark.parametrize("line", ["6|7,8", "6|7,x|8", "u|1|2", "6|1,,2|3"])
def test_a_bad_line_is_reported_or_skipped(put, line):
    path = put("test_instances", f"5|3|4\n{line}\n")
    with pytest.raises(DataError, match=r"test_instances:2: expected"):
        read_dtr(path)
    raw = read_dtr(path, bad_lines="skip")
    assert (len(raw), raw.read, raw.dropped) == (2, 3, {"unparsable line": 1})


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"expected one of train_instances"):
        read_dtr(tmp_path)


@pytest.mark.data
def test_the_counts_of_the_dtr_mind_data_hold(real):
    dataset = build_dataset(read_dtr(real("mind")))
    assert (len(dataset.users), len(dataset.items), len(dataset.events)) == (6_800, 6_988, 863_097)
    assert dataset.clock == "order"
