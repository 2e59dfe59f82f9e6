"""List A of the specification, and the slow obvious versions of the losses."""

import math
from collections.abc import Callable
from itertools import product

import torch
from hypothesis import strategies as st
from torch import Tensor

S = (0.5, -0.2, 1.0, 0.3, 0.0, -1.0)
Z = (4.0, 3.0, 2.0, 1.0, 0.0, 0.0)
S2 = (0.2, 0.4, 0.9, -0.3, 0.1, 0.0)
Y = (1.0, 1.0, 0.0, 0.0, 0.0, 0.0)


def row(values: object, dtype: torch.dtype = torch.float64) -> Tensor:
    """One list [1, L]."""
    return torch.tensor([list(values)], dtype=dtype)  # type: ignore[call-overload]


def full(scores: Tensor) -> Tensor:
    """The mask of lists without padding."""
    return torch.ones_like(scores, dtype=torch.bool)


def list_a(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, labels and mask of list A; the scores have a gradient."""
    scores = row(S, dtype)
    return scores.requires_grad_(), row(Z, dtype), full(scores)


def gradient(loss: Callable[[Tensor], Tensor], scores: Tensor) -> Tensor:
    """The gradient of the summed losses at these scores."""
    own = scores.detach().clone().requires_grad_()
    (grad,) = torch.autograd.grad(loss(own).sum(), own)
    return grad


def central_differences(loss: Callable[[Tensor], Tensor], scores: Tensor, step: float = 1e-5) -> Tensor:
    """The numerical gradient of the summed losses, one score after the other."""
    flat, grad = scores.detach().clone().flatten(), torch.zeros(scores.numel(), dtype=scores.dtype)
    for at in range(len(flat)):
        up, down = flat.clone(), flat.clone()
        up[at] += step
        down[at] -= step
        grad[at] = (loss(up.view_as(scores)) - loss(down.view_as(scores))).sum() / (2 * step)
    return grad.view_as(scores)


def slow_ranks(scores: list[float]) -> list[int]:
    """1 + strictly greater ones + equal ones before it."""
    return [
        1 + sum(other > own or (other == own and before < at) for before, other in enumerate(scores))
        for at, own in enumerate(scores)
    ]


def slow_dcg(gains: list[float], order: list[int], top: int = 10**9) -> float:
    """DCG of items in this order."""
    return sum(gains[item] / math.log2(place + 2) for place, item in enumerate(order[:top]))


def slow_pairs(labels: list[float]) -> list[tuple[int, int]]:
    """Pairs with a larger label first."""
    return [(i, j) for i, j in product(range(len(labels)), repeat=2) if labels[i] > labels[j]]


def slow_neuralsort(scores: list[float], tau: float) -> list[list[float]]:
    """Row by row."""
    n, rows = len(scores), []
    spread = [sum(abs(one - other) for other in scores) for one in scores]
    for k in range(1, n + 1):
        logits = [((n + 1 - 2 * k) * one - far) / tau for one, far in zip(scores, spread, strict=True)]
        high = max(logits, default=0.0)
        terms = [math.exp(one - high) for one in logits]
        rows.append([one / sum(terms) for one in terms])
    return rows


@st.composite
def lists(draw: st.DrawFn, ties: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Random scores, labels and masks in double precision [B, L]; scores differ by at least .01 without ties."""
    batch, length = draw(st.integers(1, 4)), draw(st.integers(1, 8))
    seed = draw(st.integers(0, 2**31))
    generator = torch.Generator().manual_seed(seed)
    steps = torch.rand(batch, length, generator=generator).argsort(1).double()
    noise = torch.rand(batch, length, generator=generator, dtype=torch.float64)
    scores = (
        torch.randint(3, (batch, length), generator=generator).double() if ties else steps / 2 + noise / 4
    )
    labels = torch.randint(5, (batch, length), generator=generator).double()
    mask = torch.rand(batch, length, generator=generator) < draw(st.sampled_from([0.5, 0.8, 1.0]))
    return scores - scores.mean(), labels, mask
