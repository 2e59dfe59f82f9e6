import pytest

from shortlist.data import load_dataset, read
from shortlist.data.dataset import save_dataset
from shortlist.data.report import data_report
from shortlist.errors import ConfigError, DataError

TABLE = "user,item,time,rating\n1,10,5,5\n1,11,6,1\n2,11,7,3\n2,12,8,4\n"
MOVIELENS = "1::10::5::5\n1::11::1::6\n2::11::3::7\n2::12::4::8\n"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(TABLE)
    return path


@pytest.fixture
def movielens(tmp_path):
    (tmp_path / "ratings.dat").write_text(MOVIELENS)
    (tmp_path / "movies.dat").write_text("10::A::x\n11::B::x\n12::C::y\n", encoding="latin-1")
    return tmp_path


def test_weight_column_of_a_table_is_used_as_strength(table):
    dataset = read(table, weight="rating")
    assert dataset.events.weights.tolist() == [5, 1, 3, 4]
    assert dataset.facts.weights == "1 to 5, used as strengths; --weights implicit counts every event once"
    once = read(table, weight="rating", weights="implicit")
    assert once.events.weights.tolist() == [1, 1, 1, 1]
    assert once.facts.weights == (
        "not used: every event counts once; --weights use follows those of the log (1 to 5)"
    )


def test_ratings_of_a_builtin_format_are_not_used_unless_asked(movielens, tmp_path):
    once = read(movielens, "movielens")
    assert once.events.weights.tolist() == [1, 1, 1, 1]
    assert once.facts.weights.startswith("not used: every event counts once")
    assert once.facts.options["weights"] == "implicit"  # appended tables count once too
    assert read(movielens, "movielens", weights="use").events.weights.tolist() == [5, 1, 3, 4]
    save_dataset(once, tmp_path / "out", "test")
    assert data_report(load_dataset(tmp_path / "out")).weights == once.facts.weights


def test_events_below_the_minimum_weight_are_dropped_before_weights_become_one(table):
    dataset = read(table, weight="rating", min_weight=3, weights="implicit")
    assert dataset.events.weights.tolist() == [1, 1, 1]
    assert dataset.facts.dropped == {"weight below 3": 1}


def test_log_without_weights_has_nothing_to_say(table):
    assert read(table).facts.weights == ""
    assert read(table, weights="implicit").facts.weights == ""


def test_weights_that_are_no_strengths_are_refused_with_the_options_to_type(table):
    table.write_text(TABLE.replace(",7,3", ",7,-2"))
    expected = (
        r"log.csv: weights: expected numbers above 0, got 1 of 4 that are not, the first is -2; drop those events "
        r"with --min-weight 1, add a constant to the column, or count every event once with --weights implicit"
    )
    with pytest.raises(DataError, match=expected):
        read(table, weight="rating")
    assert len(read(table, weight="rating", min_weight=1).events) == 3
    assert len(read(table, weight="rating", weights="implicit").events) == 4


def test_unknown_mode_of_weights_is_refused(table):
    with pytest.raises(ConfigError, match="--weights: expected use or implicit, got 'ignore'"):
        read(table, weights="ignore")
