"""Bounded noise on user vectors at serving time, for exploration."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.errors import ConfigError

DRAWS = 128  # of the noise, for the probabilities of items
OTHER_STREAM = 0x5DEECE66D  # of random numbers than that of the request


def noisy_users(vectors: Tensor, sigma: float, seeds: Tensor) -> Tensor:
    """u' = |u| normalise(u / |u| + sigma * eps / sqrt(d)), eps ~ N(0, I) from the seed of each request [B, D].

    The cosine of u' to u is about 1 / sqrt(1 + sigma^2); with sigma 0, u' is u. Log sigma and the seeds: with them the
    vectors can be computed again.
    """
    if not 0 <= sigma < math.inf:
        raise ConfigError(f"serving noise: sigma must be 0 or a finite number above, got {sigma!r}")
    if sigma == 0:
        return vectors
    noise = _of_requests(vectors, seeds)
    length = vectors.norm(dim=1, keepdim=True)
    noisy: Tensor = length * F.normalize(
        vectors + sigma / math.sqrt(vectors.shape[1]) * length * noise, dim=1
    )
    return noisy


def unit_normals(vectors: Tensor, seeds: Tensor) -> Tensor:
    """A random direction for each request, from its seed [B, D]."""
    return F.normalize(_of_requests(vectors, seeds), dim=1)


def inclusion_shares(user: Tensor, items: Tensor, sigma: float, k: int, seed: int) -> Tensor:
    """The share of draws of the noise in which each item is among the best k: [D] and [K, D] -> [K].

    The draw that nominated an item counts too, so no share is 0. The order by u' is that before u' gets its length.
    """
    if len(items) <= k:
        return torch.ones(len(items), device=items.device)
    noise = _normals(seed ^ OTHER_STREAM, DRAWS * len(user)).view(DRAWS, len(user)).to(user)
    noisy = user + sigma / math.sqrt(len(user)) * user.norm() * noise  # [M, D]
    scores = noisy @ items.T
    among = scores >= scores.topk(k).values[:, -1:]
    share: Tensor = (among.sum(0) + 1) / (DRAWS + 1)
    return share


def _of_requests(vectors: Tensor, seeds: Tensor) -> Tensor:
    """Standard normal numbers from the seed of each request [B, D]."""
    noise = [_normals(int(seed), vectors.shape[1]) for seed in seeds.tolist()]
    return torch.stack(noise).to(vectors.device, vectors.dtype) if noise else torch.zeros_like(vectors)


def _normals(seed: int, width: int) -> Tensor:
    """Standard normal numbers of one request, the same on every device [D]."""
    return torch.randn(width, generator=torch.Generator().manual_seed(seed))
