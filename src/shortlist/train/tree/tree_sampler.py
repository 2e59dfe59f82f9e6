"""Negatives drawn by walking down the tree as the scores point: the sampler of DTR(T)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.errors import ConfigError
from shortlist.index.tree.shape import TreeShape
from shortlist.train.tree.sampler import Draw, LevelScore, check_levels, every_other, path


@dataclass(frozen=True)
class TreeSampler:
    """Walks `negatives` paths down the tree; every level with more nodes than that gets the nodes they pass.

    A path begins by the exact softmax over one level, the first that is too large to be taken whole (or the first
    asked for, if later), or at the root (`start` "root", as the paper has it); from there on it steps to a child by the
    softmax over the children. With probability `mix` a path makes all its choices uniformly instead, so a node that the
    scores neglect is still met and no weight exceeds about N / mix. Smaller levels are taken whole.

    A draw that hits the positive is dropped, and the M' that are left are draws from q among the negatives:
    logw = log M' + log q - log(1 - q_positive). `correction` "released" leaves the last term out, as the authors' code
    does, which counts the negatives 1 / (1 - q_positive) times.

    Should all draws hit the positive, the level is skipped, not drawn again: that happens with probability q^M where
    the loss itself is about -log q, so it hides less than 1 / (e M) nats on average, 0.005 for 70 negatives.
    """

    negatives: int = 70
    start: str = "exact"
    mix: float = 0.0
    correction: str = "exact"

    def __post_init__(self) -> None:
        if self.negatives < 1 or not 0 <= self.mix < 1:
            raise ConfigError(
                f"expected negatives >= 1 and 0 <= mix < 1, got {self.negatives} and {self.mix}; mix 1 is Uniform"
            )
        if self.start not in ("exact", "root") or self.correction not in ("exact", "released"):
            raise ConfigError(
                "start must be exact or root, correction exact or released; "
                f"got {self.start!r} and {self.correction!r}"
            )

    @torch.no_grad()
    def draw(
        self,
        shape: TreeShape,
        levels: tuple[int, ...],
        leaves: Tensor,
        generator: torch.Generator,
        score: LevelScore | None = None,
    ) -> Draw:
        check_levels(shape, levels)
        small = tuple(level for level in levels if shape.sizes[level] <= self.negatives + 1)
        large = levels[len(small) :]
        if not large:
            return every_other(shape, levels, leaves)
        if score is None:
            raise ConfigError("the tree sampler needs scores to walk by; give `score`")
        drawn = weigh(self._walk(shape, large, leaves, generator, score), self.mix, self.correction)
        return _joined(every_other(shape, small, leaves, self.negatives + 1), drawn) if small else drawn

    def first(self, shape: TreeShape, levels: tuple[int, ...]) -> int:
        """The level that paths begin at; from the root, that is the softmax over the root's children."""
        return 1 if self.start == "root" else max(shape.start(self.negatives + 1), levels[0])

    def _walk(
        self,
        shape: TreeShape,
        levels: tuple[int, ...],
        leaves: Tensor,
        generator: torch.Generator,
        score: LevelScore,
    ) -> "Paths":
        """The paths at the levels; the first path is the positive's own, for its probability is needed too."""
        walked = tuple(range(self.first(shape, levels), levels[-1] + 1))
        positive = path(shape, walked, leaves)  # [U, J]
        fork = positive % shape.branch
        size = (len(walked) + 1, len(leaves), self.negatives)
        chance = torch.rand(size, generator=generator, device=leaves.device, dtype=torch.float64)
        flat = chance[-1] < self.mix if self.mix else None  # [U, M]: paths that choose uniformly
        nodes, chances = begin(shape, walked[0], positive[:, 0], score, chance[0], flat)
        trail = [(nodes, chances)]
        for step, level in enumerate(walked[1:], 1):
            nodes, chances = descend(shape, level, nodes, fork[:, step : step + 1], score, chance[step], flat)
            trail.append((nodes, chances))
        paths = trace(shape, walked[0], [nodes for nodes, _ in trail], [chances for _, chances in trail])
        return Paths(*(_columns(part, [level - walked[0] for level in levels]) for part in paths))


class Paths(NamedTuple):
    """Where paths are on some levels, and how likely they were to come there."""

    nodes: Tensor  # int64 [U, L, 1 + M]; path 0 leads to the positive
    tree: Tensor  # float64 [U, L, 1 + M], log probability of a path that chooses by softmax
    flat: Tensor  # float64 [U, L, 1 + M], log probability of a path that chooses uniformly


def begin(
    shape: TreeShape, level: int, positive: Tensor, score: LevelScore, chance: Tensor, flat: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Paths begun by the softmax over a level, [U, 1 + M] nodes and chances: positive [U], chance and flat [U, M]."""
    size = shape.sizes[level]
    shares = _level_scores(score, level, size, positive).softmax(1)  # [U, N]
    total = shares.cumsum(1)
    drawn = torch.searchsorted(total, chance * total[:, -1:], right=True)
    if flat is not None:
        drawn = torch.where(flat, (chance * size).long(), drawn)
    nodes = torch.cat([positive[:, None], drawn.clamp(max=size - 1)], 1)
    return nodes, shares.gather(1, nodes)


def descend(
    shape: TreeShape,
    level: int,
    parents: Tensor,
    fork: Tensor,
    score: LevelScore,
    chance: Tensor,
    flat: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Paths one step further, to `level`: parents [U, 1 + M], the positive's fork [U, 1], chance and flat [U, M].

    This is launched once per level in every training step, so it does no more than it must.
    """
    size, branch = shape.sizes[level], shape.branch
    eldest = parents * branch
    children = eldest[..., None] + _family(branch, parents.device)  # [U, 1 + M, B]
    if size % branch:  # the last node of the level above has fewer children
        scores = _scores(score, level, size, children.clamp(max=size - 1))
        shares = scores.masked_fill(children >= size, -torch.inf).softmax(2)
    else:
        shares = _scores(score, level, size, children).softmax(2)
    step = _step(shares[:, 1:, :-1], chance)  # [U, M]
    if flat is not None:
        step = torch.where(flat, (chance * (size - eldest[:, 1:]).clamp(max=branch)).long(), step)
    step = torch.cat([fork, step], 1)
    if size % branch:  # sums that round to less than 1 must not lead past the last child
        step = torch.minimum(step, size - 1 - eldest)
    return eldest + step, shares.gather(2, step[..., None])[..., 0]


def trace(shape: TreeShape, first: int, nodes: list[Tensor], chances: list[Tensor]) -> Paths:
    """Paths [U, J, 1 + M] with the products of what they chose, from their nodes and chances level by level."""
    places = torch.stack(nodes, 1)
    tree = torch.stack(chances, 1).clamp(min=1e-300).log().cumsum(1)  # float64: nothing is lost this far down
    sizes = _sizes(shape, places.device)[first + 1 : first + len(nodes)]  # [J - 1]
    family = (sizes[:, None] - places[:, :-1] * shape.branch).clamp(max=shape.branch)
    even = -F.pad(family.double().log(), (0, 0, 1, 0), value=math.log(shape.sizes[first])).cumsum(1)
    return Paths(places, tree, even)


def weigh(paths: Paths, mix: float, correction: str) -> Draw:
    """Paths [U, L, 1 + M] as a draw: those that hit the positive are dropped, the others corrected."""
    logq = mixed(paths.tree, paths.flat, mix)
    missed = paths.nodes != paths.nodes[..., :1]  # column 0 is False
    effective = missed.sum(2, keepdim=True)  # [U, L, 1]
    if correction == "exact":
        # A negative is never more likely than all negatives together; rounding must not say otherwise.
        logq = (logq - log_one_minus_exp(logq[..., :1])).clamp(max=0.0)
    logw = torch.where(missed, effective.clamp(min=1).log() + logq, 0.0)
    valid = torch.cat([torch.ones_like(missed[..., :1]), missed[..., 1:]], 2)
    return Draw(paths.nodes, logw.float(), valid, effective[..., 0] == 0)


def mixed(tree: Tensor, flat: Tensor, mix: float) -> Tensor:
    """log((1 - mix) exp(tree) + mix exp(flat))."""
    if mix == 0:
        return tree
    return torch.logaddexp(tree + math.log1p(-mix), flat + math.log(mix))


def log_one_minus_exp(x: Tensor) -> Tensor:
    """log(1 - exp(x)) for x <= 0 without loss near either end; -inf at 0."""
    x = x.clamp(max=0.0)
    return torch.where(x > -math.log(2), (-x.expm1()).log(), (-x.exp()).log1p())


def log_proposal(
    shape: TreeShape, scores: Mapping[int, Tensor], first: int, mix: float = 0.0
) -> dict[int, Tensor]:
    """log q of all nodes, float64 [U, N] at each level from `first` on, given the scores [U, N] of whole levels."""
    deepest = max(scores)
    tree = scores[first].double().log_softmax(1)
    flat = torch.full_like(tree, -math.log(shape.sizes[first]))
    found = {first: mixed(tree, flat, mix)}
    for level in range(first + 1, deepest + 1):
        size = shape.sizes[level]
        tree = tree.repeat_interleave(shape.branch, 1)[:, :size] + _among_siblings(
            scores[level], shape.branch
        )
        even = _among_siblings(torch.zeros_like(scores[level]), shape.branch)
        flat = flat.repeat_interleave(shape.branch, 1)[:, :size] + even
        found[level] = mixed(tree, flat, mix)
    return found


def proposal_kl(logq: Tensor, scores: Tensor) -> Tensor:
    """KL(Q || softmax(scores)) of one level in nats: [U, N] twice -> [U]."""
    return (logq.exp() * (logq - scores.double().log_softmax(1))).sum(1)


def _among_siblings(scores: Tensor, branch: int) -> Tensor:
    """Log softmax within each group of siblings: [U, N] -> [U, N]."""
    size = scores.shape[1]
    families = F.pad(scores.double(), (0, -size % branch), value=-torch.inf)
    return families.view(len(scores), -1, branch).log_softmax(2).flatten(1)[:, :size]


def _step(shares: Tensor, chance: Tensor) -> Tensor:
    """How many children a chance passes by: shares [U, M, B - 1], chance [U, M]."""
    if shares.shape[2] == 1:
        return (shares[..., 0] <= chance).long()
    # A product with a triangle, because a running sum along so short an axis takes a hundred times as long on a GPU.
    passed = shares @ _triangle(shares.shape[2], shares.device)
    return (passed <= chance[..., None]).sum(2)


def _scores(score: LevelScore, level: int, size: int, nodes: Tensor) -> Tensor:
    """Scores of nodes [U, P, B]; where that would be more than the whole level, each node is scored once."""
    if size < nodes.shape[1] * nodes.shape[2]:
        return _level_scores(score, level, size, nodes).gather(1, nodes.flatten(1)).view(nodes.shape)
    return score(level, nodes.flatten(1)).double().view(nodes.shape)


def _level_scores(score: LevelScore, level: int, size: int, like: Tensor) -> Tensor:
    """Scores of all nodes of a level: float64 [U, N]."""
    return score(level, torch.arange(size, device=like.device).expand(len(like), size)).double()


@lru_cache(maxsize=256)
def _family(branch: int, device: torch.device) -> Tensor:
    return torch.arange(branch, device=device)


@lru_cache(maxsize=256)
def _triangle(size: int, device: torch.device) -> Tensor:
    """Ones on and above the diagonal: a product with it gives running sums."""
    return torch.ones(size, size, dtype=torch.float64, device=device).triu()


@lru_cache(maxsize=256)
def _sizes(shape: TreeShape, device: torch.device) -> Tensor:
    return torch.tensor(shape.sizes, device=device)


def _columns(parts: Tensor, kept: list[int]) -> Tensor:
    """Some levels of [U, J, P]; a view where they follow each other."""
    if kept == list(range(kept[0], kept[-1] + 1)):
        return parts[:, kept[0] : kept[-1] + 1]
    return torch.stack([parts[:, i] for i in kept], 1)


def _joined(above: Draw, below: Draw) -> Draw:
    parts = zip(above[:4], below[:4], strict=True)  # both were drawn, not searched for
    return Draw(*(torch.cat(part, 1) for part in parts))
