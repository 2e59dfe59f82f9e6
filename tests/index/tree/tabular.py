"""Untrained scorers that read scores from a table, exact in float32."""

import torch

from shortlist.index.tree import TreeIndex, grow, n_rows
from shortlist.models.nodes import NodeScorer, ScorerConfig


class Rows(NodeScorer):
    """The score of a row for the u-th user of a batch is table[u, row]; histories are not read."""

    def __init__(self, table, n_items=0):
        history = "item" if n_items else "ancestor"
        super().__init__(ScorerConfig(table.shape[1], n_items, "linear", width=1, history=history))
        self.register_buffer("table", table.float())
        self.eval()

    def prepare(self, history):
        return (torch.arange(len(history)),)

    def score(self, state, rows):
        return self.table[state[0]].gather(1, rows)

    def score_all(self, state, rows):
        return self.table[state[0]][:, rows]

    def score_vectors(self, state, w):
        raise NotImplementedError

    def naive(self, history, rows):
        return self.score(self.prepare(history), rows)


class Pairs(Rows):
    """The score of a row is the sum over the history of table[history row, row]: integers, so exact."""

    def prepare(self, history):
        seen = torch.nn.functional.one_hot(history + 1, len(self.table) + 1)[:, :, 1:]  # [U, K, rows]
        return (seen.sum(1).float() @ self.table,)

    def score(self, state, rows):
        return state[0].gather(1, rows)

    def score_all(self, state, rows):
        return state[0][:, rows]


def rows_index(table, n, branch=2, order=None, spare=0.0):
    """An index over n items whose node scores are `table` [U, rows]."""
    order = torch.arange(n) if order is None else order
    return TreeIndex(grow(order, n, branch, spare), Rows(table))


def random_rows(users, n, branch=2, seed=0, spare=0.0, ties=0, order=None):
    """An index with random scores; `ties` is the number of distinct ones."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(n, generator=generator) if order is None else order
    tree = grow(order, n, branch, spare)
    size = (users, tree.shape.n_nodes)
    table = torch.randint(ties, size, generator=generator) if ties else torch.randn(size, generator=generator)
    return TreeIndex(tree, Rows(table))


def random_pairs(n, branch=2, seed=0, leaf_vectors="slot", history="ancestor", spare=0.0):
    """An index whose scores depend on the history; integers."""
    generator = torch.Generator().manual_seed(seed)
    tree = grow(torch.randperm(n, generator=generator), n, branch, spare)
    rows = n_rows(tree.shape, n, leaf_vectors)
    table = torch.randint(-99, 99, (rows if history == "ancestor" else n, rows), generator=generator)
    return TreeIndex(tree, Pairs(table, n if history == "item" else 0), leaf_vectors)


def no_histories(users):
    """Empty histories."""
    return torch.full((users, 3), -1)


def leaf_scores(index):
    """Scores of all leaves [U, slots], -inf for free slots."""
    scores = index.scorer.table[:, index.level_rows(index.tree.shape.height)]
    return scores.masked_fill(index.tree.item_of_leaf < 0, float("-inf"))
