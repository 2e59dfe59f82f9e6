"""The users of a batch: from a bundle, a list or a file."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shortlist.data import Vocabulary
from shortlist.errors import ConfigError, DataError
from shortlist.pipeline.batch import read_user_ids, select_users

KNOWN = Vocabulary.of(["a", "b", "010"])


def test_without_ids_all_known_users_are_answered_in_their_order():
    users = select_users(KNOWN)
    assert users.ids.to_pylist() == ["a", "b", "010"]
    assert users.rows.tolist() == [0, 1, 2]


def test_unknown_users_are_counted_and_answered_or_left_out():
    answered = select_users(KNOWN, ["b", "nobody", "a"])
    assert (answered.rows.tolist(), answered.unknown) == ([1, -1, 0], 1)
    skipped = select_users(KNOWN, ["b", "nobody", "a"], "skip")
    assert (skipped.ids.to_pylist(), skipped.rows.tolist(), skipped.unknown) == (["b", "a"], [1, 0], 1)


def test_repeated_users_are_answered_once_and_counted():
    users = select_users(KNOWN, ["b", "a", "b", "b"])
    assert (users.ids.to_pylist(), users.repeated) == (["b", "a"], 2)


def test_integer_ids_are_found_as_integers_and_as_text():
    known = Vocabulary.of([10, 20])
    assert select_users(known, [20, 10]).rows.tolist() == [1, 0]
    assert select_users(known, pa.array(["20", "10"])).rows.tolist() == [1, 0]


def test_wrong_option_and_empty_ids_are_refused():
    with pytest.raises(ConfigError, match="expected one of answer, skip, got 'drop'"):
        select_users(KNOWN, ["a"], "drop")
    with pytest.raises(DataError, match="got 1 empty ones"):
        select_users(KNOWN, pa.array(["a", None]))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("users.txt", "\ufeffa\n\n010 \r\nb\n"),
        ("users.csv", 'user\n"a"\n010\nb\n'),
        ("users.csv", "age,user\n3,a\n4,010\n5,b\n"),
        ("users.csv", "age;user\n3;a\n4;010\n5;b\n"),
        ("users.jsonl", '{"user": "a"}\n{"user": "010"}\n{"user": "b"}\n'),
        ("users.tsv", "user\tage\na\t1\n010\t2\nb\t3\n"),
    ],
)
def test_ids_of_a_text_file_stay_text(tmp_path, name, text):
    (tmp_path / name).write_text(text, "utf-8")
    assert read_user_ids(tmp_path / name).to_pylist() == ["a", "010", "b"]


def test_parquet_keeps_integers(tmp_path):
    pq.write_table(pa.table({"user": pa.array([3, 5], pa.int32())}), tmp_path / "users.parquet")
    ids = read_user_ids(tmp_path / "users.parquet")
    assert (ids.to_pylist(), ids.type) == ([3, 5], pa.int64())


def test_column_is_chosen_by_name(tmp_path):
    (tmp_path / "u.csv").write_text("member,age\na,1\n")
    assert read_user_ids(tmp_path / "u.csv", "member").to_pylist() == ["a"]
    with pytest.raises(
        DataError, match=r"u.csv:1: expected a column 'user', found member, age; .* --users-column"
    ):
        read_user_ids(tmp_path / "u.csv")


def test_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "u.parquet").write_text("a\n")
    (tmp_path / "u.txt").write_bytes(b"a\n\xff\n")
    (tmp_path / "u.csv").write_text("")
    with pytest.raises(DataError, match=r"u\.parquet: is not a complete Parquet file"):
        read_user_ids(tmp_path / "u.parquet")
    with pytest.raises(DataError, match=r"u\.txt:2: expected utf-8 text, .*; save the file as UTF-8"):
        read_user_ids(tmp_path / "u.txt")
    with pytest.raises(DataError, match=r"u\.csv: is empty"):
        read_user_ids(tmp_path / "u.csv")
    with pytest.raises(DataError, match=r"u\.txt:1: expected a column 'user', found a; "):
        read_user_ids(tmp_path / "u.txt", "user")


def test_line_of_an_empty_id_is_named(tmp_path):
    (tmp_path / "u.csv").write_text("user;age\na;1\n;2\n")
    with pytest.raises(DataError, match=r"u\.csv:3: expected a user id as 'user', got an empty one"):
        read_user_ids(tmp_path / "u.csv")


@pytest.mark.parametrize(
    ("text", "column"),
    [(b"a\n010\n", None), (b"age;user\n1;a\n2;010\n", "user"), (b"user\na\n010\n", "user")],
)
def test_ids_of_a_stream_are_lines_or_a_column(text, column):
    assert read_user_ids(io.BytesIO(text), column).to_pylist() == ["a", "010"]


@pytest.mark.parametrize("raw", [b"user,age\na\x01,3\n", b"user,age\ncaf\xe9,3\n", b"user,age\na\n"])
def test_errors_name_no_options_of_other_commands(tmp_path, raw):
    (tmp_path / "users.csv").write_bytes(raw)
    with pytest.raises(DataError, match=r"users\.csv:2: expected") as caught:
        read_user_ids(tmp_path / "users.csv")
    assert "--" not in str(caught.value)
