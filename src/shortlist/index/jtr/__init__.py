"""A tree whose leaves hold several items: what JTR searches."""

from shortlist.index.jtr.beam import Found, descend, reached, search
from shortlist.index.jtr.grow import grow
from shortlist.index.jtr.index import JTRIndex
from shortlist.index.jtr.lost import lost_by_beam
from shortlist.index.jtr.overlap import overlap
from shortlist.index.jtr.tree import LeafTree

__all__ = ["Found", "JTRIndex", "LeafTree", "descend", "grow", "lost_by_beam", "overlap", "reached", "search"]
