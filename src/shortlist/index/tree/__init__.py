"""The tree as arrays: shape, orders, search, change."""

from shortlist.index.tree.beam import Beam, Found, exhaustive, search
from shortlist.index.tree.updates import delete, insert, rebalance
from shortlist.index.tree.index import TreeIndex, n_rows
from shortlist.index.tree.cpu_search import warm
from shortlist.index.tree.order import by_category, by_popularity, by_vectors, pifa, project, random_order
from shortlist.index.tree.shape import TreeShape
from shortlist.index.tree.tree import Tree, grow

__all__ = [
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
    "warm",
]
