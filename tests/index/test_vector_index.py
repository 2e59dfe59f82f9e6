"""Checks of vectors and of the interface; `test_registry` runs the contract on every kind."""

import pytest
import torch

from shortlist.errors import DataError
from shortlist.index.vector_index import VectorIndex, checked_vectors, plain_vectors


def test_vectors_become_contiguous_float32_without_gradients():
    wide = torch.nn.Parameter(torch.arange(12.0, dtype=torch.float64).reshape(3, 4))
    plain = plain_vectors(wide[:, ::2])
    assert plain.is_contiguous()
    assert not plain.requires_grad
    assert (plain.dtype, plain.tolist()) == (torch.float32, [[0, 2], [4, 6], [8, 10]])


def test_non_finite_vectors_are_refused_by_row():
    assert checked_vectors(torch.zeros(0, 3)).shape == (0, 3)
    with pytest.raises(DataError, match="row 1 is not all finite"):
        checked_vectors(torch.tensor([[0.0], [torch.inf]]))
    with pytest.raises(DataError, match=r"D from 1, got \[3, 0\]"):
        checked_vectors(torch.zeros(3, 0))


def test_an_index_without_search_cannot_be_instantiated():
    with pytest.raises(TypeError, match="abstract"):
        VectorIndex()  # type: ignore[abstract]
