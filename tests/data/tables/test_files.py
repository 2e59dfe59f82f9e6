import bz2
import gzip
import lzma
import zipfile

import pyarrow as pa
import pytest

from shortlist.data.tables.files import File, find_file, members, one_file, require_file
from shortlist.errors import DataError


def zstd(blob):
    return pa.compress(blob, codec="zstd", asbytes=True)


def packed(path, **entries):
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in entries.items():
            archive.writestr(name.replace("__", "/"), text)
    return path


def test_plain_and_compressed_files_can_be_read_repeatedly(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"1,2\n")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"1,2\n"))
    (tmp_path / "a.csv.xz").write_bytes(lzma.compress(b"1,2\n"))
    (tmp_path / "a.csv.bz2").write_bytes(bz2.compress(b"1,2\n"))
    (tmp_path / "a.csv.zst").write_bytes(pa.compress(b"1,2\n", codec="zstd", asbytes=True))
    (tmp_path / "a").write_bytes(gzip.compress(b"1,2\n"))  # without its suffix
    archive = packed(tmp_path / "a.zip", a="1,2\n", b=gzip.compress(b"1,2\n"))
    names = ("a.csv", "a.csv.gz", "a.csv.xz", "a.csv.bz2", "a.csv.zst", "a")
    for file in (*(one_file(tmp_path / name) for name in names), File(archive, "b"), File(archive, "a")):
        for _ in range(2):
            with file.opened() as stream:
                assert stream.read() == b"1,2\n", file.name
    assert file.name == f"{archive}:a"


@pytest.mark.parametrize(
    ("end", "pack"), [("gz", gzip.compress), ("xz", lzma.compress), ("bz2", bz2.compress), ("zst", zstd)]
)
def test_a_truncated_file_is_refused_by_name(tmp_path, end, pack):
    path = tmp_path / f"a.{end}"
    path.write_bytes(pack(b"1,2\n")[:-6])
    message = rf"a.{end}: cannot be read to its end \(.+\); it is truncated or damaged, download it again$"
    with pytest.raises(DataError, match=message), File(path).opened() as stream:
        stream.read()


def test_a_file_must_exist_and_not_be_empty(tmp_path):
    (tmp_path / "empty").touch()
    for name, message in (
        ("nothing", "not found; expected a file"),
        (".", "is a folder; expected a file"),
        ("empty", "is empty; expected at least one line"),
    ):
        with pytest.raises(DataError) as caught:
            one_file(tmp_path / name)
        assert str(caught.value) == f"{tmp_path / name}: {message}"


def test_find_file_looks_in_the_folder_then_one_below(put, tmp_path):
    below, aside = put("b/x.csv", "1"), put("c/y.csv", "1")
    put("a/deep/x.csv", "1")
    assert find_file(tmp_path, "x.csv") == File(below)
    above = put("x.csv", "1")
    assert find_file(tmp_path, "x.csv") == File(above)
    assert find_file(aside, "x.csv") is None
    assert find_file(below, "x.csv") == File(below)
    with pytest.raises(DataError, match=r"none: not found; expected a folder, a zip or a file$"):
        find_file(tmp_path / "none", "x.csv")


def test_a_member_of_a_zip_is_found_by_its_base_name(tmp_path):
    archive = packed(tmp_path / "a.zip", ml__notes="n", ml__x="1")
    assert find_file(archive, "x") == File(archive, "ml/x")
    assert find_file(archive, "ml") is None
    assert members(archive) == ["ml/notes", "ml/x"]


def test_require_file_returns_the_first_name_unless_a_file_is_given(put, tmp_path):
    first, second = put("a.csv", "1"), put("b.csv", "1")
    assert require_file(tmp_path, ("a.csv", "b.csv")) == File(first)
    assert require_file(second, ("a.csv", "b.csv")) == File(second)
    message = r": expected one of c.csv, d.csv in it, found none; check the path$"
    with pytest.raises(DataError, match=message):
        require_file(tmp_path, ("c.csv", "d.csv"))


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "..\\x", "C:\\x", "C:/x"])
def test_a_zip_with_member_names_that_point_outside_is_refused(tmp_path, name):
    with pytest.raises(DataError, match=r"which points outside of it; do not trust it$"):
        members(packed(tmp_path / "a.zip", **{name: "1"}))


def test_an_invalid_or_encrypted_zip_is_refused(tmp_path, put):
    with pytest.raises(DataError, match=r"no.zip: is not a complete zip file \(.+\); download it again$"):
        members(put("no.zip", "1"))
    archive = packed(tmp_path / "a.zip", x="1")
    blob = bytearray(archive.read_bytes())
    blob[blob.index(b"PK\x01\x02") + 8] |= 1  # the flag in the directory that says: encrypted
    archive.write_bytes(blob)
    with pytest.raises(DataError, match=r"a.zip:x: is encrypted; expected a plain zip$"):
        members(archive)
