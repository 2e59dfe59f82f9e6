import lzma

import numpy as np
import pytest

from shortlist.data.sources.xmc import read_features, read_xmc
from shortlist.errors import DataError

TEXT = "3 4 5\n0,4 0:0.5 3:1\n 1:2.5\n2 \n"


def test_documents_are_users_and_labels_are_items(put, events_of):
    raw = read_xmc(put("train.txt", TEXT))
    assert [event[:2] for event in events_of(raw)] == [(0, 0), (0, 4), (2, 2)]
    assert (raw.read, raw.dropped) == (4, {"document without labels": 1})


def test_features_are_read_per_document(put):
    features = read_features(put("train.txt.gz", TEXT))
    assert np.array_equal(features.toarray(), [[0.5, 0, 0, 1], [0, 2.5, 0, 0], [0, 0, 0, 0]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3 4\n", ":1: expected a header 'rows features labels'"),
        ("2 4 5\n0 0:1\n", ":1: expected 2 documents as the header says, got 1"),
        ("1 4 5\n9 0:1\n", ":2: expected a label below 5"),
        ("2 4 5\n0 0:1\nx 0:1\n", ":3: expected a label below 5, got b'x'"),
    ],
)
def test_bad_labels_are_reported_with_their_line(put, text, message):
    path = put("train.txt", text)
    with pytest.raises(DataError) as error:
        read_xmc(path)
    assert str(error.value).startswith(f"{path}{message}")


@pytest.mark.parametrize("pair", ["7:1", "0:x", "0", "0:nan", "0:1:2", "0:"])
def test_bad_features_are_reported_with_their_line(put, pair):
    with pytest.raises(DataError, match=r"train.txt:3: expected feature:value"):
        read_features(put("train.txt", f"2 4 5\n0 0:1\n1 {pair}\n"))


def test_a_truncated_archive_is_refused(tmp_path):
    path = tmp_path / "train.txt.xz"
    path.write_bytes(lzma.compress(TEXT.encode())[:-10])
    with pytest.raises(DataError, match=r"cannot be read to its end"):
        read_xmc(path)


@pytest.mark.data
@pytest.mark.parametrize(("name", "documents"), [("train", 15_539), ("test", 3_809)])
def test_the_published_counts_of_eurlex_hold(real, name, documents):
    path = real(f"eurlex-4k/eurlex_{name}.txt.xz")
    raw, features = read_xmc(path), read_features(path)
    assert features.shape == (documents, 5_000)
    assert len(raw.users.dictionary) + raw.dropped.get("document without labels", 0) == documents
    assert max(raw.items.dictionary.to_pylist()) < 3_993
