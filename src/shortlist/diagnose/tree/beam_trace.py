"""The beam search of one user, level by level, with the levels at which relevant items are lost."""

from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.data import Catalog
from shortlist.diagnose.tree.beam_losses import SearchSettings, survival
from shortlist.diagnose.tree.max_heap import level_scores
from shortlist.index.tree import TreeIndex

SHOWN = 2  # relevant items followed


@dataclass(frozen=True)
class BeamLevel:
    """The nodes in the beam at one level, in the order of nodes."""

    level: int
    size: int  # nodes of the level
    width: int  # leaves under a full node
    nodes: tuple[int, ...]
    scores: tuple[float, ...]
    scored: int  # nodes scored


@dataclass(frozen=True)
class PathNode:
    """The ancestor of a relevant item at one level."""

    level: int
    node: int
    score: float
    rank: int  # among all nodes of the level, from 1
    kept: bool  # in the beam
    threshold: float  # the lowest score in the beam


@dataclass(frozen=True)
class ItemPath:
    """The path to a relevant item; `lost_at` is the level at which it left the beam, None if it was returned."""

    item: int  # row
    item_id: str | int
    title: str
    leaf: int
    returned: bool
    lost_at: int | None
    in_top_k: bool  # of all leaves
    nodes: tuple[PathNode, ...]


@dataclass(frozen=True)
class BeamTrace:
    """One user's beam search."""

    leaves: int
    levels: tuple[BeamLevel, ...]
    paths: tuple[ItemPath, ...]
    user: str | int | None = None  # id


def trace_beam(
    index: TreeIndex, history: Tensor, relevant: Tensor, settings: SearchSettings, catalog: Catalog
) -> BeamTrace:
    """The search for one user [1, K] on all levels, with the paths of some relevant items [1, R]: lost ones first."""
    found = settings.beam_search(index, history, skip=False)
    levels = tuple(
        BeamLevel(
            beam.level,
            index.tree.shape.sizes[beam.level],
            index.tree.shape.width(beam.level),
            *_in_beam(beam.nodes[0], beam.scores[0]),
            int(beam.n_scored[0]),
        )
        for beam in found.beams
    )
    alive = survival(index, found, relevant)[0]  # [R, H + 1]
    best = settings.exhaustive_search(index, history).items[0].tolist()
    scores = level_scores(index, history, settings.product)
    in_tree = [at for at, leaf in enumerate(index.tree.leaves(relevant)[0].tolist()) if leaf >= 0]
    order = sorted(in_tree, key=lambda at: _interest(alive[at], int(relevant[0, at]) in best))
    paths = tuple(
        _path(index, int(relevant[0, at]), alive[at], best, levels, scores, catalog) for at in order[:SHOWN]
    )
    return BeamTrace(index.tree.shape.n, levels, paths)


def _interest(alive: Tensor, in_top_k: bool) -> tuple[bool, bool, int]:
    """Items lost by beam search first, then returned ones, then those lost at a low level."""
    returned = bool(alive[-1])
    return (not in_top_k or returned, not returned, -int(alive.sum()))


def _path(
    index: TreeIndex,
    item: int,
    alive: Tensor,
    best: list[int],
    levels: tuple[BeamLevel, ...],
    scores: tuple[Tensor, ...],
    catalog: Catalog,
) -> ItemPath:
    leaf = int(index.tree.leaf_of_item[item])
    lost = next((one.level for one in levels if not bool(alive[one.level])), None)
    ancestor = index.tree.shape.ancestor
    nodes = tuple(
        _path_node(one, ancestor(leaf, one.level), scores[one.level][0], bool(alive[one.level]))
        for one in levels
    )
    item_id, title = catalog.vocabulary.id(item), catalog.title(item)
    return ItemPath(item, item_id, title, leaf, lost is None, lost, item in best, nodes)


def _path_node(level: BeamLevel, node: int, scores: Tensor, kept: bool) -> PathNode:
    score = scores[node]
    above = int((scores > score).sum()) + int((scores[:node] == score).sum())  # ties go to the lower node
    threshold = min(level.scores, default=float("-inf"))
    return PathNode(level.level, node, float(score), above + 1, kept, threshold)


def _in_beam(nodes: Tensor, scores: Tensor) -> tuple[tuple[int, ...], tuple[float, ...]]:
    exists = torch.nonzero(nodes >= 0).flatten()
    return tuple(nodes[exists].tolist()), tuple(scores[exists].tolist())
