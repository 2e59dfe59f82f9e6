"""Blockwise indexing equals plain numpy indexing."""

import numpy as np
import pytest

from shortlist.data import blocks


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 4)


@pytest.mark.parametrize("count", [0, 1, 4, 9])
def test_blockwise_indexing_equals_numpy(count):
    rng = np.random.default_rng(count)
    column, places = rng.random((7, 2)), rng.integers(0, 7, count).astype(np.int32)
    assert (blocks.take(column, places) == column[places]).all()
    assert (blocks.mask_of(places, 7) == np.isin(np.arange(7), places)).all()
    mask = rng.random(count) < 0.5
    found = blocks.positions_of(mask, 3)
    assert found.dtype == np.int32
    assert found.tolist() == (np.flatnonzero(mask) + 3).tolist()
