import pytest

from shortlist.data.sources.tabular import read_tabular
from shortlist.data.tables.files import File
from shortlist.data.tables.jsonlines import first_object, read_jsonlines, records
from shortlist.errors import ConfigError, DataError

KINDS = {"u": "id", "n": "number"}
ADVICE = "fix the line, or skip such lines with --bad-lines skip"


def test_only_requested_keys_are_read_in_any_order(put):
    file = File(put("a.jsonl", '{"n":1,"u":"a","deep":{"x":[1]}}\n\n{"u":"b","n":2.5}\n'))
    found = read_jsonlines(file, KINDS)
    assert found.table.to_pylist() == [{"u": "a", "n": 1.0}, {"u": "b", "n": 2.5}]
    assert [found.locate(row) for row in range(2)] == [f"{file.name}:1", f"{file.name}:3"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"u":"a"}', "expected a key 'n', found 'u'"),
        ('{"u":"a","n":true}', "expected a number as 'n', got 'True'"),
        ('{"u":"a","n":"3"}', "expected a number as 'n', got '3'"),
        ('{"u":"a","n":null}', "expected a number as 'n', got 'None'"),
        ('{"u":1.5,"n":3}', "expected an id (text or a whole number) as 'u', got '1.5'"),
        ("[1]", "expected a JSON object, got list"),
        ('{"u":"a",', 'expected a JSON object, got b\'{"u":"a",\\n\''),
    ],
)
def test_the_first_bad_line_is_reported_or_skipped(put, line, problem):
    file = File(put("a.jsonl", f'{{"u":"a","n":1}}\n{line}\n{{"u":"c","n":3}}\n'))
    with pytest.raises(DataError) as caught:
        read_jsonlines(file, KINDS)
    assert str(caught.value) == f"{file.name}:2: {problem}; {ADVICE}"
    found = read_jsonlines(file, KINDS, bad_lines="skip")
    assert (found.table.to_pylist(), found.bad) == ([{"u": "a", "n": 1.0}, {"u": "c", "n": 3.0}], 1)
    assert found.locate(1) == f"{file.name}:3"


def test_the_first_valid_object_is_returned(put):
    assert first_object(File(put("a.jsonl", '{"u":1}\n{"u":2,"n":3}\n')), KINDS) == {"u": 2, "n": 3}
    with pytest.raises(DataError, match=r"a.jsonl: is empty; expected one JSON object per line$"):
        first_object(File(put("a.jsonl", "\n \n")), KINDS)
    with pytest.raises(DataError, match=r"a.jsonl:1: expected a key 'n', found 'u'; fix the line"):
        first_object(File(put("a.jsonl", '{"u":1}\n{"n":1}\n')), KINDS)


def test_dates_become_timestamps_with_and_without_time_zone(put):
    for text in ("2020-01-01T00:00:00Z", "2020-01-01T02:00:00+02:00", "2020-01-01T00:00:00", "2020-01-01"):
        found = read_jsonlines(File(put("a.jsonl", f'{{"t":"{text}"}}\n')), {"t": "time"})
        assert found.table["t"].cast("int64").to_pylist() == [1577836800000], text


def test_a_quoted_number_is_no_time(put):
    message = r"a.jsonl:1: expected a time \(a number or an ISO date\) as 't', got '1577836800'; fix"
    with pytest.raises(DataError, match=message):
        read_jsonlines(File(put("a.jsonl", '{"t":"1577836800"}\n')), {"t": "time"})


def test_a_truncated_last_line_is_reported_as_such(put):
    *_, last = records(File(put("a.jsonl", '{"u":1,"n":2}\n{"u":1,')), KINDS)
    assert (last.line, last.problem) == (2, "expected a JSON object, got b'{\"u\":1,'")
    with pytest.raises(DataError, match=r"the file seems truncated in its last line, download it again$"):
        read_jsonlines(File(put("a.jsonl", '{"u":1,"n":2}\n{"u":1,')), KINDS)


def test_bad_lines_must_be_refuse_or_skip(put):
    with pytest.raises(ConfigError, match=r"^--bad-lines: expected refuse or skip, got 'repair'$"):
        read_jsonlines(File(put("a.jsonl", "{}\n")), KINDS, bad_lines="repair")


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_a_non_finite_weight_is_refused_with_its_line(tmp_path, word):
    path = tmp_path / "log.jsonl"
    path.write_text(
        '{"user": "a", "item": "x", "weight": 1.0}\n' + f'{{"user": "b", "item": "x", "weight": {word}}}\n'
    )
    with pytest.raises(DataError, match=r"log.jsonl:2: expected a number as 'weight'"):
        read_tabular(path)
