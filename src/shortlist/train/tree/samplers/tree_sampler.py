"""Tree-based sampling of negatives: random paths from the top, by the scorer's own softmax (DTR-T)."""

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
from shortlist.train.tree.samplers.sampler import LevelScore, SampledNodes, all_others, check_levels, path


@dataclass(frozen=True)
class TreeSampler:
    """Samples `negatives` paths; a level with more nodes than that gets the nodes on the paths as negatives.

    A path starts with the exact softmax over one level, the first with more than `negatives` + 1 nodes (or the first
    requested one, if deeper), or at the root (`start` "root", as in the paper). From there it goes to a child by the
    softmax over the children. With probability `mix` all choices of a path are uniform instead. So a node with low
    scores is still sampled, and no weight exceeds about N / mix. Smaller levels are complete.

    A sample that equals the positive is dropped. The M' left are samples from q among the negatives:
    logw = log M' + log q - log(1 - q_positive). `correction` "released" leaves out the last term, as the authors' code
    does, which counts the negatives 1 / (1 - q_positive) times.

    If all samples equal the positive, the level is skipped, not sampled again. This happens with probability q^M where
    the loss is about -log q, so it hides less than 1 / (e M) nats on average, 0.005 for 70 negatives.
    """

    negatives: int = 70
    start: str = "exact"
    mix: float = 0.0
    correction: str = "exact"

    def __post_init__(self) -> None:
        if self.negatives < 1 or not 0 <= self.mix < 1:
            raise ConfigError(
                f"expected negatives >= 1 and 0 <= mix < 1, got {self.negatives} and {self.mix}; "
                "for mix 1 use UniformSampler"
            )
        if self.start not in ("exact", "root") or self.correction not in ("exact", "released"):
            raise ConfigError(
                "start must be exact or root, correction exact or released; "
                f"got {self.start!r} and {self.correction!r}"
            )

    @torch.no_grad()
    def sample(
        self,
        shape: TreeShape,
        levels: tuple[int, ...],
        leaves: Tensor,
        generator: torch.Generator,
        score: LevelScore | None = None,
    ) -> SampledNodes:
        check_levels(shape, levels)
        small = tuple(level for level in levels if shape.sizes[level] <= self.negatives + 1)
        large = levels[len(small) :]
        if not large:
            return all_others(shape, levels, leaves)
        if score is None:
            raise ConfigError("the tree sampler needs scores to sample by; give `score`")
        paths = self._sample_paths(shape, large, leaves, generator, score)
        sampled = corrected(paths, self.mix, self.correction)
        return _joined(all_others(shape, small, leaves, self.negatives + 1), sampled) if small else sampled

    def first(self, shape: TreeShape, levels: tuple[int, ...]) -> int:
        """The level that paths start at; from the root, that is the softmax over the root's children."""
        return 1 if self.start == "root" else max(shape.start(self.negatives + 1), levels[0])

    def _sample_paths(
        self,
        shape: TreeShape,
        levels: tuple[int, ...],
        leaves: Tensor,
        generator: torch.Generator,
        score: LevelScore,
    ) -> "Paths":
        """The paths at the levels; path 0 is the positive's own, whose probability is needed too."""
        visited = tuple(range(self.first(shape, levels), levels[-1] + 1))
        positive = path(shape, visited, leaves)  # [U, J]
        child = positive % shape.branch
        size = (len(visited) + 1, len(leaves), self.negatives)
        random = torch.rand(size, generator=generator, device=leaves.device, dtype=torch.float64)
        uniform = random[-1] < self.mix if self.mix else None  # [U, M]: paths with uniform choices
        nodes, probs = start_paths(shape, visited[0], positive[:, 0], score, random[0], uniform)
        steps = [(nodes, probs)]
        for step, level in enumerate(visited[1:], 1):
            own = child[:, step : step + 1]
            nodes, probs = extend_paths(shape, level, nodes, own, score, random[step], uniform)
            steps.append((nodes, probs))
        paths = joined_paths(shape, visited[0], [nodes for nodes, _ in steps], [probs for _, probs in steps])
        return Paths(*(_select_levels(part, [level - visited[0] for level in levels]) for part in paths))


class Paths(NamedTuple):
    """Nodes of paths at some levels with their log probabilities."""

    nodes: Tensor  # int64 [U, L, 1 + M]; path 0 leads to the positive
    tree: Tensor  # float64 [U, L, 1 + M], log probability under the softmax
    uniform: Tensor  # float64 [U, L, 1 + M], log probability under uniform choices


def start_paths(
    shape: TreeShape, level: int, positive: Tensor, score: LevelScore, random: Tensor, uniform: Tensor | None
) -> tuple[Tensor, Tensor]:
    """First nodes of the paths by the softmax over a level, and their probabilities, [U, 1 + M] each.

    positive [U]; random and uniform [U, M].
    """
    size = shape.sizes[level]
    probs = _level_scores(score, level, size, positive).softmax(1)  # [U, N]
    total = probs.cumsum(1)
    sampled = torch.searchsorted(total, random * total[:, -1:], right=True)
    if uniform is not None:
        sampled = torch.where(uniform, (random * size).long(), sampled)
    nodes = torch.cat([positive[:, None], sampled.clamp(max=size - 1)], 1)
    return nodes, probs.gather(1, nodes)


def extend_paths(
    shape: TreeShape,
    level: int,
    parents: Tensor,
    own: Tensor,
    score: LevelScore,
    random: Tensor,
    uniform: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Paths one step further, to `level`: parents [U, 1 + M], the positive's child [U, 1], random and uniform [U, M].

    Runs once per level in every training step, so it does only what is needed.
    """
    size, branch = shape.sizes[level], shape.branch
    first = parents * branch
    children = first[..., None] + _offsets(branch, parents.device)  # [U, 1 + M, B]
    if size % branch:  # the last node of the level above has fewer children
        scores = _scores(score, level, size, children.clamp(max=size - 1))
        probs = scores.masked_fill(children >= size, -torch.inf).softmax(2)
    else:
        probs = _scores(score, level, size, children).softmax(2)
    child = _sample_child(probs[:, 1:, :-1], random)  # [U, M]
    if uniform is not None:
        child = torch.where(uniform, (random * (size - first[:, 1:]).clamp(max=branch)).long(), child)
    child = torch.cat([own, child], 1)
    if size % branch:  # sums that round to less than 1 must not select a missing child
        child = torch.minimum(child, size - 1 - first)
    return first + child, probs.gather(2, child[..., None])[..., 0]


def joined_paths(shape: TreeShape, first: int, nodes: list[Tensor], probs: list[Tensor]) -> Paths:
    """Paths [U, J, 1 + M] with the log probability up to each level, from nodes and probabilities per level."""
    stacked = torch.stack(nodes, 1)
    tree = torch.stack(probs, 1).clamp(min=1e-300).log().cumsum(1)  # float64 keeps deep products exact
    sizes = _sizes(shape, stacked.device)[first + 1 : first + len(nodes)]  # [J - 1]
    children = (sizes[:, None] - stacked[:, :-1] * shape.branch).clamp(max=shape.branch)
    uniform = -F.pad(children.double().log(), (0, 0, 1, 0), value=math.log(shape.sizes[first])).cumsum(1)
    return Paths(stacked, tree, uniform)


def corrected(paths: Paths, mix: float, correction: str) -> SampledNodes:
    """Paths [U, L, 1 + M] as sampled nodes: those equal to the positive are dropped, the others corrected."""
    logq = mixed(paths.tree, paths.uniform, mix)
    negative = paths.nodes != paths.nodes[..., :1]  # column 0 is False
    effective = negative.sum(2, keepdim=True)  # [U, L, 1]
    if correction == "exact":
        # Clamped: by rounding, a negative could seem more likely than all negatives together.
        logq = (logq - log_one_minus_exp(logq[..., :1])).clamp(max=0.0)
    logw = torch.where(negative, effective.clamp(min=1).log() + logq, 0.0)
    valid = torch.cat([torch.ones_like(negative[..., :1]), negative[..., 1:]], 2)
    return SampledNodes(paths.nodes, logw.float(), valid, effective[..., 0] == 0)


def mixed(tree: Tensor, uniform: Tensor, mix: float) -> Tensor:
    """log((1 - mix) exp(tree) + mix exp(uniform))."""
    if mix == 0:
        return tree
    return torch.logaddexp(tree + math.log1p(-mix), uniform + math.log(mix))


def log_one_minus_exp(x: Tensor) -> Tensor:
    """log(1 - exp(x)) for x <= 0, accurate near both ends; -inf at 0."""
    x = x.clamp(max=0.0)
    return torch.where(x > -math.log(2), (-x.expm1()).log(), (-x.exp()).log1p())


def log_proposal(
    shape: TreeShape, scores: Mapping[int, Tensor], first: int, mix: float = 0.0
) -> dict[int, Tensor]:
    """log q of all nodes, float64 [U, N] at each level from `first` on, given the scores [U, N] of whole levels."""
    deepest = max(scores)
    tree = scores[first].double().log_softmax(1)
    uniform = torch.full_like(tree, -math.log(shape.sizes[first]))
    found = {first: mixed(tree, uniform, mix)}
    for level in range(first + 1, deepest + 1):
        size = shape.sizes[level]
        tree = tree.repeat_interleave(shape.branch, 1)[:, :size] + _among_siblings(
            scores[level], shape.branch
        )
        even = _among_siblings(torch.zeros_like(scores[level]), shape.branch)
        uniform = uniform.repeat_interleave(shape.branch, 1)[:, :size] + even
        found[level] = mixed(tree, uniform, mix)
    return found


def proposal_kl(logq: Tensor, scores: Tensor) -> Tensor:
    """KL(Q || softmax(scores)) of one level in nats: [U, N] twice -> [U]."""
    return (logq.exp() * (logq - scores.double().log_softmax(1))).sum(1)


def _among_siblings(scores: Tensor, branch: int) -> Tensor:
    """Log softmax within each group of siblings: [U, N] -> [U, N]."""
    size = scores.shape[1]
    groups = F.pad(scores.double(), (0, -size % branch), value=-torch.inf)
    return groups.view(len(scores), -1, branch).log_softmax(2).flatten(1)[:, :size]


def _sample_child(probs: Tensor, random: Tensor) -> Tensor:
    """The child of a random number by inverse transform: probabilities [U, M, B - 1], random [U, M]."""
    if probs.shape[2] == 1:
        return (probs[..., 0] <= random).long()
    # A product with a triangular matrix: a cumulative sum along so short an axis is a hundred times slower on a GPU.
    cumulative = probs @ _triangle(probs.shape[2], probs.device)
    return (cumulative <= random[..., None]).sum(2)


def _scores(score: LevelScore, level: int, size: int, nodes: Tensor) -> Tensor:
    """Scores of nodes [U, P, B]; where those are more than the whole level, each node is scored once."""
    if size < nodes.shape[1] * nodes.shape[2]:
        return _level_scores(score, level, size, nodes).gather(1, nodes.flatten(1)).view(nodes.shape)
    return score(level, nodes.flatten(1)).double().view(nodes.shape)


def _level_scores(score: LevelScore, level: int, size: int, like: Tensor) -> Tensor:
    """Scores of all nodes of a level: float64 [U, N]."""
    return score(level, torch.arange(size, device=like.device).expand(len(like), size)).double()


@lru_cache(maxsize=256)
def _offsets(branch: int, device: torch.device) -> Tensor:
    return torch.arange(branch, device=device)


@lru_cache(maxsize=256)
def _triangle(size: int, device: torch.device) -> Tensor:
    """Ones on and above the diagonal: a product with it gives cumulative sums."""
    return torch.ones(size, size, dtype=torch.float64, device=device).triu()


@lru_cache(maxsize=256)
def _sizes(shape: TreeShape, device: torch.device) -> Tensor:
    return torch.tensor(shape.sizes, device=device)


def _select_levels(parts: Tensor, kept: list[int]) -> Tensor:
    """Some levels of [U, J, P]; a view where they are consecutive."""
    if kept == list(range(kept[0], kept[-1] + 1)):
        return parts[:, kept[0] : kept[-1] + 1]
    return torch.stack([parts[:, i] for i in kept], 1)


def _joined(above: SampledNodes, below: SampledNodes) -> SampledNodes:
    parts = zip(above[:4], below[:4], strict=True)  # `reached` is None in both
    return SampledNodes(*(torch.cat(part, 1) for part in parts))
