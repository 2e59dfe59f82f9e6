import pytest

from shortlist.data.sources.tabular import read_tabular

LOG = (
    "user,item,time,weight\n"
    "ann,1,1700000000,5\n,2,1700000001,5\nbob,3,17,4\nb\x07b,4,1700000002,3\nbob,5,1700000003,2\n"
)


def test_rows_that_can_be_parsed_and_not_used_are_skipped_with_their_reason(put, events_of):
    raw = read_tabular(put("log.csv", LOG), bad_lines="skip")
    assert events_of(raw) == [("ann", 1, 1700000000000, 5.0), ("bob", 5, 1700000003000, 2.0)]
    assert [(one.line, one.reason, one.text) for one in raw.rejects] == [
        ("3", "empty id", ",2,1700000001,5"),
        ("4", "time far from the others", "bob,3,17,4"),
        ("5", "control character in an id", "b\x07b,4,1700000002,3"),
    ]
    assert raw.dropped == {"empty id": 1, "time far from the others": 1, "control character in an id": 1}
    assert raw.read == len(raw) + sum(raw.dropped.values())


def test_an_empty_id_is_no_reject_unless_lines_are_skipped(put):
    raw = read_tabular(put("log.csv", "user,item\nann,1\n,2\n"))
    assert (raw.dropped, raw.rejects) == ({"empty id": 1}, ())


def test_a_reject_names_its_file_and_its_line_behind_other_skipped_lines(put, tmp_path):
    put("a.csv", "user,item,time\nann,1\n,1,1700000000\nann,2,1700000000\n")
    put("b.csv", "user,item,time\nann,3,1700000000\n\n,4,1700000000\n")
    raw = read_tabular([tmp_path / "a.csv", tmp_path / "b.csv"], bad_lines="skip")
    found = [(one.file.rpartition("/")[2], one.line) for one in raw.rejects]
    assert found == [("a.csv", "2"), ("a.csv", "3"), ("b.csv", "4")]
    assert len(raw) == 2


@pytest.mark.parametrize("unit", ["auto", "s"])
def test_times_of_another_unit_are_skipped(put, unit):
    text = "user,item,time\n1,1,1700000000\n1,2,1700000000000\n1,3,1700000001\n"
    raw = read_tabular(put("log.csv", text), bad_lines="skip", unit=unit)
    assert raw.times.tolist() == [1700000000000, 1700000001000]


def test_json_lines_with_a_time_of_another_form_are_skipped(put):
    rows = ['{"user":1,"item":1,"time":"2023-11-14"}', '{"user":1,"item":2,"time":5}', '{"user":1,"item":3}']
    raw = read_tabular(put("log.jsonl", "\n".join(rows) + "\n"), bad_lines="skip")
    assert (len(raw), [one.line for one in raw.rejects]) == (1, ["2", "3"])
    assert raw.rejects[0].reason == "expected a time written like '2023-11-14', got 5"
