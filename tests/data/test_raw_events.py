"""Raw events: ids are encoded as rows, in any order and encoding."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.data import RawEvents
from shortlist.data.raw_events import dictionary_ids, encode_ids

ids = st.one_of(
    st.lists(st.text(alphabet="ab\x00é", max_size=3), max_size=30),
    st.lists(st.integers(-(2**62), 2**62), max_size=30),
)


def typed(values):
    return pa.array(values, type=pa.int64() if values and isinstance(values[0], int) else pa.string())


@settings(max_examples=100, deadline=None)
@given(ids, st.randoms())
def test_the_vocabulary_is_sorted_and_does_not_depend_on_the_order_of_the_rows(values, random):
    vocabulary, rows = encode_ids(typed(values))
    assert vocabulary.ids_of(rows) == values
    known = vocabulary.ids.to_pylist()
    assert known == sorted(set(values), key=lambda one: one.encode() if isinstance(one, str) else one)
    order = list(range(len(values)))
    random.shuffle(order)
    again, moved = encode_ids(typed([values[at] for at in order]))
    assert again == vocabulary
    assert moved.tolist() == rows[order].tolist()


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["b", "a", "b"]),
        pa.chunked_array([["b"], ["a", "b"]]),
        pa.array(["b", "a", "b"]).dictionary_encode(),
        pa.chunked_array([pa.array(["b"]).dictionary_encode(), pa.array(["a", "b"]).dictionary_encode()]),
        pa.DictionaryArray.from_arrays([2, 0, 3], ["a", "unused", "b", "b"]),
    ],
    ids=["plain", "chunks", "dictionary", "dictionary chunks", "a repeated and an unused entry"],
)
def test_every_encoding_of_a_column_gives_the_same_rows(column):
    vocabulary, rows = encode_ids(column)
    assert vocabulary.ids.to_pylist() == ["a", "b"]
    assert rows.tolist() == [1, 0, 1]
    assert rows.dtype == np.int32


def test_a_compact_dictionary_is_returned_unchanged():
    column = pa.array(["b", "a"]).dictionary_encode()
    assert dictionary_ids(column) is column


@pytest.mark.parametrize("empty", [pa.array([], pa.string()), pa.chunked_array([], pa.int64())])
def test_an_empty_column_has_an_empty_vocabulary(empty):
    vocabulary, rows = encode_ids(empty)
    assert (len(vocabulary), len(rows)) == (0, 0)


def test_a_dictionary_without_chunks_has_an_empty_vocabulary():
    vocabulary, rows = encode_ids(pa.chunked_array([], pa.dictionary(pa.int32(), pa.string())))
    assert (len(vocabulary), len(rows)) == (0, 0)


def test_the_length_is_the_number_of_events():
    assert len(RawEvents(pa.array([1, 2]), pa.array([3, 4]))) == 2
