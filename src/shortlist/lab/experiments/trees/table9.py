"""Table 9 of the DTR paper: the memory of an index, for every method and for more branches.

Counted from the tensors of an index: the arrays that map items to leaves, and the vectors of its nodes; for comparison,
the item vectors that scoring every item needs. It takes seconds on a CPU.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from shortlist.index.tree import TreeIndex
from shortlist.lab.experiments.trees.catalogs import catalogues, untrained
from shortlist.lab.result import Claim, Result, Row, at_most, claim, result, row, start
from shortlist.progress import Progress, silent
from shortlist.train.tree.plan import plan_of

SOURCE = "DTR paper, table 9"
METHODS = ("plt", "tdm", "jtm", "otm", "dtr-u", "dtr-t", "dtr-t-rl")
BRANCHES = (2, 4, 8, 16, 32)
PUBLISHED = {"movie": 6.00, "mind": 3.48, "amazon": 45.34, "tmall": 90.78}  # MB of a tree index
MEGA = 1e6


def dtr_table9(
    data: Path | None, profile: str = "quick", seeds: Sequence[int] = (0,), progress: Progress = silent
) -> Result:
    """Megabytes in all, and bytes per item."""
    began, seed = start(), seeds[0]
    rows: list[Row] = []
    claims: list[Claim] = []
    for name, items in catalogues(profile, "dtr-table9").items():
        methods = {method: parts(untrained(plan_of(method), items, seed)) for method in METHODS}
        wider = {one: parts(untrained(plan_of("dtr-t", branch=one), items, seed)) for one in BRANCHES}
        item_vectors = items * plan_of("din").width * 4
        rows += [row(method, f"MB, {name}", [sum(size) / MEGA]) for method, size in methods.items()]
        rows.append(row("item vectors", f"MB, {name}", [item_vectors / MEGA]))
        rows += _branch_rows(wider, name, items)
        claims += _claims(methods, name)
    settings = {method: asdict(plan_of(method)) for method in METHODS}
    return result("dtr-table9", profile, [seed], began, rows, claims, x="branches", settings=settings)


def parts(index: TreeIndex) -> tuple[int, int]:
    """Bytes of the arrays of the tree, and of the vectors of nodes."""
    tree = index.tree
    arrays = (tree.item_of_leaf, tree.leaf_of_item, *tree.reach)
    vectors = index.scorer.nodes.weight
    return sum(one.numel() * one.element_size() for one in arrays), vectors.numel() * vectors.element_size()


def _branch_rows(wider: dict[int, tuple[int, int]], name: str, items: int) -> list[Row]:
    """Bytes per item in trees with more branches, in all and of the tree alone."""
    return [
        row(part, f"bytes of an item, {name}", [size / items], x=branch)
        for branch, (arrays, vectors) in wider.items()
        for part, size in (("index", arrays + vectors), ("arrays of the tree", arrays))
    ]


def _claims(methods: dict[str, tuple[int, int]], name: str) -> list[Claim]:
    """All methods take the same memory, and no more than published."""
    sizes = {sum(size) for size in methods.values()}
    note = f"largest less smallest, in bytes, of {', '.join(methods)}"
    spread = float(max(sizes) - min(sizes))
    claims = [claim(f"tree methods take the same memory, {name}", SOURCE, len(sizes) == 1, spread, note)]
    if name in PUBLISHED:
        claims.append(at_most(f"MB of a tree index, {name}", SOURCE, max(sizes) / MEGA, PUBLISHED[name]))
    return claims
