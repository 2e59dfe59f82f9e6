"""Beam search and exhaustive search in a tree."""

from typing import NamedTuple

import torch
from torch import Tensor

from shortlist.errors import ConfigError, DataError
from shortlist.index.tree.cpu_search import search_on_cpu
from shortlist.index.tree.index import TreeIndex
from shortlist.index.tree.shape import TreeShape
from shortlist.models.nodes import AttentionScorer, State
from shortlist.models.nodes.cpu_kernel import KernelInputs

BEAM = 150  # default width of the search
NOTHING = float("-inf")
SORTED = 4096  # wider rows are not sorted as a whole
PAIRS = {"cpu": 1 << 15, "cuda": 1 << 19}  # (user, node) pairs scored at once


class Beam(NamedTuple):
    """The nodes kept at one level."""

    level: int
    nodes: Tensor  # int64 [U, W] ascending, padded with -1
    scores: Tensor  # [U, W]
    n_scored: Tensor  # int64 [U], nodes scored


class Found(NamedTuple):
    """The best items of every user, best first, padded with -1 and -inf."""

    items: Tensor  # int64 [U, k]
    scores: Tensor  # float32 [U, k]
    beams: tuple[Beam, ...] = ()  # of the scored levels, when traced


class Front(NamedTuple):
    """Nodes of one level in ascending order; padding has the score -inf.

    Padding is a node past the end of the level: its children are past the end of the next level.
    """

    nodes: Tensor  # int64 [U, C]
    scores: Tensor  # [U, C]


@torch.no_grad()
def search(
    index: TreeIndex,
    history: Tensor,
    k: int,
    beam: int = BEAM,
    exclude: Tensor | None = None,
    allowed: Tensor | None = None,
    skip: bool = True,
    path: bool = False,
    trace: bool = False,
) -> Found:
    """The k best leaves among the children of the `beam` best nodes of every level, for histories [U, K] of items.

    Ties go to the lower node. `exclude` [U, E] holds items that must not be returned to that user; `allowed` [n_items]
    marks the items that may be returned at all: nodes without any take no place in a beam. `skip` leaves out the levels
    with at most `beam` nodes, which does not change the result. With `path` the value of a node is the sum of
    log-sigmoids on its path (PLT), so every trained level is scored. All scored leaves compete for the k places, also
    if there are more than `beam`.
    """
    _check(history, k, beam)
    shape = index.tree.shape
    level = index.start(beam) if skip and not path else min(index.first, shape.height)
    kernel_inputs = None if trace else _kernel_inputs(index, history)
    if kernel_inputs is not None:
        return Found(*search_on_cpu(index, kernel_inputs, history, k, beam, level, exclude, allowed, path))
    reach, state = index.tree.allow(allowed), index.states(history)
    front = _whole_level(index, state(level), level, reach[level], len(history), path)
    beams = []
    while level < shape.height:
        kept = _narrow(front, beam, shape.sizes[level])
        beams += [_beam(shape, level, front, kept)] if trace else []
        level += 1
        front = _children(index, state(level), level, reach[level], kept, path)
    remaining = _exclude(front, index, exclude)
    beams += [_beam(shape, level, front, _narrow(remaining, beam, shape.n))] if trace else []
    return _found(index, remaining, k, tuple(beams))


@torch.no_grad()
def exhaustive(
    index: TreeIndex,
    history: Tensor,
    k: int,
    exclude: Tensor | None = None,
    allowed: Tensor | None = None,
    path: bool = False,
    chunk: int | None = None,
) -> Found:
    """The k best of all leaves, scored `chunk` at a time; the result does not depend on the chunk.

    With `path` the values of a whole level are held at once, [U, n].
    """
    _check(history, k, 1)
    shape, reach = index.tree.shape, index.tree.allow(allowed)
    if path:
        front = _all_paths(index, history, reach, chunk)
        return _found(index, _exclude(front, index, exclude), k)
    state, rows = index.state(history, shape.height), index.level_rows(shape.height)
    step = chunk or _chunk(history.device, len(history))
    best = Front(history.new_empty((len(history), 0)).long(), history.new_empty((len(history), 0)).float())
    for first in range(0, shape.n, step):
        scores = index.scorer.score_all(state, rows[first : first + step])  # [U, step]
        scores = scores.masked_fill(~reach[-1][first : first + scores.shape[1]], NOTHING)
        front = _exclude(Front(_numbered(scores, first), scores), index, exclude, first)
        # The running best come first and in order, so ties still go to the lower leaf.
        nodes, scores = torch.cat([best.nodes, front.nodes], 1), torch.cat([best.scores, front.scores], 1)
        scores, at = top(scores, k)
        best = Front(nodes.gather(1, at), scores)
    return _found(index, best, k)


def top(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest [U, k], best first, with their positions; ties by position, on every device.

    Needs no host synchronisation: wide rows are ordered by keys made of score and position.
    """
    k, n = min(k, scores.shape[1]), scores.shape[1]
    if n <= SORTED or scores.dtype != torch.float32:
        scores, at = scores.sort(dim=1, descending=True, stable=True)
        return scores[:, :k], at[:, :k]
    bits = (scores + 0.0).view(torch.int32)  # + 0.0: minus zero is zero
    rising = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # integers in the order of the scores
    keys = (rising.long() << 32) + torch.arange(n - 1, -1, -1, device=scores.device)
    at = n - 1 - (keys.topk(k, dim=1).values & 0xFFFFFFFF)
    return scores.gather(1, at), at


def _kernel_inputs(index: TreeIndex, history: Tensor) -> KernelInputs | None:
    """The inputs of the compiled CPU search, None where it does not apply."""
    on_cpu = history.device.type == index.tree.device.type == "cpu"
    return index.scorer.kernel_inputs() if on_cpu and isinstance(index.scorer, AttentionScorer) else None


def _whole_level(
    index: TreeIndex,
    state: State,
    level: int,
    reach: Tensor,
    users: int,
    path: bool,
    chunk: int | None = None,
) -> Front:
    """All nodes of a level with their scores [U, nodes]."""
    rows = index.level_rows(level)
    step = chunk or _chunk(rows.device, users)
    parts = [index.scorer.score_all(state, rows[i : i + step]) for i in range(0, len(rows), step)]
    scores = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
    scores = torch.nn.functional.logsigmoid(scores) if path else scores
    scores = scores.masked_fill(~reach[:-1], NOTHING)
    return Front(_numbered(scores, 0), scores)


def _numbered(scores: Tensor, first: int) -> Tensor:
    return torch.arange(first, first + scores.shape[1], device=scores.device).expand(scores.shape)


def _narrow(front: Front, beam: int, size: int) -> Front:
    """The `beam` best nodes in ascending order, padded with `size`, one past the last node."""
    scores, at = top(front.scores, beam)
    nodes = front.nodes.gather(1, at).masked_fill_(scores == NOTHING, size)
    nodes, order = nodes.sort(dim=1)
    return Front(nodes, scores.gather(1, order))


def _children(index: TreeIndex, state: State, level: int, reach: Tensor, kept: Front, path: bool) -> Front:
    """The children in `level` of the kept nodes [U, W * B], with their scores."""
    branch, size = index.tree.shape.branch, index.tree.shape.sizes[level]
    steps = torch.arange(branch, device=kept.nodes.device)
    nodes = (kept.nodes[:, :, None] * branch + steps).flatten(1)
    scores = index.scorer.score(state, index.rows(level, nodes))
    if path:
        above = kept.scores[:, :, None].expand(-1, -1, branch).flatten(1)
        scores = torch.nn.functional.logsigmoid(scores) + above
    return Front(nodes, torch.where(reach[nodes.clamp(max=size)], scores, NOTHING))


def _all_paths(index: TreeIndex, history: Tensor, reach: tuple[Tensor, ...], chunk: int | None) -> Front:
    """Every leaf with the sum of log-sigmoids on its path."""
    shape, state, above = index.tree.shape, index.states(history), None
    for level in range(min(index.first, shape.height), shape.height + 1):
        front = _whole_level(index, state(level), level, reach[level], len(history), True, chunk)
        if above is not None:
            widened = above.scores[:, :, None].expand(-1, -1, shape.branch).flatten(1)
            front = Front(front.nodes, front.scores + widened[:, : shape.sizes[level]])
        above = front
    return front


def _exclude(front: Front, index: TreeIndex, exclude: Tensor | None, first: int | None = None) -> Front:
    """The same leaves with -inf at excluded items [U, E]; with `first`, the leaves are consecutive from there."""
    if exclude is None or exclude.shape[1] == 0 or front.scores.shape[1] == 0:
        return front
    leaves = index.tree.leaves(exclude).contiguous()
    at = torch.searchsorted(front.nodes.contiguous(), leaves) if first is None else leaves - first
    at = at.clamp(0, front.scores.shape[1] - 1)
    hit = front.nodes.gather(1, at) == leaves
    # Minimum with -inf at a hit and +inf elsewhere: positions may repeat, and the host does not synchronise.
    cut = torch.where(hit, NOTHING, -NOTHING).to(front.scores.dtype)
    return Front(front.nodes, front.scores.scatter_reduce(1, at, cut, "amin"))


def _found(index: TreeIndex, front: Front, k: int, beams: tuple[Beam, ...] = ()) -> Found:
    """The items of the k best leaves, padded to k."""
    scores, at = top(front.scores, k)
    leaves = front.nodes.gather(1, at).clamp(max=index.tree.shape.n - 1)
    items = index.tree.item_of_leaf[leaves].long().masked_fill(scores == NOTHING, -1)
    short = (0, k - scores.shape[1])
    pad = torch.nn.functional.pad
    return Found(pad(items, short, value=-1), pad(scores, short, value=NOTHING), beams)


def _beam(shape: TreeShape, level: int, front: Front, kept: Front) -> Beam:
    nodes = kept.nodes.masked_fill(kept.nodes == shape.sizes[level], -1)
    return Beam(level, nodes, kept.scores, (front.scores != NOTHING).sum(1))


def _chunk(device: torch.device, users: int) -> int:
    return max(1024, PAIRS.get(device.type, PAIRS["cpu"]) // max(users, 1))


def _check(history: Tensor, k: int, beam: int) -> None:
    if k < 1 or beam < 1:
        raise ConfigError(f"k and beam must be at least 1, got k={k!r} and beam={beam!r}")
    if history.dim() != 2 or history.dtype not in (torch.int32, torch.int64):
        raise DataError(f"histories must be items [users, length], got {history.dtype} {list(history.shape)}")
