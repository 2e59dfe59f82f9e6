import pytest

from shortlist.data.sources.sequences import read_sequences
from shortlist.errors import DataError


def test_pairs_and_histories_give_the_same_events(put, events_of):
    pairs = read_sequences(put("pairs.txt", "1 10\n1 11\n2 10\n"))
    lines = read_sequences(put("lines.txt", "1 10 11\n2 10 \n"))
    assert (
        events_of(pairs)
        == events_of(lines)
        == [(1, 10, None, None), (1, 11, None, None), (2, 10, None, None)]
    )
    assert pairs.times is None


def test_a_user_without_items_is_counted(put):
    raw = read_sequences(put("lines.txt", "1 10 11\n2 \n3\n"))
    assert (len(raw), raw.read, raw.dropped) == (2, 4, {"user without items": 2})


def test_errors_name_the_line_or_the_option(put):
    with pytest.raises(DataError, match=r"lines.txt:2: expected utf-8"):
        read_sequences(put("lines.txt", b"1 2\n1 \xff\n"))
    with pytest.raises(DataError, match=r"lines.txt:3: expected an id without control characters"):
        read_sequences(put("lines.txt", "1 2 3\n2 3\n1 a\x02b\n"))
    with pytest.raises(DataError, match=r"got only users"):
        read_sequences(put("lines.txt", "1\n2\n"))
