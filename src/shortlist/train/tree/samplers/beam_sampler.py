"""Negatives that beam search scores, and targets by the model's own search: beam-aware training as in OTM."""

from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.index.tree.shape import TreeShape
from shortlist.train.tree.samplers.sampler import LevelScore, SampledNodes, SiblingSampler, check_levels, path


@dataclass(frozen=True)
class BeamSampler:
    """At each level the children of the `beam` best nodes above it under the current scores; no correction.

    Levels with no more nodes than the beam, the level below them, and the first requested level are complete. The
    positive is in column 0 whether or not the search reached it; `reached` says which.
    """

    beam: int

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise ConfigError(f"beam must be at least 1, got {self.beam}")

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
        scored = self._scored(shape, levels, leaves, score)
        columns = max(nodes.shape[1] for nodes in scored.values())
        nodes = torch.stack([_padded(scored[level], columns) for level in levels], 1)  # [U, L, C - 1]
        positive = path(shape, levels, leaves)[..., None]  # [U, L, 1]
        negative, reached = (nodes >= 0) & (nodes != positive), (nodes == positive).any(2)
        valid = torch.cat([torch.ones_like(negative[..., :1]), negative], 2)
        nodes = torch.cat([positive, nodes.clamp(min=0)], 2)
        logw = torch.zeros_like(nodes, dtype=torch.float32)
        return SampledNodes(nodes, logw, valid, ~negative.any(2), reached)

    def _scored(
        self, shape: TreeShape, levels: tuple[int, ...], leaves: Tensor, score: LevelScore | None
    ) -> dict[int, Tensor]:
        """The nodes that search scores at each of the levels: int64 [U, C], -1 where a child is missing."""
        # Levels above the first requested one are not trained: they cannot select.
        first = min(max(shape.start(self.beam), levels[0]), levels[-1])
        users = len(leaves)
        scored = {
            level: torch.arange(shape.sizes[level], device=leaves.device).expand(users, -1)
            for level in range(1, first + 1)
        }
        for level in range(first, levels[-1]):
            if score is None:
                raise ConfigError("the beam sampler needs scores to search by; give `score`")
            scored[level + 1] = self._next(shape, level, scored[level], score)
        return {level: scored[level] for level in levels}

    def _next(self, shape: TreeShape, level: int, nodes: Tensor, score: LevelScore) -> Tensor:
        """The children of the best of these nodes of `level`."""
        scores = score(level, nodes.clamp(min=0)).masked_fill(nodes < 0, -torch.inf)
        best = nodes.gather(1, scores.topk(min(self.beam, nodes.shape[1]), dim=1, sorted=False).indices)
        offsets = torch.arange(shape.branch, device=nodes.device)
        children = (best[..., None] * shape.branch + offsets).flatten(1)
        return torch.where(children < shape.sizes[level + 1], children, -1)


@torch.no_grad()
def model_targets(score: LevelScore, shape: TreeShape, levels: tuple[int, ...], leaves: Tensor) -> Tensor:
    """1 where the path is the best child at every step from this node down to the leaf, else 0: float32 [U, L].

    A leaf's target is 1. Children that tie for the best all count as the best.
    """
    check_levels(shape, levels)
    below = tuple(range(levels[0] + 1, shape.height + 1))
    if not below:
        return torch.ones(len(leaves), len(levels), device=leaves.device)
    children = SiblingSampler().sample(shape, below, leaves, torch.Generator())
    best = [
        _is_best(score(level, children.nodes[:, i]), children.valid[:, i]) for i, level in enumerate(below)
    ]
    lasting = torch.stack(best[::-1], 1).float().cumprod(1).flip(1)  # [U, J]: best from this step to the last
    lasting = torch.cat([lasting, torch.ones_like(lasting[:, :1])], 1)  # [U, J + 1]: levels[0] .. height
    return torch.stack([lasting[:, level - levels[0]] for level in levels], 1)


def _is_best(scores: Tensor, valid: Tensor) -> Tensor:
    """Whether column 0 is a maximum of the valid columns: [U, C] -> bool [U]."""
    return scores[:, 0] >= scores.masked_fill(~valid, -torch.inf).amax(1)


def _padded(nodes: Tensor, columns: int) -> Tensor:
    """Columns of -1 added on the right."""
    return torch.nn.functional.pad(nodes, (0, columns - nodes.shape[1]), value=-1)
