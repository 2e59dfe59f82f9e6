"""The tree as arrays: shape, orders, search, change."""

from shortlist.index.tree.beam import Beam, Found, exhaustive, search
from shortlist.index.tree.index import TreeIndex, n_rows
from shortlist.index.tree.shape import TreeShape
from shortlist.index.tree.tree import Tree, grow

__all__ = ["Beam", "Found", "Tree", "TreeIndex", "TreeShape", "exhaustive", "grow", "n_rows", "search"]
