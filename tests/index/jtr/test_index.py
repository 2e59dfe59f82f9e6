"""JTRIndex: validation and round trip."""

import pytest
import torch

from shortlist.errors import ArtifactError, ConfigError
from shortlist.index.jtr import JTRIndex
from tests.index.jtr.leaf_trees import grown, uneven


def test_settings_and_tensors_round_trip():
    index, _ = grown()
    back = JTRIndex.build(index.settings(), index.tensors())
    assert torch.equal(back.nodes, index.nodes)
    assert torch.equal(back.tree.rows, index.tree.rows)


def test_every_node_needs_a_vector():
    with pytest.raises(ConfigError, match="a vector for each of 5 nodes, got \\[4, 8\\]"):
        JTRIndex(uneven(), torch.zeros(4, 8))


@pytest.mark.parametrize(
    "nodes", [None, torch.zeros(4, 8), torch.full((5, 8), torch.nan), torch.zeros(5, 8).int()], ids=str
)
def test_invalid_node_vectors_are_refused(nodes):
    index = JTRIndex(uneven(), torch.zeros(5, 8))
    with pytest.raises(ArtifactError, match="make the artifact again"):
        JTRIndex.build(index.settings(), {**index.tensors(), "nodes": nodes})
