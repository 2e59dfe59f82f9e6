import numpy as np
import pytest
import torch

from shortlist.data import Interactions
from shortlist.index.tree import grow
from shortlist.lab.experiments.trees.table5 import _first_levels, _Pairs, dtr_table5, perturbed, probabilities
from tests.lab.experiments.results import check_result, ids, points

EVENTS = Interactions.of(
    np.array([0, 0, 0, 0, 1, 1]), np.array([0, 0, 1, 3, 2, 3]), np.arange(6), n_users=3, n_items=4
)


def test_probabilities_are_counts_over_their_sum():
    expected = [[0.5, 0.25, 0, 0.25], [0, 0, 0.5, 0.5], [0, 0, 0, 0]]
    assert probabilities(EVENTS).toarray().tolist() == expected


def test_noise_stays_within_its_limit_and_on_nonzero_entries():
    exact = probabilities(EVENTS)
    noisy = perturbed(exact, 0.01, 0)
    assert ((noisy.toarray() > 0) == (exact.toarray() > 0)).all()
    assert np.abs(noisy.toarray() - exact.toarray()).max() < 0.025  # 0.01, then normalised by sums near 1
    assert np.allclose(noisy.sum(1)[:2], 1)
    assert exact.toarray()[0, 0] == 0.5  # the input is unchanged


def test_large_noise_leaves_finite_nonnegative_values():
    noisy = perturbed(probabilities(EVENTS), 100.0, 3)
    assert np.isfinite(noisy.toarray()).all()
    assert (noisy.toarray() >= 0).all()


def test_ties_win_or_the_lower_leaf_wins():
    """User 1 has items 2 and 3 equally often; they share the node of level 1 on the tree 0 1 | 2 3."""
    tree = grow(torch.arange(4), 4)
    pairs = _Pairs(torch.tensor([1, 1]), torch.tensor([2, 3]))
    exact = probabilities(EVENTS)
    assert _first_levels(tree, pairs, exact, "ties win").tolist() == [1, 1]
    assert _first_levels(tree, pairs, exact, "one winner").tolist() == [1, 2]


def test_shares_of_changed_labels_lie_between_0_and_1():
    result = dtr_table5(None, "quick", [0, 1])
    check_result(result, "dtr-table5")
    for rule in ("one winner", "ties win"):
        shares = points(result, f"{rule} on world", "share of labels that change")
        assert list(shares) == [1e-7, 1e-2]
        assert all(0 < share < 1 for share in shares.values())
    assert "more noise changes more labels on world" in ids(result)


@pytest.mark.data
def test_the_published_shares_of_mind_are_reproduced(real_data, monkeypatch):
    monkeypatch.setattr("shortlist.lab.experiments.trees.table5.PAIRS", 3000)
    claims = {one.id: one for one in dtr_table5(real_data, "full", [0]).claims}
    assert claims["share of labels that change at 1e-07 as published on mind"].holds
    assert claims["share of labels that change at 0.01 as published on mind"].holds
