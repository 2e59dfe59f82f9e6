import zipfile

import pytest

from shortlist.data import build_dataset
from shortlist.data.sources.movielens import read_movielens
from shortlist.errors import DataError

RATINGS_1M = "1::10::5::978300760\n2::20::3::978300761\n1::20::4::978300762\n"
MOVIES_1M = "10::Amélie (2001)::Comedy|Romance\n20::Heat (1995)::Crime\n30::Unseen (1990)::Drama\n"
USERS_1M = "1::F::18::7::12345\n2::M::56::16::70072\n"
EVENTS = [(1, 10, 978300760000, 5.0), (2, 20, 978300761000, 3.0), (1, 20, 978300762000, 4.0)]


def packed(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text.encode("latin-1"))
    return path


def test_the_1m_archive_is_read_without_unpacking(tmp_path, events_of):
    files = {"ml-1m/ratings.dat": RATINGS_1M, "ml-1m/movies.dat": MOVIES_1M, "ml-1m/users.dat": USERS_1M}
    raw = read_movielens(packed(tmp_path / "ml-1m.zip", files))
    assert events_of(raw) == EVENTS
    assert raw.item_table.to_pylist()[0] == {
        "item": 10,
        "title": "Amélie (2001)",
        "category": ["Comedy", "Romance"],
    }
    assert raw.user_table.to_pylist()[1] == {
        "user": 2,
        "gender": "M",
        "age": 56,
        "occupation": "16",
        "zip": "70072",
    }
    assert [path.name for path in tmp_path.iterdir()] == ["ml-1m.zip"]


def test_a_movie_without_rating_is_no_item(put):
    put("ml/movies.dat", MOVIES_1M.encode("latin-1"))
    dataset = build_dataset(read_movielens(put("ml/ratings.dat", RATINGS_1M).parent))
    assert dataset.catalog.table["title"].to_pylist() == ["Amélie (2001)", "Heat (1995)"]


def test_10m_has_half_stars_and_no_users(put, events_of):
    put("movies.dat", MOVIES_1M.encode("latin-1"))
    raw = read_movielens(put("ratings.dat", "1::10::4.5::978300760\n").parent)
    assert events_of(raw) == [(1, 10, 978300760000, 4.5)]
    assert raw.user_table is None


def test_csv_editions_have_quoted_titles(put, events_of):
    put(
        "ml-25m/movies.csv", 'movieId,title,genres\n10,"American, The (2010)",Drama|Thriller\n20,Heat,Crime\n'
    )
    path = put(
        "ml-25m/ratings.csv", "userId,movieId,rating,timestamp\n1,10,4.5,978300760\n2,20,3.0,978300761\n"
    )
    raw = read_movielens(path.parent)
    assert events_of(raw) == [(1, 10, 978300760000, 4.5), (2, 20, 978300761000, 3.0)]
    assert raw.item_table["title"].to_pylist() == ["American, The (2010)", "Heat"]
    assert raw.item_table["category"].to_pylist() == [["Drama", "Thriller"], ["Crime"]]


def test_100k_genre_flags_become_names(put, events_of):
    put("u.genre", "unknown|0\nAction|1\nDrama|2\n\n")
    put(
        "u.item", "10|Heat (1995)|01-Jan-1995||http://x|0|1|1\n20|Amélie|||http://y|0|0|1\n".encode("latin-1")
    )
    put("u.user", "1|24|M|technician|85711\n2|53|F|other|94043\n")
    raw = read_movielens(put("u.data", "1\t10\t5\t978300760\n2\t20\t3\t978300761\n1\t20\t4\t978300762\n"))
    assert events_of(raw) == EVENTS
    assert raw.item_table["category"].to_pylist() == [["Action", "Drama"], ["Drama"]]
    assert raw.user_table["age"].to_pylist() == [24, 53]


def test_a_bad_line_in_an_archive_is_reported_with_member_and_line(tmp_path):
    path = packed(tmp_path / "ml.zip", {"ml-1m/ratings.dat": RATINGS_1M + "x::1::2::3\n"})
    with pytest.raises(DataError) as error:
        read_movielens(path)
    assert str(error.value).startswith(
        f"{path}:ml-1m/ratings.dat:4: expected a whole number as 'user', got 'x'"
    )


def test_bad_lines_can_be_skipped(put):
    raw = read_movielens(put("ratings.dat", RATINGS_1M + "1::2::x::4\n1::2\n"), bad_lines="skip")
    assert (raw.read, len(raw), raw.dropped) == (5, 3, {"unparsable line": 2})


@pytest.mark.parametrize("name", ["../ratings.dat", "/ratings.dat", "a/../../ratings.dat", "C:\\ratings.dat"])
def test_a_member_name_that_points_outside_the_archive_is_refused(tmp_path, name):
    path = packed(tmp_path / "ml.zip", {"fine.txt": "", name: RATINGS_1M})
    with pytest.raises(DataError, match=r"points outside of it"):
        read_movielens(path)


def test_a_truncated_archive_is_refused(tmp_path):
    path = packed(tmp_path / "ml.zip", {"ratings.dat": RATINGS_1M})
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match=r"not a complete zip file"):
        read_movielens(path)


def test_a_damaged_member_is_refused(tmp_path):
    path = packed(tmp_path / "ml.zip", {"ratings.dat": RATINGS_1M})
    path.write_bytes(path.read_bytes().replace(b"978300761", b"978300799", 1))
    with pytest.raises(DataError, match=r"ratings.dat: cannot be read to its end"):
        read_movielens(path)


def test_seconds_that_look_like_milliseconds_are_refused(put):
    with pytest.raises(DataError, match=r"ratings.dat:1: expected times in seconds"):
        read_movielens(put("ratings.dat", "1::2::3::978300760000\n"))


def test_a_given_file_is_read_before_others_in_its_folder(put, events_of):
    put("u.data", "9\t9\t5\t978300760\n")
    assert events_of(read_movielens(put("ratings.dat", RATINGS_1M))) == EVENTS


def test_a_folder_without_ratings_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"expected one of u.data, ratings.dat, ratings.csv in it"):
        read_movielens(tmp_path)
    with pytest.raises(DataError, match=r"not found"):
        read_movielens(tmp_path / "nothing")


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "counts"),
    [("ml-1m/ml-1m.zip", (1_000_209, 6_040, 3_706)), ("ml-100k", (100_000, 943, 1_682))],
)
def test_the_published_counts_hold(real, name, counts):
    dataset = build_dataset(read_movielens(real(name)))
    assert (len(dataset.events), len(dataset.users), len(dataset.items)) == counts
    assert None not in dataset.catalog.table["category"].to_pylist()
    assert None not in dataset.user_table["age"].to_pylist()
