import csv
import gzip
import io
import json
import lzma
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.data.raw_events import encode_ids
from shortlist.data.sources import read_source
from shortlist.data.sources.tabular import read_tabular
from shortlist.errors import ConfigError, DataError

LOG = (
    "uid,thing,when,stars,page\n"
    "ann,x1,1700000000,4.5,home\nbob,x2,1700000060,1,list\nann,x2,1700000120,3,home\n"
)
NAMED = {"user": "uid", "item": "thing", "time": "when", "weight": "stars", "page": "page"}
EVENTS = [
    ("ann", "x1", 1700000000000, 4.5),
    ("bob", "x2", 1700000060000, 1.0),
    ("ann", "x2", 1700000120000, 3.0),
]


def as_jsonl():
    rows = csv.DictReader(io.StringIO(LOG))
    typed = ({**row, "when": int(row["when"]), "stars": float(row["stars"])} for row in rows)
    return "".join(json.dumps(row) + "\n" for row in typed)


def as_parquet(path):
    rows = [json.loads(line) for line in as_jsonl().splitlines()]
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.tsv", "log.jsonl", "log.jsonl.gz"])
def test_text_tables_give_the_same_events(put, events_of, name):
    text = as_jsonl() if "jsonl" in name else LOG.replace(",", "\t") if "tsv" in name else LOG
    raw = read_tabular(put(name, text), columns=NAMED)
    assert events_of(raw) == EVENTS
    assert raw.columns["page"].tolist() == ["home", "list", "home"]
    assert (raw.read, raw.dropped) == (3, {})


def test_parquet_gives_the_same_events(tmp_path, events_of):
    raw = read_tabular(as_parquet(tmp_path / "log.parquet"), columns=NAMED)
    assert events_of(raw) == EVENTS
    assert raw.columns["page"].tolist() == ["home", "list", "home"]


def test_columns_with_default_names_need_no_mapping(put, events_of):
    raw = read_tabular(put("log.csv", "item,user,time\n7,1,1700000000\n"))
    assert events_of(raw) == [(1, 7, 1700000000000, None)]


def test_a_table_without_time_has_no_times(put):
    assert read_tabular(put("log.csv", "item,user\n7,1\n")).times is None


def test_a_file_without_header_is_read_with_names(put, events_of):
    path = put("log.txt", "1|7|1700000000\n")
    assert events_of(read_tabular(path, names="user,item,time", delimiter="|")) == [
        (1, 7, 1700000000000, None)
    ]


def test_further_columns_become_numbers_if_all_values_are_numbers(put):
    columns = {"n": "n", "x": "x", "s": "s"}
    text = read_tabular(put("log.csv", "user,item,n,x,s\n1,7,3,0.5,a\n2,7,4,2,7\n"), columns=columns)
    rows = '{"user":1,"item":7,"n":3,"x":0.5,"s":"a"}\n{"user":2,"item":7,"n":4,"x":2,"s":"7"}\n'
    for raw in (text, read_tabular(put("log.jsonl", rows), columns=columns)):
        assert raw.columns["n"].tolist() == [3, 4]
        assert raw.columns["x"].tolist() == [0.5, 2.0]
        assert raw.columns["s"].tolist() == ["a", "7"]


def test_a_delimiter_may_have_several_characters(put, events_of):
    path = put("log.txt", "user::item\n1::7\n")
    assert events_of(read_tabular(path, delimiter="::")) == [(1, 7, None, None)]
    assert events_of(read_tabular(put("log.txt", "user\titem\n1\t7\n"), delimiter="\\t")) == [
        (1, 7, None, None)
    ]
    with pytest.raises(ConfigError, match=r"delimiter: expected ASCII characters"):
        read_tabular(path, delimiter='"')


def test_ids_become_integers_only_if_the_conversion_is_lossless(put):
    raw = read_tabular(put("log.csv", "item,user\n7,1\n007,2\n"))
    assert raw.items.to_pylist() == ["7", "007"]
    assert raw.users.to_pylist() == [1, 2]


def test_dates_and_formats_become_milliseconds(put):
    iso = read_tabular(put("a.csv", "user,item,time\n1,1,2023-11-14T22:13:20Z\n"))
    own = read_tabular(put("b.csv", "user,item,time\n1,1,14/11/2023\n"), time_format="%d/%m/%Y")
    row = read_tabular(put("c.jsonl", '{"user":1,"item":1,"time":"2023-11-14T22:13:20Z"}\n'))
    assert iso.times.tolist() == row.times.tolist() == [1700000000000]
    assert own.times.tolist() == [1699920000000]


@pytest.mark.parametrize(
    ("value", "unit"), [(1700000000, "s"), (1700000000123, "ms"), (1700000000123456, "us")]
)
def test_the_unit_of_time_is_detected_from_its_magnitude(put, value, unit):
    path = put("log.csv", f"user,item,time\n1,1,{value}\n")
    assert read_tabular(path).times[0] // 1000 == 1700000000
    assert read_tabular(path, unit=unit).times.tolist() == read_tabular(path).times.tolist()


def test_a_second_file_describes_the_items(put):
    log = put("log.csv", "user,item\n1,10\n1,11\n")
    items = put("items.csv", "id,name,category,color\n11,Second,b,red\nzz,Other,c,blue\n10,First,a,green\n")
    columns = {"item.id": "id", "item.title": "name", "item.color": "color"}
    raw = read_tabular(log, items=str(items), columns=columns)
    assert raw.item_table.to_pylist() == [
        {"item": 11, "category": "b", "title": "Second", "color": "red"},
        {"item": 10, "category": "a", "title": "First", "color": "green"},
    ]


def test_rows_with_an_empty_id_are_counted(put, events_of):
    raw = read_tabular(put("log.csv", "user,item\n1,7\n,7\n2,\n"))
    assert events_of(raw) == [(1, 7, None, None)]
    assert (raw.read, raw.dropped) == (3, {"empty id": 2})
    gaps = read_tabular(put("log.jsonl", '{"user":1,"item":7}\n{"user":null,"item":7}\n'))
    assert gaps.dropped == {"empty id": 1}


BAD = {
    "a lost field": (
        "1,7,1700000000\n1,7\n1,8,1700000001\n",
        ":3: expected 3 fields (user,item,time), got 2",
    ),
    "a text": ("1,7,1700000000\n1,7,soon\n", ":3: expected a time (a number or an ISO date) as 'time'"),
    "a gap": ("1,7,1700000000\n\n1,7,\n", ":4: expected a time"),
    "an infinity": ("1,7,1700000000\n1,7,inf\n", ":3: expected a time"),
    "a cut": (
        "1,7,1700000000\n1,7",
        ":3: expected 3 fields (user,item,time), got 2; the file seems truncated",
    ),
    "a quote": ('1,7,1700000000\n"1,7,1700000000\n', ":3: expected closed quotes"),
    "two units": ("1,7,1700000000\n1,7,1700000000000\n1,8,1700000001\n", ":3: expected a time in seconds"),
    "two kinds": (
        "1,7,2023-11-14T22:13:20Z\n1,7,2023-11-14\n",
        ":3: expected a time written like '2023-11-14T",
    ),
    "a bell": ("1,7,1700000000\na\x07b,7,1700000000\n", ":3: expected an id without control characters"),
}


@pytest.mark.parametrize("problem", BAD)
def test_a_bad_line_is_reported_with_its_number(put, problem):
    text, expected = BAD[problem]
    path = put("log.csv", "user,item,time\n" + text)
    with pytest.raises(DataError) as error:
        read_tabular(path)
    assert str(error.value).startswith(f"{path}{expected}")
    assert "\n" not in str(error.value)


def test_invalid_utf_8_is_reported_with_its_line(put):
    path = put("log.csv", b"user,item,time\n1,7,1\n\xff\xfe,7,1\n")
    with pytest.raises(DataError, match=r"log.csv:3: expected utf-8 text"):
        read_tabular(path)


def test_quoted_newlines_keep_the_line_numbers_right(put, events_of):
    text = 'user,item,note\n1,7,"two\nlines"\n2,8,plain\n'
    assert events_of(read_tabular(put("log.csv", text))) == [(1, 7, None, None), (2, 8, None, None)]
    with pytest.raises(DataError, match=r"log.csv:5: expected 3 fields"):
        read_tabular(put("log.csv", text + "3,9\n"))


def test_bad_lines_can_be_skipped_and_are_counted(put, events_of):
    path = put("log.csv", 'user,item,time\n1,7,1700000000\n1,7\n"2,7,soon\n2,8,1700000001\n')
    raw = read_tabular(path, bad_lines="skip")
    assert events_of(raw) == [(1, 7, 1700000000000, None), (2, 8, 1700000001000, None)]
    assert (raw.read, raw.dropped) == (4, {"unparsable line": 2})


def test_bad_json_lines_are_reported_or_skipped(put, events_of):
    path = put(
        "log.jsonl", '{"user":1,"item":7,"time":1700000000}\n{"user":1,"item"\n[]\n{"user":2,"item":8}\n'
    )
    with pytest.raises(DataError, match=r"log.jsonl:2: expected a JSON object"):
        read_tabular(path)
    raw = read_tabular(path, bad_lines="skip")
    assert events_of(raw) == [(1, 7, 1700000000000, None)]
    assert raw.dropped == {"unparsable line": 3}


def test_a_missing_column_is_reported(put, tmp_path):
    with pytest.raises(DataError, match=r"log.csv:1: expected a column 'uid', found user, item"):
        read_tabular(put("log.csv", "user,item\n1,2\n"), columns={"user": "uid"})
    with pytest.raises(DataError, match=r"log.jsonl:1: expected a key 'uid', found 'user', 'item'"):
        read_tabular(put("log.jsonl", '{"user":1,"item":2}\n'), columns={"user": "uid"})
    with pytest.raises(DataError, match=r"expected a column 'nix', found uid"):
        read_tabular(as_parquet(tmp_path / "log.parquet"), columns={**NAMED, "item": "nix"})


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl", "log.parquet", "log.csv.gz"])
def test_an_empty_file_is_refused(put, name):
    with pytest.raises(DataError, match=r"empty|not a complete Parquet"):
        read_tabular(put(name, ""))


def test_a_file_with_only_a_header_is_refused(put, tmp_path):
    message = r"log.csv:2: expected at least one row of events, got only a line of column names"
    for header in ("user,item\n", "user,item,time,weight\n", "user,item,time"):
        with pytest.raises(DataError, match=message):
            read_tabular(put("log.csv", header))
    pq.write_table(pa.table({"user": pa.array([], pa.int64()), "item": [""][:0]}), tmp_path / "log.parquet")
    with pytest.raises(DataError, match=r"log.parquet:row 1: expected at least one row of events, got none"):
        read_tabular(tmp_path / "log.parquet")


@pytest.mark.parametrize(
    ("times", "line"),
    [
        ("1601600000 1601600060 16016", 4),  # cut inside the last time
        ("1601600000 1601600060 160160012", 4),  # by one digit
        ("1601600000 -5 1601600060", 3),
        ("1601600000 1601600060 16016000600", 4),
        ("1601600000.5 1601600060.5 16.0", 4),
        ("-7 1601600000 1601600060", 2),
    ],
)
def test_a_time_far_from_the_median_is_refused(put, times, line):
    rows = "\n".join(f"1,{at},{time}" for at, time in enumerate(times.split()))
    message = rf"log.csv:{line}: expected a time near 16016000\S+ .*, got \S+; the line may be truncated"
    with pytest.raises(DataError, match=message):
        read_tabular(put("log.csv", "user,item,time\n" + rows))


def test_a_last_time_truncated_by_two_or_more_characters_is_refused(put):
    text = "user,item,time\n" + "".join(f"1,{item},{1601600000 + item}\n" for item in range(20))
    for lost in range(2, 10):
        with pytest.raises(DataError, match=r"log.csv:21: .* the line may be truncated"):
            read_tabular(put("log.csv", text[:-lost]))


def test_a_truncated_time_in_milliseconds_is_refused_as_another_unit(put):
    text = "user,item,time\n1,1,1601600000000\n1,2,1601600000001\n1,3,16016000"
    with pytest.raises(DataError, match=r"log.csv:4: expected a time in milliseconds .* if it is truncated"):
        read_tabular(put("log.csv", text))


@pytest.mark.parametrize("times", [[0, 5, 900], [-40, 0, 3], [694224000, 1601600000, 1893456000]])
def test_small_times_and_long_logs_are_accepted(put, times):
    rows = "".join(f"1,{at},{time}\n" for at, time in enumerate(times))
    assert read_tabular(put("log.csv", "user,item,time\n" + rows)).times.tolist() == [1000 * t for t in times]


@pytest.mark.parametrize("file_format", ["csv", "tsv", "jsonl", "parquet"])
def test_every_table_format_is_a_format_name(put, events_of, tmp_path, file_format):
    texts = {"csv": LOG, "tsv": LOG.replace(",", "\t"), "jsonl": as_jsonl()}
    path = (
        as_parquet(tmp_path / "log.dump") if file_format == "parquet" else put("log.dump", texts[file_format])
    )
    assert events_of(read_source(file_format, path, columns=NAMED)) == EVENTS
    with pytest.raises(
        ConfigError,
        match=rf"^{file_format}: expected --option of names, unit, time_format, got 'file_format'",
    ):
        read_source(file_format, path, file_format="csv")


def test_an_unknown_format_is_refused_with_all_known_ones(put):
    with pytest.raises(ConfigError, match=r"tabular, .*, or a table format \(csv, tsv, jsonl, parquet\)"):
        read_source("xls", put("log.xls", "x"))


def test_truncated_compressed_files_are_refused(tmp_path):
    for name, pack in (("log.csv.gz", gzip.compress), ("log.csv.xz", lzma.compress)):
        path = tmp_path / name
        path.write_bytes(pack((LOG * 50).encode())[:-12])
        with pytest.raises(DataError, match=r"cannot be read to its end"):
            read_tabular(path, columns=NAMED)


def test_a_truncated_parquet_file_is_refused(tmp_path):
    path = as_parquet(tmp_path / "log.parquet")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"not a complete Parquet file"):
        read_tabular(path, columns=NAMED)


BAD_TABLES = [
    ({"time": [5, None]}, r":row 2: expected a time as 'time', got nothing"),
    ({"time": ["a", "b"]}, r":row 1: expected a time .+ as 'time', got 'a'"),
    ({"user": [1.5, 2]}, r": expected ids \(whole numbers or text\) as 'user', got double"),
    ({"item": ["a", "\x00"]}, r":row 2: expected an id without control characters"),
    ({"weight": [1.0, float("nan")]}, r":row 2: expected a number as 'weight'"),
    ({"time": [17 * 10**8, 17 * 10**11]}, r":row 2: expected a time in seconds"),
]


@pytest.mark.parametrize(("table", "message"), BAD_TABLES)
def test_bad_parquet_rows_are_reported(tmp_path, table, message):
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"user": [1, 2], "item": [1, 2], **table}), path)
    with pytest.raises(DataError, match=rf"log.parquet{message}"):
        read_tabular(path)


def test_parquet_ids_may_have_any_integer_type_and_nulls(tmp_path, events_of):
    path = tmp_path / "log.parquet"
    users = pa.array(["a", "b", None]).dictionary_encode()
    pq.write_table(pa.table({"user": users, "item": pa.array([1, 2, 3], pa.uint16())}), path)
    raw = read_tabular(path)
    assert events_of(raw) == [("a", 1, None, None), ("b", 2, None, None)]
    assert raw.dropped == {"empty id": 1}


@pytest.mark.parametrize("header", ["user,item,time", "user\titem\ttime", "user::item::time"])
def test_a_delimiter_that_does_not_occur_is_refused_with_the_one_that_does(put, header):
    mark = header.removeprefix("user").partition("item")[0]
    path = put("log.csv", f"{header}\n1{mark}2{mark}3\n")
    shown = "\\\\t" if mark == "\t" else mark
    with pytest.raises(
        ConfigError, match=rf"log.csv:1: expected columns separated by ';', .+; use --delimiter '{shown}'$"
    ):
        read_tabular(path, delimiter=";")


def test_a_column_of_a_table_that_is_not_given_is_refused(put):
    path = put("log.csv", "user,item\n1,2\n")
    with pytest.raises(ConfigError, match=r"^--column item.title=name: item.\* needs .+ --items FILE"):
        read_tabular(path, columns={"item.title": "name"})
    with pytest.raises(ConfigError, match=r"^--column user.age=years: user.\* needs .+ --users FILE"):
        read_tabular(path, columns={"user.age": "years"}, items=put("items.csv", "item,title\n2,A\n"))


def test_invalid_options_raise_a_config_error(put):
    path = put("log.csv", "user,item,time\n1,2,3\n")
    with pytest.raises(ConfigError, match=r"expected one of amazon, dtr"):
        read_source("nothing", path)
    with pytest.raises(ConfigError, match=r"got 'colums'; did you mean --column\?$"):
        read_source("tabular", path, colums={})
    with pytest.raises(ConfigError, match=r"--option of file_format, names, .+; did you mean --delimiter\?$"):
        read_source("tabular", path, delimitr=";")
    with pytest.raises(ConfigError, match=r"--bad-lines: expected refuse or skip, got 'drop'"):
        read_source("tabular", path, bad_lines="drop")
    with pytest.raises(ConfigError, match=r"unit: expected auto, s, ms"):
        read_source("tabular", path, unit="hours")
    with pytest.raises(ConfigError, match=r"expected a file format of csv"):
        read_source("tabular", put("log.bin", "x"))
    with pytest.raises(DataError, match=r"not found"):
        read_source("tabular", path.with_name("other.csv"))


ids = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=6).filter(
    str.strip
)


def rows_between(first, last):
    return st.lists(st.tuples(ids, ids, st.integers(first, last)), min_size=1, max_size=20)


@settings(deadline=None, max_examples=60)
@given(rows_between(0, 10**8) | rows_between(10**9, 5 * 10**9))  # a clock of its own, or one from 1970
def test_any_log_written_as_csv_is_read_back(rows):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.csv")
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
            writer.writerows([("user", "item", "time"), *rows])
        raw = read_tabular(path)
    seen = zip(raw.users.to_pylist(), raw.items.to_pylist(), raw.times.tolist(), strict=True)
    assert [(str(user), str(item), time // 1000) for user, item, time in seen] == rows


BLOBS = {
    "log.csv": LOG.encode(),
    "log.csv.gz": gzip.compress(LOG.encode(), mtime=0),
    "log.csv.xz": lzma.compress(LOG.encode()),
    "log.jsonl": as_jsonl().encode(),
}


def outcome(path, **options):
    try:
        return read_tabular(path, columns=NAMED, **options)
    except DataError as error:
        return error


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(sorted(BLOBS)), st.sampled_from(["refuse", "skip"]), st.booleans(), st.data())
def test_a_damaged_file_is_read_or_raises_a_data_error(name, bad_lines, cut, data):
    blob = bytearray(BLOBS[name])
    at = data.draw(st.integers(0, len(blob) - 1))
    if cut:
        del blob[at:]
    else:
        blob[at] ^= data.draw(st.integers(1, 255))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(bytes(blob))
        found = outcome(path, bad_lines=bad_lines)
    assert str(path) in str(found) if isinstance(found, DataError) else found.read >= len(found)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_damaged_parquet_file_is_read_or_raises_a_data_error(data):
    with tempfile.TemporaryDirectory() as folder:
        path = as_parquet(Path(folder, "log.parquet"))
        blob = bytearray(path.read_bytes())
        at = data.draw(st.integers(0, len(blob) - 1))
        blob[at] ^= data.draw(st.integers(1, 255))
        path.write_bytes(bytes(blob))
        found = outcome(path)
    assert str(path) in str(found) if isinstance(found, DataError) else found.read >= len(found)


def test_the_vocabulary_holds_only_used_ids_and_each_once():
    repeated = pa.DictionaryArray.from_arrays(pa.array([2, 1, 1, 3]), pa.array(["never", "b", "a", "b"]))
    vocabulary, rows = encode_ids(repeated)
    assert vocabulary.ids.to_pylist() == ["a", "b"]
    assert rows.tolist() == [0, 1, 1, 1]
    assert np.asarray(encode_ids(pa.chunked_array([], pa.string()))[1]).tolist() == []
