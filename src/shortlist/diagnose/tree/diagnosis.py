"""Diagnosis of a tree, level by level: max-heap order, beam search, labels, negatives, categories, collapse."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import Catalog, HeldOut
from shortlist.diagnose.tree.beam_losses import LossCounts, SearchSettings
from shortlist.diagnose.tree.beam_trace import BeamTrace, trace_beam
from shortlist.diagnose.tree.collapse import Collapse, collapse, personal_share
from shortlist.diagnose.tree.level_sums import BatchDiagnosis, BatchResult, LevelSums, added
from shortlist.diagnose.tree.max_heap import OTHERS
from shortlist.diagnose.tree.purity import dominant, purity
from shortlist.errors import DataError
from shortlist.index.tree import TreeIndex
from shortlist.pipeline.batch.held_out import longest_history
from shortlist.progress import Progress, silent, tracked
from shortlist.train.tree.rectify import ScoreAll

CELLS = 2**23  # numbers in memory for a batch of users
TOP_NODES = 9  # nodes of the lowest level of the drawing of the top
BEAMS = (0.25, 0.5, 1, 2, 4)  # widths tried, as multiples of the beam


@dataclass(frozen=True)
class Level:
    """One level of a tree over a sample of users; None where a number is not defined."""

    level: int
    nodes: int
    decides: bool  # more nodes than the beam: something can be lost here
    violations: float | None  # share of pairs of nodes against the max-heap order
    top_kept: float  # share of the top k of all leaves with their ancestor in the beam
    top_lost: int  # of those, lost at this level
    relevant_lost: int  # relevant items lost at this level
    beam_lost: int  # of those, the ones among the top k of all leaves
    label: float | None  # mean strict rectified label of the path to the next item
    label_one_step: float | None  # mean one-step rectified label
    kl_tree: float | None  # KL(Q || P) of tree-based sampling from the first sampled level
    kl_root: float | None  # KL(Q || P) of tree-based sampling from the root
    kl_uniform: float  # KL(Q || P) of uniform sampling
    purity: float  # mean share of the most common category below a node
    purity_random: float  # the same for a random order of the items


@dataclass(frozen=True)
class BeamWidth:
    """Results with another beam."""

    beam: int
    scored: float  # nodes per user
    regret: float
    returned: int  # relevant items


@dataclass(frozen=True)
class TopNode:
    """A node of the top levels with its most common category."""

    level: int
    node: int
    items: int
    category: str
    share: float


@dataclass(frozen=True)
class TreeFinding:
    """A finding about a tree; `share` is its loss as a share of all relevant items, None if it is not a loss."""

    what: str
    knob: str
    share: float | None = None


@dataclass(frozen=True)
class TreeDiagnosis:
    """Results of `diagnose_tree`. `regret`: share of the top k of all leaves that the beam did not return."""

    users: int
    items: int
    branch: int
    height: int
    beam: int
    k: int
    product: bool
    exclude_seen: bool
    labels_by: str  # whose scores the rectified labels come from
    categories: int
    regret: float
    losses: LossCounts
    collapse: Collapse
    levels: tuple[Level, ...]  # from level 1 to the leaves
    widths: tuple[BeamWidth, ...]
    top: tuple[TopNode, ...]
    trace: BeamTrace  # of the user at `traced_row`
    traced_row: int  # of the held-out users
    findings: tuple[TreeFinding, ...] = ()


@torch.no_grad()
def diagnose_tree(
    index: TreeIndex,
    held_out: HeldOut,
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
    """Diagnose a tree on a random sample of held-out users with a history.

    `estimator` scores all items for the labels; by default the tree's own leaf scores do. `negatives` are those of
    training: levels with at most that many nodes are not sampled. `exclude_seen` excludes history items from all
    searches.
    """
    rows = _sample(held_out, users, seed)
    history = held_out.query(rows, longest_history(held_out.take(rows))).history
    relevant = held_out.relevant(rows)
    settings, beams = SearchSettings(k, beam, product, exclude_seen), _beams(beam, index.tree.shape.n)
    batches = BatchDiagnosis(index, settings, beams, estimator, negatives, seed)
    results = _run_batches(batches, history, relevant, progress)
    sums = added([result.sums for result in results])
    at = int(torch.cat([result.interest for result in results]).argmax())
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
        losses=LossCounts(*sums.losses.tolist()),
        collapse=_collapse(index, results, sums),
        levels=_levels(index, sums, len(rows), beam, purity(index.tree, catalog.category_rows, seed)),
        widths=_widths(beams, sums, len(rows)),
        top=_top(index, catalog),
        trace=trace_beam(index, history[at : at + 1], relevant[at : at + 1], settings, catalog),
        traced_row=int(rows[at]),
    )


def _sample(held_out: HeldOut, users: int, seed: int) -> NDArray[np.int64]:
    """Rows of random held-out users with a history, ascending."""
    known = np.flatnonzero(held_out.history_lengths() > 0)
    if not len(known) or users < 1:
        raise DataError(
            f"diagnose: expected held-out users with a history and at least 1 user, got {len(known)} with a "
            f"history and users = {users}"
        )
    sampled = np.random.default_rng(seed).choice(known, min(users, len(known)), replace=False)
    return np.sort(sampled).astype(np.int64)


def _beams(beam: int, leaves: int) -> list[int]:
    """Narrower and wider beams, none wider than all leaves."""
    return sorted({min(max(1, round(beam * share)), max(leaves, beam)) for share in BEAMS})


def _run_batches(
    batches: BatchDiagnosis, history: Tensor, relevant: Tensor, progress: Progress
) -> list[BatchResult]:
    """All users, in batches that fit into memory."""
    shape = batches.index.tree.shape
    cells = max(shape.n_nodes, min(batches.settings.beam, shape.n) * min(OTHERS, shape.n))
    size = max(1, CELLS // cells)
    starts = tracked(range(0, len(history), size), "diagnose the tree", progress)
    return [batches.run(history[start : start + size], relevant[start : start + size]) for start in starts]


def _levels(
    index: TreeIndex, sums: LevelSums, users: int, beam: int, pure: Sequence[tuple[float, float]]
) -> tuple[Level, ...]:
    """The levels below the root."""
    kl = sums.kl / users
    return tuple(
        Level(
            level=level,
            nodes=size,
            decides=size > beam,
            violations=_ratio(sums.violations[level], sums.pairs[level]),
            top_kept=1 - _regret(sums.top_kept[level], sums.top),
            top_lost=int(sums.top_lost[level]),
            relevant_lost=int(sums.relevant_lost[level]),
            beam_lost=int(sums.beam_lost[level]),
            label=_ratio(sums.labels[0, level], sums.labelled),
            label_one_step=_ratio(sums.labels[1, level], sums.labelled),
            kl_tree=_defined(kl[0, level]),
            kl_root=_defined(kl[1, level]),
            kl_uniform=float(kl[2, level]),
            purity=pure[level][0],
            purity_random=pure[level][1],
        )
        for level, size in enumerate(index.tree.shape.sizes)
        if level > 0
    )


def _widths(beams: Sequence[int], sums: LevelSums, users: int) -> tuple[BeamWidth, ...]:
    return tuple(
        BeamWidth(beam, float(row[0]) / users, _regret(row[1], sums.top), int(row[2]))
        for beam, row in zip(beams, sums.widths, strict=True)
    )


def _collapse(index: TreeIndex, results: Sequence[BatchResult], sums: LevelSums) -> Collapse:
    lists = torch.cat([result.lists for result in results])
    return collapse(lists, index.tree.n_live, personal_share(float(sums.squares), sums.by_leaf, len(lists)))


def _top(index: TreeIndex, catalog: Catalog) -> tuple[TopNode, ...]:
    """The top levels, down to the last with at most TOP_NODES nodes."""
    sizes = index.tree.shape.sizes
    deep = max((level for level, size in enumerate(sizes) if size <= TOP_NODES), default=0)
    return tuple(
        TopNode(level, node, count, str(catalog.categories.id(kind)), share)
        for level in range(max(deep, min(1, len(sizes) - 1)) + 1)
        for node, count, kind, share in dominant(index.tree, catalog.category_rows, level)[:TOP_NODES]
    )


def _regret(kept: Tensor, total: Tensor) -> float:
    return 1 - float(kept) / max(float(total), 1.0)


def _ratio(part: Tensor, whole: Tensor) -> float | None:
    return float(part) / float(whole) if float(whole) else None


def _defined(value: Tensor) -> float | None:
    return None if bool(value.isnan()) else float(value)
