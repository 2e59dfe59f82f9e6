"""The index of JTR: a tree whose leaves hold several items."""

from shortlist.index.jtr.beam import Found, descend, lost_by_beam, reached, search
from shortlist.index.jtr.grow import grow
from shortlist.index.jtr.index import JTRIndex
from shortlist.index.jtr.overlap import overlap
from shortlist.index.jtr.tree import LeafTree

__all__ = ["Found", "JTRIndex", "LeafTree", "descend", "grow", "lost_by_beam", "overlap", "reached", "search"]
