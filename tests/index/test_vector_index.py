"""What every index does at its door; `test_kinds` holds all kinds to it."""

import pytest
import torch

from shortlist.errors import DataError
from shortlist.index.vector_index import VectorIndex, checked_vectors, plain_vectors


def test_vectors_are_made_plain():
    wide = torch.nn.Parameter(torch.arange(12.0, dtype=torch.float64).reshape(3, 4))
    plain = plain_vectors(wide[:, ::2])
    assert plain.is_contiguous()
    assert not plain.requires_grad
    assert (plain.dtype, plain.tolist()) == (torch.float32, [[0, 2], [4, 6], [8, 10]])


def test_vectors_that_are_no_numbers_are_refused_by_row():
    assert checked_vectors(torch.zeros(0, 3)).shape == (0, 3)
    with pytest.raises(DataError, match="row 1 is not all finite"):
        checked_vectors(torch.tensor([[0.0], [torch.inf]]))
    with pytest.raises(DataError, match=r"D from 1, got \[3, 0\]"):
        checked_vectors(torch.zeros(3, 0))


def test_an_index_that_cannot_search_cannot_be():
    with pytest.raises(TypeError, match="abstract"):
        VectorIndex()  # type: ignore[abstract]
