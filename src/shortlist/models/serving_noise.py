"""Bounded noise on user vectors at serving time, for exploration."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.errors import ConfigError


def noisy_users(vectors: Tensor, sigma: float, seeds: Tensor) -> Tensor:
    """u' = normalise(u + sigma * eps / sqrt(d)), eps ~ N(0, I) from the seed of each request; [B, D], [B] -> [B, D].

    `vectors` have unit length. The cosine of u' to u is about 1 / sqrt(1 + sigma^2); with sigma 0, u' is u. Log sigma
    and the seeds: with them the vectors can be computed again.
    """
    if not 0 <= sigma < math.inf:
        raise ConfigError(f"serving noise: sigma must be 0 or a finite number above, got {sigma!r}")
    if sigma == 0:
        return vectors
    noise = torch.stack([_normals(int(seed), vectors.shape[1]) for seed in seeds.tolist()])
    noise = noise.to(vectors.device, vectors.dtype)
    return F.normalize(vectors + sigma / math.sqrt(vectors.shape[1]) * noise, dim=1)


def _normals(seed: int, width: int) -> Tensor:
    """Standard normal numbers of one request, the same on every device [D]."""
    return torch.randn(width, generator=torch.Generator().manual_seed(seed))
