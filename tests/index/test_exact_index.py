import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.index import make_index, search
from shortlist.index.exact_index import ExactIndex


def test_vectors_are_not_copied():
    vectors = torch.randn(20, 4)
    index = make_index("exact", vectors)
    assert isinstance(index, ExactIndex)
    assert index.vectors.data_ptr() == vectors.data_ptr()
    assert ExactIndex.build({}, index.tensors()).vectors.data_ptr() == vectors.data_ptr()
    assert torch.equal(index.search(vectors[:2], 3)[0], search(vectors, vectors[:2], 3)[0])


def test_the_exact_index_has_no_settings():
    index = make_index("exact", torch.zeros(2, 2))
    assert index.tuned() is index
    with pytest.raises(ConfigError, match="has no settings, got ef"):
        index.tuned(ef=5)
