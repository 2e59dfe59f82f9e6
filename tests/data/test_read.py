import pytest

from shortlist.data import load_dataset, save_dataset
from shortlist.data.cleaning import LogFilters
from shortlist.data.read import prepare
from shortlist.errors import ConfigError, DataError

LOG = "user,item,time,weight\n1,10,5,5\n1,10,5,5\n2,11,6,1\n,11,7,5\n2,12,8,4\n"


def test_every_row_read_is_kept_or_counted(put):
    path = put("deep/log.csv", LOG + "broken\n")
    dataset = prepare("tabular", path, options={"bad_lines": "skip"}, filters=LogFilters(min_weight=2))
    assert dataset.facts == {
        "source": "tabular",
        "path": "log.csv",
        "read": 6,
        "kept": 2,
        "dropped": {"empty id": 1, "unparsable line": 1, "exact duplicate": 1, "weight below 2": 1},
    }
    assert dataset.name == "log"
    assert dataset.facts["read"] == dataset.facts["kept"] + sum(dataset.facts["dropped"].values())


def test_strict_allows_no_loss(put):
    message = r"log.csv: rows would be left out \(1 empty id, 1 exact duplicate\)"
    with pytest.raises(DataError, match=message):
        prepare("tabular", put("log.csv", LOG), strict=True)
    whole = prepare("tabular", put("whole.csv", "user,item\n1,2\n1,2\n"), strict=True)
    assert whole.facts["dropped"] == {}


def test_a_log_of_which_nothing_is_left_is_refused(put):
    with pytest.raises(DataError, match=r"expected events, got none of 1 rows \(1 empty id\)"):
        prepare("tabular", put("log.csv", "user,item\n,2\n"))


def test_the_split_belongs_to_the_data_set(put, tmp_path):
    settings = {"protocol": "leave-last-out", "min_length": 3}
    path = put("log.csv", "user,item,time\n1,10,5\n1,11,6\n1,12,7\n")
    dataset = prepare("tabular", path, "small", split_settings=settings)
    save_dataset(dataset, tmp_path / "out", "test")
    loaded = load_dataset(tmp_path / "out")
    assert loaded.split_settings == settings
    assert len(loaded.split().test) == 1
    assert loaded.facts == dataset.facts
    with pytest.raises(ConfigError, match=r"split: expected a protocol of half-history"):
        prepare("tabular", path, split_settings={"protocol": "by-luck"})
