import numpy as np
import torch

from shortlist.index.tree import TreeIndex, TreeShape
from shortlist.train.tree.updates.likelihood import sample_instances, strides_of
from shortlist.train.tree.updates.reassign import UpdateRule
from shortlist.train.tree.updates.update import dtr_update, jtm_update
from tests.train.tree.table_scores import TableScorer, world


def test_sampled_instances_are_random_and_keep_the_weight_of_items():
    index, histories, labels = world(6, 2, 500, seed=1)
    used = sample_instances(index.tree, histories, labels, 10, 0)
    assert np.bincount(used.items).max() == 10
    place = {int(item): at for at, item in enumerate(index.tree.item_of_leaf)}
    assert [place[int(one)] for one in labels[used.rows]] == used.items.tolist()
    assert len(set(used.rows.tolist())) == len(used.rows)
    weight = np.bincount(used.items, used.weights.numpy())
    np.testing.assert_allclose(weight, np.bincount(index.tree.leaves(labels).numpy()), rtol=1e-6)
    assert used.counts.sum() == 500


def test_strides_end_at_the_leaves_and_shrink_with_many_children():
    spans = lambda n, branch, stride: [  # noqa: E731
        (one.level, one.below, one.width)
        for one in strides_of(TreeShape(n, branch), stride, TreeShape(n, branch).height)
    ]
    assert spans(10_677, 2, 7) == [(0, 7, 84), (7, 14, 128)]
    assert spans(5, 2, 7) == [(0, 3, 5)]
    assert spans(10_677, 8, 7) == [(0, 3, 167), (3, 5, 64)]
    assert spans(5000, 1000, 7) == [(0, 1, 5), (1, 2, 1000)]
    assert spans(1, 2, 7) == []
    assert [(one.level, one.below) for one in strides_of(TreeShape(2**12), 3, 12, 8)] == [
        (0, 8),
        (8, 11),
        (11, 12),
    ]


def test_scores_of_untrained_levels_do_not_change_an_update():
    index, histories, labels = world(30, 2, 100, seed=2)
    noisy = TreeIndex(index.tree, TableScorer(index.scorer.table.clone()))
    noisy.scorer.table[:, : index.tree.shape.offsets[3]] = torch.randn(40, index.tree.shape.offsets[3]) * 9
    for learn in (dtr_update, jtm_update):
        one, two = (learn(one, histories, labels, UpdateRule(stride=2, first=3)) for one in (index, noisy))
        assert torch.equal(one[0], two[0])
        assert one[1] == two[1]


def test_a_tree_with_trained_leaves_only_and_item_embeddings_stays():
    index, histories, labels = world(24, 2, 100, leaf_vectors="item")
    leaves, report = dtr_update(index, histories, labels, UpdateRule(first=index.tree.shape.height))
    assert torch.equal(leaves, index.tree.item_of_leaf)
    assert report.groups == 0
