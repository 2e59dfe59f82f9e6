"""One user's beam through a tree, and where held-out items fell out of it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.diagnose.tree.beam import Asked, survival
from shortlist.diagnose.tree.heap import level_values
from shortlist.index.tree import TreeIndex

SHOWN = 2  # held-out items followed


@dataclass(frozen=True)
class Step:
    """What the beam kept on one level, in the order of nodes."""

    level: int
    size: int  # nodes of the level
    width: int  # leaves under a full node
    nodes: tuple[int, ...]
    scores: tuple[float, ...]
    scored: int  # nodes looked at


@dataclass(frozen=True)
class Passing:
    """A held-out item's ancestor on one level."""

    level: int
    node: int
    score: float
    rank: int  # among all nodes of the level, from 1
    kept: bool
    needed: float  # the lowest score the beam kept


@dataclass(frozen=True)
class Trail:
    """The path to a held-out item; `lost_at` is the level where it left the beam, None when it was found."""

    item: int
    leaf: int
    found: bool
    lost_at: int | None
    among_best: bool  # of all leaves
    passings: tuple[Passing, ...]


@dataclass(frozen=True)
class Walk:
    """Everything a drawing of one search needs."""

    leaves: int
    steps: tuple[Step, ...]
    trails: tuple[Trail, ...]


def walk(index: TreeIndex, history: Tensor, truth: Tensor, asked: Asked) -> Walk:
    """The search for one user [1, K] on all levels, with the ways of some held-out items [1, R]: lost ones first."""
    found = asked.by_beam(index, history, skip=False)
    steps = tuple(
        Step(
            beam.level,
            index.tree.shape.sizes[beam.level],
            index.tree.shape.width(beam.level),
            *_kept(beam.nodes[0], beam.scores[0]),
            int(beam.n_scored[0]),
        )
        for beam in found.beams
    )
    alive = survival(index, found, truth)[0]  # [R, H + 1]
    best = asked.by_all(index, history).items[0].tolist()
    values = level_values(index, history, asked.product)
    wanted = [place for place, leaf in enumerate(index.tree.leaves(truth)[0].tolist()) if leaf >= 0]
    order = sorted(wanted, key=lambda place: _interest(alive[place], int(truth[0, place]) in best))
    trails = tuple(
        _trail(index, int(truth[0, place]), alive[place], best, steps, values) for place in order[:SHOWN]
    )
    return Walk(index.tree.shape.n, steps, trails)


def _interest(alive: Tensor, among_best: bool) -> tuple[bool, bool, int]:
    """First what search lost, then what was found, then what got far."""
    found = bool(alive[-1])
    return (not among_best or found, not found, -int(alive.sum()))


def _trail(
    index: TreeIndex,
    item: int,
    alive: Tensor,
    best: list[int],
    steps: tuple[Step, ...],
    values: tuple[Tensor, ...],
) -> Trail:
    leaf = int(index.tree.leaf_of_item[item])
    lost = next((step.level for step in steps if not bool(alive[step.level])), None)
    passings = tuple(
        _passing(
            step, index.tree.shape.ancestor(leaf, step.level), values[step.level][0], bool(alive[step.level])
        )
        for step in steps
    )
    return Trail(item, leaf, lost is None, lost, item in best, passings)


def _passing(step: Step, node: int, values: Tensor, kept: bool) -> Passing:
    score = values[node]
    ahead = int((values > score).sum()) + int((values[:node] == score).sum())  # ties go to the lower node
    return Passing(step.level, node, float(score), ahead + 1, kept, min(step.scores, default=float("-inf")))


def _kept(nodes: Tensor, scores: Tensor) -> tuple[tuple[int, ...], tuple[float, ...]]:
    there = torch.nonzero(nodes >= 0).flatten()
    return tuple(nodes[there].tolist()), tuple(scores[there].tolist())
