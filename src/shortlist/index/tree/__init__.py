"""The tree as arrays: shape, leaf orders, search, updates."""

from shortlist.index.tree.beam import BEAM, Beam, Found, exhaustive, search
from shortlist.index.tree.cpu_search import warmup
from shortlist.index.tree.index import TreeIndex, n_rows
from shortlist.index.tree.order import by_category, by_popularity, by_vectors, pifa, project, random_order
from shortlist.index.tree.shape import TreeShape
from shortlist.index.tree.tree import Tree, grow
from shortlist.index.tree.updates import delete, insert, rebalance

__all__ = [
    "BEAM",
    "Beam",
    "Found",
    "Tree",
    "TreeIndex",
    "TreeShape",
    "by_category",
    "by_popularity",
    "by_vectors",
    "delete",
    "exhaustive",
    "grow",
    "insert",
    "n_rows",
    "pifa",
    "project",
    "random_order",
    "rebalance",
    "search",
    "warmup",
]
