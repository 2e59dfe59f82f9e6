"""Vocabularies: ids to rows and back."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.data import UNKNOWN, Vocabulary


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(st.text(max_size=5)), unique=True), st.lists(st.text(max_size=5)))
def test_rows_and_ids_are_inverse_and_other_ids_are_unknown(ids, others):
    vocabulary = Vocabulary.of(ids)
    assert len(vocabulary) == len(ids)
    assert vocabulary.rows(ids).tolist() == list(range(len(ids)))
    assert vocabulary.ids_of(range(len(ids))) == ids
    assert [vocabulary.row(other) for other in others] == [
        ids.index(o) if o in ids else UNKNOWN for o in others
    ]


def test_encoding_a_column_equals_encoding_one_by_one():
    vocabulary = Vocabulary.of([30, 10, 20])
    column = pa.chunked_array([[10, 99], [30, 20, 10]])
    assert (
        vocabulary.encode(column).tolist() == vocabulary.rows(column.to_pylist()).tolist() == [1, -1, 0, 2, 1]
    )
    assert vocabulary.encode(column).dtype == np.int32


@pytest.mark.parametrize(
    ("ids", "asked", "row"),
    [
        ([5, -7], "5", 0),
        ([5, -7], "-7", 1),
        ([5, -7], "--7", UNKNOWN),
        ([5, -7], "5.0", UNKNOWN),
        ([5, -7], "9" * 5000, UNKNOWN),
        ([5, -7], "", UNKNOWN),
        (["5", "x"], 5, 0),
        (["5", "x"], "X", UNKNOWN),
    ],
)
def test_an_id_given_as_text_finds_a_number_and_a_number_finds_text(ids, asked, row):
    assert Vocabulary.of(ids).row(asked) == row


def test_equality_and_fingerprint_depend_on_order_and_type():
    assert Vocabulary.of([1, 2]) == Vocabulary.of([1, 2])
    assert hash(Vocabulary.of([1, 2])) == hash(Vocabulary.of([1, 2]))
    for other in (Vocabulary.of([2, 1]), Vocabulary.of(["1", "2"]), Vocabulary.of([1])):
        assert Vocabulary.of([1, 2]) != other
        assert Vocabulary.of([1, 2]).fingerprint != other.fingerprint
    assert Vocabulary.of([1]) != [1]


def test_a_vocabulary_can_be_empty():
    assert len(Vocabulary.of([])) == 0
    assert Vocabulary.of([]).row("a") == UNKNOWN
    assert Vocabulary.of([]).ids_of([]) == []


def test_text_finds_an_integer_only_as_it_is_written():
    integers = Vocabulary.of([10, -3, 0])
    assert [integers.row(text) for text in ("10", "-3", "0")] == [0, 1, 2]
    assert [integers.row(text) for text in ("010", "+10", "-03", "00", "-0", " 10", "1e1")] == [-1] * 7
    assert [Vocabulary.of(["010"]).row(value) for value in ("010", "10", 10)] == [0, -1, -1]
