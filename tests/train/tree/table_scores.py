"""A tree with scores from a table, and a slow reference implementation of tree updates."""

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812

from shortlist.index.tree import Tree, TreeIndex, grow, n_rows
from shortlist.models.nodes import NodeScorer, ScorerConfig
from shortlist.train.tree.updates.likelihood import strides_of


class TableScorer(NodeScorer):
    """The score of a row for user u is table[u, row]; a history is the number of its user."""

    def __init__(self, table):
        users, rows = table.shape
        super().__init__(ScorerConfig(rows, users, "linear", width=1, history="item"))
        self.register_buffer("table", table.float())
        self.eval()

    def prepare(self, history):
        return (self.table[history[:, -1]],)

    def score(self, state, rows):
        return state[0].gather(1, rows)

    def score_all(self, state, rows):
        return state[0][:, rows]

    def score_vectors(self, state, w):
        raise NotImplementedError

    def naive(self, history, rows):
        return self.score(self.prepare(history), rows)


def world(n=20, branch=2, instances=60, seed=0, spare=0.0, gone=0, leaf_vectors="slot", users=40):
    """An index with random scores, heavy-tailed labels; the last `gone` items are not in the tree."""
    random = torch.Generator().manual_seed(seed)
    tree = grow(torch.randperm(n, generator=random), n, branch, spare)
    leaves = torch.where(tree.item_of_leaf >= n - gone, -1, tree.item_of_leaf)
    tree = Tree(tree.shape, leaves, n)
    rows = n_rows(tree.shape, n, leaf_vectors)
    index = TreeIndex(tree, TableScorer(torch.randn((max(users, n), rows), generator=random)), leaf_vectors)
    histories = torch.randint(0, max(users, n), (instances, 1), generator=random)
    labels = (n * torch.rand(instances, generator=random) ** 2).long()
    return index, histories, labels


def by_hand(index, histories, labels, stride, measure):
    """The new leaves and the log-likelihood they have, item by item, node by node, popular first, without guard."""
    shape, leaves = index.tree.shape, index.tree.item_of_leaf.tolist()
    of = {item: [] for item in leaves if item >= 0}
    for history, label in zip(histories[:, -1].tolist(), labels.tolist(), strict=True):
        of.get(label, []).append(history)
    nodes, total = {(0, 0): [item for item in leaves if item >= 0]}, 0.0
    for level in range(0, shape.height, stride):
        below = min(level + stride, shape.height)
        assigned = {}
        for (_, node), items in nodes.items():
            width = shape.width(below)
            room = {}
            for slot in shape.leaves(level, node):
                if leaves[slot] >= 0:
                    room[slot // width] = room.get(slot // width, 0) + 1
            order = sorted(items, key=lambda item: (-len(of[item]), leaves.index(item)))
            for item in order:
                free = [one for one in room if room[one] > sum(1 for _ in assigned.get((below, one), []))]
                gains = [measure(index, of[item], level, below, sorted(room), one) for one in free]
                best = int(np.argmax(gains)) if of[item] else 0
                total += gains[best]
                assigned.setdefault((below, free[best]), []).append(item)
        for items in assigned.values():
            items.sort(key=leaves.index)
        nodes = assigned
    found = [-1] * shape.n
    for (_, slot), items in nodes.items():
        found[slot] = items[0]
    return found, total


def softmax_by_hand(index, users, level, below, candidates, one):
    rows = [index.tree.shape.offsets[below] + node for node in candidates]
    table = index.scorer.table.double()
    return sum(float(table[user, rows].log_softmax(0)[candidates.index(one)]) for user in users)


def sigmoid_by_hand(index, users, level, below, candidates, one):
    shape, total = index.tree.shape, 0.0
    for user in users:
        for between in range(level + 1, below + 1):
            row = shape.offsets[between] + one // shape.branch ** (below - between)
            total += float(F.logsigmoid(index.scorer.table[user, row].double()))
    return total


def likelihood(index, leaves, histories, labels, stride):
    """The log-likelihood of an assignment: softmax by softmax down the path of every label."""
    shape, total = index.tree.shape, 0.0
    leaf_of = {item: leaf for leaf, item in enumerate(leaves.tolist()) if item >= 0}
    for user, label in zip(histories[:, -1].tolist(), labels.tolist(), strict=True):
        for step in strides_of(shape, stride, shape.height) if label in leaf_of else ():
            above, at = (shape.ancestor(leaf_of[label], level) for level in (step.level, step.below))
            there = [
                one
                for one in range(above * step.width, min((above + 1) * step.width, shape.sizes[step.below]))
                if index.tree.live(step.below)[one]
            ]
            total += softmax_by_hand(index, [user], step.level, step.below, there, at)
    return total
