"""Small trees with scores from a table, held-out users and catalogues to diagnose them with."""

import numpy as np
import pyarrow as pa
import torch

from shortlist.data import Catalog, HeldOut, Interactions, Vocabulary
from shortlist.diagnose.tree.max_heap import subtree_max
from shortlist.index.tree import TreeIndex, grow
from tests.index.tree.tabular import Rows, random_rows

NOTHING = float("-inf")


def max_heap_index(users, n, branch=2, seed=0, spare=0.0):
    """Scores of every level increase with the best leaf below, by a different function per level."""
    index = random_rows(users, n, branch, seed, spare)
    tree, shape = index.tree, index.tree.shape
    leaves = index.scorer.table[:, shape.offsets[-1] :].masked_fill(tree.item_of_leaf < 0, -9.0)
    peaks = subtree_max(shape, leaves)
    table = torch.cat([(level + 1) * one.sigmoid() - 5 * level for level, one in enumerate(peaks)], 1)
    return TreeIndex(tree, Rows(table))


def constant(users, n):
    tree = grow(torch.arange(n), n)
    return TreeIndex(tree, Rows(torch.zeros(users, tree.shape.n_nodes)))


def held_out(histories, relevant, n_items):
    """Held-out users with these histories and relevant items."""
    users = [user for user, (a, b) in enumerate(zip(histories, relevant, strict=True)) for _ in (*a, *b)]
    items = [item for a, b in zip(histories, relevant, strict=True) for item in (*a, *b)]
    events = Interactions.of(np.array(users), np.array(items), n_items=n_items)
    starts = events.starts[:-1].astype(np.int64)
    cuts = starts + [len(one) for one in histories]
    return HeldOut(events, starts, cuts, cuts + [len(one) for one in relevant])


def random_held_out(users, n_items, seed=0, relevant=3):
    random = np.random.default_rng(seed)
    histories = [random.permutation(n_items)[:2].tolist() for _ in range(users)]
    return held_out(
        histories, [random.permutation(n_items)[:relevant].tolist() for _ in range(users)], n_items
    )


def catalog_of(categories):
    """A catalogue of items with these categories."""
    ids = Vocabulary.of(list(range(len(categories))))
    return Catalog(ids, pa.table({"category": [str(one) for one in categories]}))


def below(shape, level, node):
    return list(shape.leaves(level, node))
