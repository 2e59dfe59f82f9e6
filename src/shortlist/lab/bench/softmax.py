"""Time of a softmax over all items, and of vectors fitted with it, over that of plain implementations."""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.evaluate.latency import one_thread
from shortlist.lab.bench.comparison import Comparison
from shortlist.lab.bench.timing import estimates
from shortlist.lab.result import Result, result, row, start
from shortlist.models.fold_in import fold_in, sums_of
from shortlist.progress import Progress, silent
from shortlist.train.loop.blocked_softmax import blocked_softmax_loss
from shortlist.train.loop.products import fast_products
from shortlist.train.loop.shared_negatives import shared_negatives_loss

PRIOR = 2.0


@dataclass(frozen=True)
class Size:
    """Sizes of all inputs."""

    items: int = 3706
    width: int = 64
    events: int = 4096  # of a step
    sampled: int = 1024
    users: int = 40  # whose vectors are fitted
    longest: int = 300  # events of a user


def bench_softmax(
    seed: int = 0,
    size: Size | None = None,
    repeats: int = 5,
    seconds: float = 5.0,
    progress: Progress = silent,
) -> Result:
    """All on one thread, alternating, after checking that both sides give equal results; medians over rounds."""
    began, size = start(), size or Size()
    rows, claims = [], []
    with one_thread():
        for step, comparison in enumerate((_step(size, seed), _offers(size, seed), _vectors(size, seed))):
            progress("bench softmax", step, 3)
            own, times = comparison.measured(repeats, seconds)
            rows += [
                row(comparison.name, f"ms, {side}", [1e3 * t for t in took]) for side, took in times.items()
            ]
            rows.append(row(comparison.name, "ratio", own))
            claims.append(comparison.claim(statistics.median(own)))
    profile = f"{size.items} items, width {size.width}, {size.events} events, {size.users} users, one thread"
    return result("softmax", profile, [seed], began, rows, claims, figures=estimates(claims))


def _step(size: Size, seed: int) -> Comparison:
    """The loss of a training step and its gradients: all logits by autograd, against blocks."""
    generator = torch.Generator().manual_seed(seed)
    users = torch.randn(size.events, size.width, generator=generator, requires_grad=True)
    items = (torch.randn(size.items, size.width, generator=generator) / 8).requires_grad_()
    target = torch.randint(size.items, (size.events,), generator=generator)

    def gradients(loss: Tensor) -> tuple[Tensor, ...]:
        return (loss.detach(), *torch.autograd.grad(loss, (users, items)))

    def plain(_: int) -> tuple[Tensor, ...]:
        return gradients(F.cross_entropy(users @ items.T, target))

    def ours(_: int) -> tuple[Tensor, ...]:
        with fast_products():
            return gradients(blocked_softmax_loss(users, items, target))

    return Comparison(
        "softmax_plain_over_ours",
        "time of a softmax loss and its gradients with all logits at once over ours, block by block with oneDNN",
        ("plain", plain),
        ("ours", ours),
        max(float((one - two).abs().max()) for one, two in zip(plain(0), ours(0), strict=True)),
        least=1.5,
    )


def _offers(size: Size, seed: int) -> Comparison:
    """The same against sampled items that the events share."""
    generator = torch.Generator().manual_seed(seed)
    users = torch.randn(size.events, size.width, generator=generator, requires_grad=True)
    vectors = (torch.randn(size.items, size.width, generator=generator) / 8).requires_grad_()
    target = torch.randint(size.items, (size.events,), generator=generator)
    ids = torch.randint(size.items, (size.sampled,), generator=generator)

    def chosen() -> Tensor:
        return (users * F.embedding(target, vectors)).sum(1)

    def plain(_: int) -> tuple[Tensor, ...]:
        others = (users @ F.embedding(ids, vectors).T).masked_fill(ids[None] == target[:, None], -torch.inf)
        own = chosen()
        loss = (torch.cat([own[:, None], others], 1).logsumexp(1) - own).mean()
        return (loss.detach(), *torch.autograd.grad(loss, (users, vectors)))

    def ours(_: int) -> tuple[Tensor, ...]:
        with fast_products():
            loss = shared_negatives_loss(
                users, chosen(), target, ids, lambda rows: F.embedding(rows, vectors)
            )
            return (loss.detach(), *torch.autograd.grad(loss, (users, vectors)))

    return Comparison(
        "offers_plain_over_ours",
        "time of a softmax loss over sampled items and its gradients with all logits at once over ours",
        ("plain", plain),
        ("ours", ours),
        max(float((one - two).abs().max()) for one, two in zip(plain(0), ours(0), strict=True)),
        least=1.5,
    )


def _vectors(size: Size, seed: int) -> Comparison:
    """Vectors of users with items frozen: one user after the other by scipy, against all together."""
    generator = torch.Generator().manual_seed(seed)
    items = torch.randn(size.items, size.width, generator=generator) / 4
    mean = torch.randn(size.width, generator=generator) / 8
    lengths = torch.randint(1, size.longest, (size.users,), generator=generator)
    taste = torch.randn(size.users, size.width, generator=generator)
    chosen = (taste @ items.T).softmax(1).multinomial(size.longest, replacement=True, generator=generator)
    rows = torch.cat([own[:length] for own, length in zip(chosen, lengths.tolist(), strict=True)])
    sums = sums_of(rows, items, lengths)

    def plain(_: int) -> Tensor:
        return torch.from_numpy(np.stack(list(_one_by_one(sums, lengths, items, mean))))

    def ours(_: int) -> Tensor:
        with fast_products():
            return fold_in(sums, lengths, items, mean, PRIOR)

    given = _given(sums, lengths, items, mean)
    plain_losses, our_losses = (
        torch.stack([_loss(own.double(), *one) for own, one in zip(found, given, strict=True)])
        for found in (plain(0), ours(0))
    )
    return Comparison(
        "fold_in_plain_over_ours",
        "time of L-BFGS by scipy for one user after the other over ours, for all together; the losses are equal",
        ("plain", plain),
        ("ours", ours),
        float(((our_losses - plain_losses) / plain_losses.abs()).max()),
        least=5.0,
    )


def _given(
    sums: Tensor, lengths: Tensor, items: Tensor, mean: Tensor
) -> list[tuple[Tensor, float, Tensor, Tensor]]:
    own = zip(sums.double(), lengths.tolist(), strict=True)
    return [(total, float(length), items.double(), mean.double()) for total, length in own]


def _loss(vector: Tensor, total: Tensor, length: float, items: Tensor, mean: Tensor) -> Tensor:
    away = vector - mean
    return length * (items @ vector).logsumexp(0) - vector @ total + PRIOR * away @ away


def _one_by_one(sums: Tensor, lengths: Tensor, items: Tensor, mean: Tensor) -> Iterator[np.ndarray]:
    for total, length, _, _ in _given(sums, lengths, items, mean):

        def value(at: np.ndarray, total: Tensor = total, length: float = length) -> tuple[float, np.ndarray]:
            vector = torch.from_numpy(at.astype(np.float32)).requires_grad_()
            loss = _loss(vector, total.float(), length, items, mean)
            (gradient,) = torch.autograd.grad(loss, vector)
            return loss.item(), gradient.double().numpy()

        yield minimize(value, mean.double().numpy(), jac=True, method="L-BFGS-B").x
