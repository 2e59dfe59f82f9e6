"""What is wrong with a tree, level by level: order, search, labels, sampling, categories, sameness."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import Catalog, HeldOut
from shortlist.diagnose.tree.beam import Account, Asked
from shortlist.diagnose.tree.collapse import Collapse, collapse, personal_share
from shortlist.diagnose.tree.heap import OTHERS
from shortlist.diagnose.tree.levels import Look, Looking, Sums, added
from shortlist.diagnose.tree.purity import dominant, purity
from shortlist.diagnose.tree.walk import Walk, walk
from shortlist.errors import DataError
from shortlist.evaluate.evaluation import longest
from shortlist.index.tree import TreeIndex
from shortlist.progress import Progress, silent, tracked
from shortlist.train.tree.rectify import ScoreAll

CELLS = 2**23  # numbers held at once for a batch of users
BOXES = 9  # nodes of the lowest level of a sketch
BEAMS = (0.25, 0.5, 1, 2, 4)  # widths tried, in beams


@dataclass(frozen=True)
class Level:
    """One level of a tree over a sample of users; None where a number has no meaning."""

    level: int
    nodes: int
    decides: bool  # more nodes than the beam holds: something can be lost here
    violations: float | None  # share of pairs of nodes in the wrong order, see `heap.against`
    top_kept: float  # share of the k best of all leaves that are still in reach
    top_lost: int  # of those, the ones lost at this level
    wanted_lost: int  # held-out items lost at this level, for whatever reason
    search_lost: int  # of those, the ones among the k best of all leaves
    label: float | None  # mean label of the path to the next item: 1 where it is the best item below the node
    label_one_step: float | None  # the same when only the best child counts
    kl_tree: float | None  # KL(Q || P) of walking down from the first level too large to be taken whole
    kl_root: float | None  # KL(Q || P) of walking down from the root
    kl_uniform: float  # KL(Q || P) of drawing nodes uniformly
    purity: float  # mean share of the most common category below a node
    purity_chance: float  # the same for a random order


@dataclass(frozen=True)
class Width:
    """What another beam would do."""

    beam: int
    scored: float  # nodes per user
    regret: float
    found: int  # held-out items


@dataclass(frozen=True)
class Box:
    """A node of the tree's top."""

    level: int
    node: int
    items: int
    category: str
    share: float


@dataclass(frozen=True)
class TreeDiagnosis:
    """Everything `diagnose_tree` found. `regret`: share of the k best of all leaves that the beam did not return."""

    users: int
    items: int
    branch: int
    height: int
    beam: int
    k: int
    product: bool
    exclude_seen: bool
    labels_by: str
    categories: int
    regret: float
    account: Account
    collapse: Collapse
    levels: tuple[Level, ...]  # from level 1 to the leaves
    widths: tuple[Width, ...]
    sketch: tuple[Box, ...]
    walk: Walk
    walker: int  # the case the walk is of

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@torch.no_grad()
def diagnose_tree(
    index: TreeIndex,
    cases: HeldOut,
    catalog: Catalog,
    beam: int = 150,
    k: int = 20,
    users: int = 200,
    seed: int = 0,
    estimator: ScoreAll | None = None,
    product: bool = False,
    exclude_seen: bool = False,
    negatives: int = 70,
    progress: Progress = silent,
) -> TreeDiagnosis:
    """Look at a tree through a sample of held-out cases whose users have a history.

    `estimator` scores all items, for the labels; without one the tree's own leaf scores do. `negatives` are those of
    training: levels with no more nodes than that are taken whole and have no proposal. `fresh` leaves out of all
    searches what the user had met.
    """
    rows = _sample(cases, users, seed)
    history, truth = cases.query(rows, longest(cases.take(rows))).history, cases.relevant(rows)
    asked, beams = Asked(k, beam, product, exclude_seen), _beams(beam, index.tree.shape.n)
    looking = Looking(index, asked, beams, estimator, negatives, seed)
    looks = _looks(looking, history, truth, progress)
    sums = added([look.sums for look in looks])
    walker = int(torch.cat([look.interest for look in looks]).argmax())
    return TreeDiagnosis(
        users=len(rows),
        items=index.tree.n_live,
        branch=index.tree.shape.branch,
        height=index.tree.shape.height,
        beam=beam,
        k=k,
        product=product,
        exclude_seen=exclude_seen,
        labels_by="the tree's own leaf scores" if estimator is None else "an estimator",
        categories=len(catalog.categories),
        regret=_regret(sums.top_kept[-1], sums.top),
        account=Account(*sums.account.tolist()),
        collapse=_collapse(index, looks, sums),
        levels=_levels(index, sums, len(rows), beam, purity(index.tree, catalog.category_rows, seed)),
        widths=_widths(beams, sums, len(rows)),
        sketch=_sketch(index, catalog),
        walk=walk(index, history[walker : walker + 1], truth[walker : walker + 1], asked),
        walker=int(rows[walker]),
    )


def _sample(cases: HeldOut, users: int, seed: int) -> NDArray[np.int64]:
    """Some cases with a history, in their order."""
    known = np.flatnonzero(cases.history_lengths() > 0)
    if not len(known) or users < 1:
        raise DataError(
            f"diagnose: expected held-out cases with a history and at least 1 user, got {len(known)} cases "
            f"and {users} users"
        )
    drawn = np.random.default_rng(seed).choice(known, min(users, len(known)), replace=False)
    return np.sort(drawn).astype(np.int64)


def _beams(beam: int, leaves: int) -> list[int]:
    """Narrower and wider beams, none wider than all leaves."""
    return sorted({min(max(1, round(beam * share)), max(leaves, beam)) for share in BEAMS})


def _looks(looking: Looking, history: Tensor, truth: Tensor, progress: Progress) -> list[Look]:
    """All users, so many at a time that memory stays small."""
    shape = looking.index.tree.shape
    step = max(1, CELLS // max(shape.n_nodes, min(looking.asked.beam, shape.n) * min(OTHERS, shape.n)))
    starts = tracked(range(0, len(history), step), "diagnose the tree", progress)
    return [looking.at(history[start : start + step], truth[start : start + step]) for start in starts]


def _levels(
    index: TreeIndex, sums: Sums, users: int, beam: int, pure: Sequence[tuple[float, float]]
) -> tuple[Level, ...]:
    """The levels below the root."""
    divergence = sums.divergence / users
    return tuple(
        Level(
            level=level,
            nodes=size,
            decides=size > beam,
            violations=_ratio(sums.wrong[level], sums.pairs[level]),
            top_kept=1 - _regret(sums.top_kept[level], sums.top),
            top_lost=int(sums.top_lost[level]),
            wanted_lost=int(sums.wanted_lost[level]),
            search_lost=int(sums.search_lost[level]),
            label=_ratio(sums.labels[0, level], sums.labelled),
            label_one_step=_ratio(sums.labels[1, level], sums.labelled),
            kl_tree=_number(divergence[0, level]),
            kl_root=_number(divergence[1, level]),
            kl_uniform=float(divergence[2, level]),
            purity=pure[level][0],
            purity_chance=pure[level][1],
        )
        for level, size in enumerate(index.tree.shape.sizes)
        if level > 0
    )


def _widths(beams: Sequence[int], sums: Sums, users: int) -> tuple[Width, ...]:
    return tuple(
        Width(beam, float(row[0]) / users, _regret(row[1], sums.top), int(row[2]))
        for beam, row in zip(beams, sums.widths, strict=True)
    )


def _collapse(index: TreeIndex, looks: Sequence[Look], sums: Sums) -> Collapse:
    lists = torch.cat([look.lists for look in looks])
    return collapse(lists, index.tree.n_live, personal_share(float(sums.squares), sums.by_leaf, len(lists)))


def _sketch(index: TreeIndex, catalog: Catalog) -> tuple[Box, ...]:
    """The top levels, as far down as their nodes can stand side by side."""
    sizes = index.tree.shape.sizes
    deep = max((level for level, size in enumerate(sizes) if size <= BOXES), default=0)
    return tuple(
        Box(level, node, count, str(catalog.categories.id(kind)), share)
        for level in range(max(deep, min(1, len(sizes) - 1)) + 1)
        for node, count, kind, share in dominant(index.tree, catalog.category_rows, level)[:BOXES]
    )


def _regret(kept: Tensor, total: Tensor) -> float:
    return 1 - float(kept) / max(float(total), 1.0)


def _ratio(part: Tensor, whole: Tensor) -> float | None:
    return float(part) / float(whole) if float(whole) else None


def _number(value: Tensor) -> float | None:
    return None if bool(value.isnan()) else float(value)
