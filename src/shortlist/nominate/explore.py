"""Exploration of nominators with known probabilities: noise on user vectors, and Gumbel noise on scores."""

import math

import torch
from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.models.serving_noise import unit_normals

DRAWS = 64
FLOOR = 0.01  # least probability that is logged: importance weights stay at most 100
STEPS = 60  # of the bisection


def bounded_noise(users: Tensor, eta: float, seeds: Tensor) -> Tensor:
    """q + eta |q| z / |z| with z ~ N(0, I) from the seed of each request [B, D].

    The noise has the length eta |q| in a random direction, so no score moves by more than eta |q| |item|. `noisy_users`
    draws its length at random and keeps the length of q.
    """
    if not 0 <= eta < math.inf:
        raise ConfigError(f"bounded noise: eta must be 0 or a finite number above, got {eta!r}")
    if eta == 0:
        return users
    noisy: Tensor = users + eta * users.norm(dim=1, keepdim=True) * unit_normals(users, seeds)
    return noisy


def gumbel_inclusion(
    scores: Tensor, slots: int, seed: int, temperature: float = 1.0, draws: int = DRAWS
) -> Tensor:
    """The probability of each item to be among the best `slots` by score / temperature + Gumbel noise [..., K].

    The share of draws, at least `FLOOR`. Items without a finite score have the probability 0.
    """
    logits, finite = _logits(scores, slots, temperature)
    generator = torch.Generator().manual_seed(seed)
    uniform = torch.rand((draws, *logits.shape), generator=generator, dtype=torch.float64).clamp(
        1e-300, 1 - 1e-16
    )
    noisy = (logits - (-uniform.log()).log().to(logits)).masked_fill(~finite, -torch.inf)
    chosen = noisy.topk(min(slots, logits.shape[-1]), dim=-1).indices
    share = torch.zeros_like(noisy).scatter_(-1, chosen, 1.0).mean(0)
    return _floored(share, finite, slots)


def poisson_inclusion(scores: Tensor, slots: int, temperature: float = 1.0) -> Tensor:
    """The same without draws: items arrive as Poisson processes of rate exp(score / temperature), 1 - exp(-rate t).

    At the time t the expected number of arrivals is `slots`; Gumbel-top-k takes the first `slots` arrivals exactly.
    """
    logits, finite = _logits(scores, slots, temperature)
    logits = logits.masked_fill(~finite, -torch.inf)
    log_rate = logits - torch.logsumexp(logits, -1, keepdim=True).nan_to_num(neginf=0.0)
    low = torch.full_like(log_rate[..., :1], -math.log(1e3))
    high = torch.full_like(low, 60.0)
    for _ in range(STEPS):  # bisection of log t
        middle = (low + high) / 2
        few = _arrived(log_rate + middle).sum(-1, keepdim=True) < slots
        low, high = torch.where(few, middle, low), torch.where(few, high, middle)
    # Below: as many slots as items, or items so unlikely that t has no bound.
    return _floored(_arrived(log_rate + high), finite, slots)


def candidate_inclusion(own: Tensor) -> Tensor:
    """The probability that one of N independent nominators returns an item: 1 - prod(1 - p), [..., N] -> [...]."""
    return 1 - (1 - own).prod(-1)


def _arrived(log_mean: Tensor) -> Tensor:
    return -torch.expm1(-log_mean.exp())


def _logits(scores: Tensor, slots: int, temperature: float) -> tuple[Tensor, Tensor]:
    if slots < 1 or not temperature > 0:
        raise ConfigError(
            f"inclusion: expected at least one slot and a temperature above 0, got {slots} and {temperature}"
        )
    return scores.to(torch.float64) / temperature, scores.isfinite()


def _floored(share: Tensor, finite: Tensor, slots: int) -> Tensor:
    """Shares of at least `FLOOR`; 1 where there is a slot for every item."""
    certain = finite.sum(-1, keepdim=True) <= slots
    floored = torch.where(certain, 1.0, share.clamp(min=FLOOR))
    return torch.where(finite, floored, 0.0).to(torch.float32)
