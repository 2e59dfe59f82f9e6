"""Sizes of records, and vectors that come out as the kernel rounded them."""

import numpy as np
import pytest

from shortlist.models.sequence.gru_kernel import advance, kernel_weights
from shortlist.state.table.records import FACTS, FORMATS, record_type, set_vectors, vectors_of
from tests.models.sequence.test_gru_kernel import weights


@pytest.mark.parametrize(("storage", "size"), [("fp32", 288), ("fp16", 160), ("int8", 104)])
def test_record_has_the_size_of_the_specification(storage, size):
    """Spec test 36."""
    kind = record_type(64, storage)
    assert kind.itemsize == size
    assert np.zeros(3, kind).nbytes == 3 * size
    assert sum(np.dtype(kind[name]).itemsize for name, _ in FACTS) == 29


@pytest.mark.parametrize("storage", FORMATS)
@pytest.mark.parametrize("width", [1, 7, 8, 64, 67])
def test_record_has_no_gap(storage, width):
    """Numpy copies no gaps: records that are equal would differ in some bytes."""
    kind = record_type(width, storage)
    assert sum(kind[name].itemsize for name in kind.names) == kind.itemsize
    assert kind.itemsize % 8 == 0


@pytest.mark.parametrize("storage", FORMATS)
def test_stored_vectors_have_the_bits_that_the_kernel_returned(storage):
    rng = np.random.default_rng(0)
    states = rng.normal(size=(200, 8)).astype(np.float32)
    states[0] = 0
    nothing = np.zeros((200, 0), np.float32)
    starts, items = np.arange(201), np.zeros(200, np.int32)
    found = advance(states, starts, items, states, kernel_weights(weights()), nothing, FORMATS[storage])
    records = np.zeros(200, record_type(8, storage))
    set_vectors(records, *found)
    assert vectors_of(records).tobytes() == found[0].tobytes()
