"""Table 9 of the DTR paper: the memory of an index, for every method and for more branches.

Counted from what an index holds: the arrays that say which item lives where, and the vectors of its nodes; beside it
the item vectors that scoring every item needs. It takes seconds on a CPU.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shortlist.index.tree import TreeIndex
from shortlist.lab.experiments.trees.catalogs import catalogues, untaught
from shortlist.lab.result import at_most, claim, result, row, start
from shortlist.progress import Progress, silent
from shortlist.train.tree.plan import plan_of

SOURCE = "DTR paper, table 9"
METHODS = ("plt", "tdm", "jtm", "otm", "dtr-u", "dtr-t", "dtr-t-rl")
BRANCHES = (2, 4, 8, 16, 32)
PUBLISHED = {"movie": 6.00, "mind": 3.48, "amazon": 45.34, "tmall": 90.78}  # MB of a tree index
MEGA = 1e6


def dtr_table9(
    data: Path | None, profile: str = "quick", seeds: Sequence[int] = (0,), progress: Progress = silent
) -> dict[str, Any]:
    """Megabytes of all of it, bytes of every item."""
    began, seed = start(), seeds[0]
    rows, claims = [], []
    for name, items in catalogues(profile, "dtr-table9").items():
        methods = {who: parts(untaught(plan_of(who), items, seed)) for who in METHODS}
        wider = {one: parts(untaught(plan_of("dtr-t", branch=one), items, seed)) for one in BRANCHES}
        flat = items * plan_of("din").width * 4
        rows += [_row(who, f"MB, {name}", sum(held) / MEGA) for who, held in methods.items()]
        rows.append(_row("item vectors", f"MB, {name}", flat / MEGA))
        rows += _branch_rows(wider, name, items)
        claims += _claims(methods, name)
    return result("dtr-table9", profile, [seed], began, rows, claims) | {"x": "branches"}


def parts(index: TreeIndex) -> tuple[int, int]:
    """Bytes of the arrays of the tree, and of the vectors of nodes."""
    tree = index.tree
    arrays = (tree.item_of_leaf, tree.leaf_of_item, *tree.reach)
    vectors = index.scorer.nodes.weight
    return sum(one.numel() * one.element_size() for one in arrays), vectors.numel() * vectors.element_size()


def _row(who: str, metric: str, value: float) -> dict[str, Any]:
    return row(who, metric, [value])


def _branch_rows(wider: dict[int, tuple[int, int]], name: str, items: int) -> list[dict[str, Any]]:
    """Bytes of an item in trees with more branches, in all and for the tree alone."""
    return [
        _row(said, f"bytes of an item, {name}", held / items) | {"x": branch}
        for branch, (arrays, vectors) in wider.items()
        for said, held in (("index", arrays + vectors), ("arrays of the tree", arrays))
    ]


def _claims(methods: dict[str, tuple[int, int]], name: str) -> list[dict[str, Any]]:
    """All trees take the same, and no more than was published."""
    sizes = {sum(held) for held in methods.values()}
    note = f"largest less smallest, in bytes, of {', '.join(methods)}"
    spread = float(max(sizes) - min(sizes))
    claims = [claim(f"tree methods take the same memory, {name}", SOURCE, len(sizes) == 1, spread, note)]
    if name in PUBLISHED:
        claims.append(at_most(f"MB of a tree index, {name}", SOURCE, max(sizes) / MEGA, PUBLISHED[name]))
    return claims
