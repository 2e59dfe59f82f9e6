"""From the catalogue to hundreds."""

from shortlist.nominate.covisit import CoVisit
from shortlist.nominate.in_pool import InPool
from shortlist.nominate.jtr import JTRNominator
from shortlist.nominate.model import ModelNominator
from shortlist.nominate.pooled import Pooled
from shortlist.nominate.popular import Popular, Recent
from shortlist.nominate.random_items import RandomItems
from shortlist.nominate.repeat import Repeat
from shortlist.nominate.split import Split
from shortlist.nominate.tree import TreeNominator

__all__ = [
    "CoVisit",
    "InPool",
    "JTRNominator",
    "ModelNominator",
    "Pooled",
    "Popular",
    "RandomItems",
    "Recent",
    "Repeat",
    "Split",
    "TreeNominator",
]
