from collections import Counter

import numpy as np
import pytest
import torch

from shortlist.diagnose.tree.purity import dominant, purity
from shortlist.index.tree import grow


def by_hand(tree, categories, level):
    found = []
    for node in range(tree.shape.sizes[level]):
        items = [int(tree.item_of_leaf[leaf]) for leaf in tree.shape.leaves(level, node)]
        counts = Counter(int(categories[item]) for item in items if item >= 0)
        if counts:
            kind = min(kind for kind, count in counts.items() if count == max(counts.values()))
            found.append((node, counts.total(), kind, counts[kind] / counts.total()))
    return found


@pytest.mark.parametrize(("n", "branch", "spare"), [(17, 2, 0), (40, 3, 0.7), (1, 2, 0)])
def test_the_most_common_category_is_that_of_counting(n, branch, spare):
    random = np.random.default_rng(n)
    tree = grow(torch.from_numpy(random.permutation(n)), n, branch, spare)
    categories = random.integers(0, 4, n)
    found = purity(tree, categories)
    assert len(found) == tree.shape.height + 1
    for level, (pure, _) in enumerate(found):
        expected = by_hand(tree, categories, level)
        assert dominant(tree, categories, level) == expected
        assert pure == pytest.approx(np.mean([share for *_, share in expected]))


def test_a_tree_ordered_by_category_is_purer_than_a_random_one():
    categories = np.repeat(np.arange(4), 16)
    sorted_tree, mixed = (
        grow(torch.from_numpy(order), 64)
        for order in (np.arange(64), np.random.default_rng(0).permutation(64))
    )
    assert [round(pure, 6) for pure, _ in purity(sorted_tree, categories)] == [0.25, 0.5, 1, 1, 1, 1, 1]
    for pure, baseline in purity(mixed, categories):
        assert pure == pytest.approx(baseline, abs=0.1)


def test_the_baseline_follows_from_the_seed():
    tree, categories = grow(torch.arange(32), 32), np.arange(32) % 5
    assert purity(tree, categories, 1) == purity(tree, categories, 1)
    assert purity(tree, categories, 1) != purity(tree, categories, 2)
