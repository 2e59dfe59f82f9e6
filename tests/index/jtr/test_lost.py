"""What a narrow beam costs, in shares of the best."""

import pytest
import torch

from shortlist.index.jtr import JTRIndex, lost_by_beam
from tests.index.jtr.groves import grove, uneven, vectors_of


def test_the_wider_the_beam_the_less_is_lost_and_the_widest_loses_nothing():
    index, vectors = grove()
    lost = [lost_by_beam(index, vectors, vectors_of(40, seed=1), 10, beam) for beam in (1, 3, 9, 10**6)]
    assert lost == sorted(lost, reverse=True)
    assert lost[0] > 0.3
    assert lost[-1] == 0


def test_it_counts_what_is_not_found():
    index = JTRIndex(uneven(), torch.tensor([[0.0], [2.0], [1.0], [1.0], [0.0]]))
    vectors, query = torch.arange(7.0)[:, None], torch.ones(1, 1)
    # The walk goes to the leaf of 0, 4 and 5; the best are 6, 5, 4, 3.
    assert lost_by_beam(index, vectors, query, 4, 1) == pytest.approx(0.5)
    assert lost_by_beam(index, vectors, query, 4, 1, torch.tensor([[6, 3, 1, 2]])) == 0
