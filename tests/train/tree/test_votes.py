import numpy as np

from shortlist.index.tree import TreeShape
from shortlist.train.tree.votes import steps_of, voters_of
from tests.train.tree.told import world


def test_the_cap_draws_at_random_and_keeps_the_weight_of_items():
    index, histories, labels = world(6, 2, 500, seed=1)
    voters = voters_of(index.tree, histories, labels, 10, 0)
    assert np.bincount(voters.places).max() == 10
    place = {int(item): at for at, item in enumerate(index.tree.item_of_leaf)}
    assert [place[int(one)] for one in labels[voters.rows]] == voters.places.tolist()
    assert len(set(voters.rows.tolist())) == len(voters.rows)
    weight = np.bincount(voters.places, voters.weights.numpy())
    np.testing.assert_allclose(weight, np.bincount(index.tree.leaves(labels).numpy()), rtol=1e-6)
    assert voters.counts.sum() == 500


def test_strides_end_at_the_leaves_and_shrink_where_branches_are_many():
    spans = lambda n, branch, stride: [  # noqa: E731
        (one.level, one.below, one.width)
        for one in steps_of(TreeShape(n, branch), stride, TreeShape(n, branch).height)
    ]
    assert spans(10_677, 2, 7) == [(0, 7, 84), (7, 14, 128)]
    assert spans(5, 2, 7) == [(0, 3, 5)]
    assert spans(10_677, 8, 7) == [(0, 3, 167), (3, 5, 64)]
    assert spans(5000, 1000, 7) == [(0, 1, 5), (1, 2, 1000)]
    assert spans(1, 2, 7) == []
