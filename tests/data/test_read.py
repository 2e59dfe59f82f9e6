"""Reading a log: every row is kept or counted."""

from dataclasses import replace

import pytest

from shortlist.data import load_dataset, save_dataset
from shortlist.data.dataset import LogFacts
from shortlist.data.read import read
from shortlist.errors import ConfigError, DataError

LOG = "user,item,time,weight\n1,10,5,5\n1,10,5,5\n2,11,6,1\n,11,7,5\n2,12,8,4\n"


def test_every_row_is_kept_or_counted_as_dropped(put):
    path = put("deep/log.csv", LOG + "broken\n")
    dataset = read(path, bad_lines="skip", min_weight=2)
    dropped = {"empty id": 1, "unparsable line": 1, "exact duplicate": 1, "weight below 2": 1}
    options = {"weight": "weight", "min_weight": 2, "bad_lines": "skip"}
    expected = LogFacts("tabular", "log.csv", read=6, kept=2, dropped=dropped, options=options)
    assert replace(dataset.facts, split_reason="", weights="") == expected
    assert dataset.name == "log"
    assert dataset.facts.read == dataset.facts.kept + sum(dataset.facts.dropped.values())


def test_strict_raises_an_error_if_rows_would_be_dropped(put):
    message = (
        r"log.csv: rows would be dropped \(1 empty id, 1 exact duplicate\); fix the rows or drop --strict"
    )
    with pytest.raises(DataError, match=message):
        read(put("log.csv", LOG), strict=True)
    complete = read(put("complete.csv", "user,item\n1,2\n1,2\n"), strict=True)
    assert complete.facts.dropped == {}


def test_least_weight_of_a_log_without_weights_is_refused(put):
    message = (
        r"has no weights, and --min-weight 3 needs them; name their column with --weight COLUMN, or leave out"
    )
    with pytest.raises(ConfigError, match=message):
        read(put("log.csv", "user,item,stars\n1,2,5\n"), min_weight=3)


def test_a_log_without_any_valid_row_is_refused(put):
    with pytest.raises(DataError, match=r"expected events, got none of 1 rows \(1 empty id\)"):
        read(put("log.csv", "user,item\n,2\n"))


def test_the_split_is_saved_with_the_data_set(put, tmp_path):
    path = put("log.csv", "user,item,time\n1,10,5\n1,11,6\n1,12,7\n")
    dataset = read(path, name="small", split="leave-last-out")
    save_dataset(dataset, tmp_path / "out", "test")
    loaded = load_dataset(tmp_path / "out")
    assert loaded.split_settings == {"protocol": "leave-last-out"}
    assert len(loaded.split().test) == 1
    assert loaded.facts == dataset.facts
    with pytest.raises(ConfigError, match=r"^--split: expected one of auto, .+, got 'by-luck'$"):
        read(path, split="by-luck")
    with pytest.raises(ConfigError, match=r"got 'globaltime'; did you mean global-time\?$"):
        read(path, split="globaltime")


def test_columns_are_mapped_by_name_and_by_mapping(put):
    path = put("log.csv", "uid,movie,at,page\n1,10,5,home\n2,11,6,list\n")
    one = read(path, user="uid", item="movie", time="at", columns={"page": "page"})
    other = read(path, "csv", columns={"user": "uid", "item": "movie", "time": "at"})
    assert one.fingerprint == other.fingerprint
    assert one.events.columns["page"].tolist() == ["home", "list"]


def test_codes_with_leading_zeros_stay_text_in_further_columns(put):
    dataset = read(put("log.csv", "user,item,zip\n1,2,01234\n2,2,99999\n"), columns={"zip": "zip"})
    assert dataset.events.columns["zip"].tolist() == ["01234", "99999"]


def test_rejects_name_their_file_without_its_folder(put, tmp_path):
    for day in ("day=1", "day=2"):
        put(f"logs/{day}/part.csv", "user,item\n1,2\nbroken\n")
    dataset = read(tmp_path / "logs", bad_lines="skip")
    assert [one.file for one in dataset.rejects] == ["day=1/part.csv", "day=2/part.csv"]
    assert (dataset.name, dataset.facts.path) == ("logs", "logs")
    single = read(tmp_path / "logs" / "day=1" / "part.csv", bad_lines="skip")
    assert [one.file for one in single.rejects] == ["part.csv"]


def test_columns_of_a_fixed_format_cannot_be_mapped(put):
    path = put("ratings.dat", "1::10::5::978300760\n")
    with pytest.raises(ConfigError, match="movielens: its columns are fixed; leave out the column mapping"):
        read(path, "movielens", user="uid")
    with pytest.raises(ConfigError, match=r"^movielens: has no --delimiter; its options are --bad-lines$"):
        read(path, "movielens", delimiter=";")
    with pytest.raises(ConfigError, match="options: columns is not an option; use columns"):
        read(put("log.csv", LOG), options={"columns": "user=uid"})
