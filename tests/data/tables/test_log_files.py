import io
import zipfile
from pathlib import Path

import pytest

from shortlist.data.tables.files import File
from shortlist.data.tables.log_files import log_files
from shortlist.errors import DataError


def test_files_keep_their_order_and_those_of_a_folder_or_pattern_are_sorted(put, tmp_path):
    b, a, deep = put("logs/b.csv", "1"), put("logs/a.csv", "1"), put("logs/day=1/c.csv", "1")
    put("logs/_SUCCESS", "")
    put("logs/.hidden.csv", "1")
    assert log_files([b, str(a)]) == (File(b), File(a))
    assert log_files(tmp_path / "logs") == (File(a), File(b), File(deep))
    assert log_files(f"{tmp_path}/logs/*.csv") == (File(a), File(b))
    assert log_files(f"{tmp_path}/logs/**/*.csv") == (File(a), File(b), File(deep))


def test_a_name_with_brackets_that_exists_is_no_pattern(put):
    path = put("log[1].csv", "1")
    assert log_files(path) == (File(path),)


def test_the_members_of_a_zip_are_files_without_the_notes_of_the_system(tmp_path):
    path = tmp_path / "log.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("b.csv", "a.csv", "__MACOSX/a.csv"):
            archive.writestr(name, "1")
    assert log_files(path) == (File(path, "a.csv"), File(path, "b.csv"))


def test_a_zip_with_a_readme_is_read_without_it(tmp_path):
    path, plain = tmp_path / "log.zip", tmp_path / "plain.zip"
    for archive_path, names in ((path, ("README.md", "a.csv.gz", "b.CSV")), (plain, ("README", "u.data"))):
        with zipfile.ZipFile(archive_path, "w") as archive:
            for name in names:
                archive.writestr(name, "1")
    assert log_files(path) == (File(path, "a.csv.gz"), File(path, "b.CSV"))
    assert log_files(plain) == (File(plain, "README"), File(plain, "u.data")), (
        "no suffix tells which is the log"
    )


def test_a_binary_stream_can_be_opened_repeatedly():
    (file,) = log_files(io.BytesIO(b"1,2\n"))
    for _ in range(2):
        with file.opened() as stream:
            assert stream.read() == b"1,2\n"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("none*.csv", r"none\*.csv: no file matches this pattern; check it"),
        ("none.csv", r"none.csv: not found; expected a file"),
        ([], r"expected at least one file, got an empty list of paths"),
        (io.BytesIO(), r"<stream>: is empty; expected at least one line"),
        (io.StringIO("a"), r"<stream>: expected a binary stream, got text; open it with mode 'rb'"),
        ({"user": [1]}, r"expected a path, a binary stream or a data frame with an Arrow stream, got dict"),
    ],
)
def test_what_is_no_file_is_refused(source, message):
    with pytest.raises(DataError, match=message):
        log_files(source)


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"is a folder without files; expected at least one file of events$"):
        log_files(Path(tmp_path))
