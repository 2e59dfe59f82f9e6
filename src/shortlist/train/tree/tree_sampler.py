"""Negatives drawn by walking down the tree as the scores point: the sampler of DTR(T)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.errors import ConfigError
from shortlist.index.tree.shape import TreeShape
from shortlist.train.tree.sampler import Draw, LevelScore, check_levels, every_other


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
        """The level that paths begin at."""
        return 0 if self.start == "root" else max(shape.start(self.negatives + 1), levels[0])

    def _walk(
        self,
        shape: TreeShape,
        levels: tuple[int, ...],
        leaves: Tensor,
        generator: torch.Generator,
        score: LevelScore,
    ) -> "Paths":
        """The paths at the levels [U, L, 1 + M]; path 0 is the positive's own, for its probability is needed too."""
        first = self.first(shape, levels)
        walked = range(first, levels[-1] + 1)
        ways = (len(leaves), self.negatives)
        chance = torch.rand(
            len(walked) + 1, *ways, generator=generator, device=leaves.device, dtype=torch.float64
        )
        flat = chance[-1] < self.mix  # [U, M]: paths that choose uniformly
        paths = begin(shape, first, shape.ancestor(leaves.long(), first), score, chance[0], flat)
        kept = [paths] if first in levels else []
        for step, level in enumerate(walked[1:], 1):
            paths = descend(
                paths, shape, level, shape.ancestor(leaves.long(), level), score, chance[step], flat
            )
            kept += [paths] if level in levels else []
        return Paths(*(torch.stack(parts, 1) for parts in zip(*kept, strict=True)))


class Paths(NamedTuple):
    """Where paths are on one level (or several), and how likely they were to come there."""

    nodes: Tensor  # int64 [U, 1 + M]; path 0 leads to the positive
    tree: Tensor  # float64 [U, 1 + M], log probability of the path when it chooses by softmax
    flat: Tensor  # float64 [U, 1 + M], log probability of the path when it chooses uniformly


def begin(
    shape: TreeShape, level: int, positive: Tensor, score: LevelScore, chance: Tensor, flat: Tensor
) -> Paths:
    """Paths begun by the softmax over all nodes of a level: positive [U], chance and flat [U, M]."""
    size = shape.sizes[level]
    logp = _level_scores(score, level, size, positive).log_softmax(1)  # [U, N]
    total = logp.exp().cumsum(1)
    drawn = torch.searchsorted(total, chance * total[:, -1:], right=True)
    drawn = torch.where(flat, (chance * size).long(), drawn).clamp(max=size - 1)
    nodes = torch.cat([positive[:, None], drawn], 1)
    return Paths(nodes, logp.gather(1, nodes), torch.full_like(nodes, -math.log(size), dtype=torch.float64))


def descend(
    paths: Paths,
    shape: TreeShape,
    level: int,
    positive: Tensor,
    score: LevelScore,
    chance: Tensor,
    flat: Tensor,
) -> Paths:
    """The paths one level further down, at `level`."""
    size, branch = shape.sizes[level], shape.branch
    family = torch.arange(branch, device=positive.device)  # [B]
    children = paths.nodes[..., None] * branch + family  # [U, 1 + M, B]
    count = (size - children[..., 0]).clamp(max=branch)  # [U, 1 + M]: children there are
    scores = _scores(score, level, size, children.clamp(max=size - 1))
    local = scores.masked_fill(children >= size, -torch.inf).log_softmax(2)
    step = _step(local[:, 1:], count[:, 1:], chance, flat)
    step = torch.cat([(positive % branch)[:, None], step], 1)  # [U, 1 + M]
    tree = paths.tree + local.gather(2, step[..., None])[..., 0]
    return Paths(children[..., 0] + step, tree, paths.flat - count.log())


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


def _step(local: Tensor, count: Tensor, chance: Tensor, flat: Tensor) -> Tensor:
    """Which child each path takes: local [U, M, B] log probabilities, count, chance and flat [U, M]."""
    by_score = (local[..., :-1].exp().cumsum(2) <= chance[..., None]).sum(2)
    step = torch.where(flat, (chance * count).long(), by_score)
    return torch.minimum(step, count - 1)  # sums that round to less than 1 must not lead past the last child


def _scores(score: LevelScore, level: int, size: int, nodes: Tensor) -> Tensor:
    """Scores of nodes [U, P, B]; where that would be more than the whole level, each node is scored once."""
    if size < nodes.shape[1] * nodes.shape[2]:
        return _level_scores(score, level, size, nodes).gather(1, nodes.flatten(1)).view(nodes.shape)
    return score(level, nodes.flatten(1)).double().view(nodes.shape)


def _level_scores(score: LevelScore, level: int, size: int, like: Tensor) -> Tensor:
    """Scores of all nodes of a level: float64 [U, N]; the root needs none."""
    if size == 1:
        return torch.zeros(len(like), 1, dtype=torch.float64, device=like.device)
    return score(level, torch.arange(size, device=like.device).expand(len(like), size)).double()


def _joined(above: Draw, below: Draw) -> Draw:
    return Draw(*(torch.cat(parts, 1) for parts in zip(above, below, strict=True)))
