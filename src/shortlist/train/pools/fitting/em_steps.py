"""The M-steps of a mixture of nominators; each maximises the expected log-likelihood over some of its parameters."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.models.mixture import JoinedExperts, PoolMixture, TwoTowerExperts
from shortlist.models.mixture.pool_mixture import LEAST_SIGMA

CELLS = 1 << 24  # numbers in memory at a time
LEAST_SHARE = 1e-30


@dataclass(frozen=True, eq=False)
class Expected:
    """All examples, with the responsibilities of the nominators times the weights of the examples."""

    contexts: Tensor  # [T, d]
    items: Tensor  # [T]
    rewards: Tensor  # [T]
    shares: Tensor  # [T, N]


@torch.no_grad()
def gate_step(model: PoolMixture, seen: Expected, ridge: float, steps: int) -> None:
    """Multinomial logistic regression on the shares: in closed form for an item gate, L-BFGS otherwise."""
    if model.gate.kind == "item":
        total = torch.zeros_like(model.gate.items).index_add_(0, seen.items, seen.shares)
        count = total.sum(1, keepdim=True)
        # v is compared with the bias of a centred gate, so that p is the mean share.
        new = (total / count.clamp(min=LEAST_SHARE)).clamp(min=LEAST_SHARE).log() - model.gate.bias
        model.gate.items.copy_(torch.where(count > 0, new, model.gate.items))
        return
    if parameters := [one for one in model.gate.parameters() if one.requires_grad]:
        _logistic(model, parameters, seen, ridge, steps)


def _logistic(
    model: PoolMixture, parameters: list[torch.nn.Parameter], seen: Expected, ridge: float, steps: int
) -> None:
    """A few steps of L-BFGS; they are taken back if they did not improve."""
    optimizer = torch.optim.LBFGS(parameters, max_iter=steps, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        log_p: Tensor = model.gate(seen.contexts, seen.items)
        fit = -(seen.shares * log_p.masked_fill(log_p == -torch.inf, 0.0)).sum()
        return (fit + ridge / 2 * gate_norm(model)) / seen.shares.sum()

    def closure() -> float:
        optimizer.zero_grad()
        with torch.enable_grad():
            value = loss()
        value.backward()  # type: ignore[no-untyped-call]
        return float(value.detach())

    before, kept = float(loss()), [one.detach().clone() for one in parameters]
    optimizer.step(closure)  # type: ignore[no-untyped-call]
    if not float(loss()) <= before:
        for one, old in zip(parameters, kept, strict=True):
            one.copy_(old)
    optimizer.zero_grad()


@torch.no_grad()
def item_step(model: PoolMixture, seen: Expected, ridge: float) -> None:
    """Item vectors of two-tower experts by ridge regression on the vectors of contexts."""
    for experts, own in learned(model):
        if not experts.items.requires_grad:
            continue
        precision = _precision(model)[own]  # [N]
        shape = experts.items.shape
        gram = experts.items.new_zeros(*shape, shape[-1])  # [A, N or 1, D, D]
        right = experts.items.new_zeros(shape)
        for part in _parts(len(seen.items), experts.n_experts * experts.width**2):
            users = experts.users(seen.contexts[part])  # [B, N, D]
            shares = seen.shares[part][:, own] * precision
            weighted = users * shares[..., None]
            outer = weighted[..., None] * users[..., None, :]
            linear = weighted * seen.rewards[part][:, None, None]
            if experts.shared_items:
                outer, linear = outer.sum(1, keepdim=True), linear.sum(1, keepdim=True)
            gram.index_add_(0, seen.items[part], outer)
            right.index_add_(0, seen.items[part], linear)
        experts.items.copy_(_ridge(gram, right, ridge))


@torch.no_grad()
def user_step(model: PoolMixture, seen: Expected, ridge: float) -> None:
    """Weights of the features of two-tower experts by ridge regression, from sums of squares of every item."""
    for experts, own in learned(model):
        if not experts.weight.requires_grad:
            continue
        precision = _precision(model)[own]
        for n in range(experts.n_experts):
            features = experts.features[:, n].nonzero()[:, 0]
            shares = seen.shares[:, own][:, n] * precision[n]
            solved = _user_weights(experts, n, features, seen, shares, ridge)
            experts.weight[features, n], experts.constant[n] = solved[:-1], solved[-1]


def _user_weights(
    experts: TwoTowerExperts, n: int, features: Tensor, seen: Expected, shares: Tensor, ridge: float
) -> Tensor:
    """The weights of expert n for its features and the constant [s + 1, D]."""
    size = len(features) + 1
    squares = experts.weight.new_zeros(experts.n_items, size, size)
    linear = experts.weight.new_zeros(experts.n_items, size)
    for part in _parts(len(seen.items), size**2):
        x = seen.contexts[part][:, features]
        x = torch.cat([x, x.new_ones(len(x), 1)], 1)
        weighted = x * shares[part][:, None]
        squares.index_add_(0, seen.items[part], weighted[:, :, None] * x[:, None])
        linear.index_add_(0, seen.items[part], weighted * seen.rewards[part][:, None])
    vectors = experts.vectors()[:, n]  # [A, D]
    gram = torch.einsum("ast,ad,ae->sdte", squares, vectors, vectors)
    right = torch.einsum("as,ad->sd", linear, vectors)
    width = size * experts.width
    return _ridge(gram.reshape(width, width), right.reshape(width), ridge).view(size, experts.width)


@torch.no_grad()
def sigma_step(model: PoolMixture, seen: Expected) -> None:
    """The standard deviation of what the experts leave unexplained, one for all or one for each."""
    if not model.learn_sigma:
        return
    squares = model.log_sigma.new_zeros(model.n_experts)
    for part in _parts(len(seen.items), model.n_experts):
        scores = model.experts(seen.contexts[part], seen.items[part])
        squares += (seen.shares[part] * (seen.rewards[part][:, None] - scores) ** 2).sum(0)
    shares = seen.shares.sum(0)
    if len(model.log_sigma) == 1:
        squares, shares = squares.sum(0, keepdim=True), shares.sum(0, keepdim=True)
    # Above the floor the best sigma is this one; below it, the likelihood falls with sigma: the floor is best.
    used = shares > LEAST_SHARE
    best = (squares / shares.clamp(min=LEAST_SHARE)).sqrt().clamp(min=LEAST_SIGMA).log()
    model.log_sigma.copy_(torch.where(used, best, model.log_sigma))


def learned(model: PoolMixture) -> list[tuple[TwoTowerExperts, slice]]:
    """The two-tower experts of a mixture, and their places among the nominators."""
    parts = list(model.experts.parts) if isinstance(model.experts, JoinedExperts) else [model.experts]
    found: list[tuple[TwoTowerExperts, slice]] = []
    start = 0
    for part in parts:
        stop = start + int(part.n_experts)  # type: ignore[arg-type]
        if isinstance(part, TwoTowerExperts):
            found.append((part, slice(start, stop)))
        start = stop
    return found


def gate_norm(model: PoolMixture) -> Tensor:
    """The sum of squares of the gate's weights; 0 for an item gate, which is fitted without a penalty."""
    zero = model.log_sigma.new_zeros(())
    if model.gate.kind == "item":
        return zero
    return sum(((one**2).sum() for one in model.gate.parameters()), zero)


def expert_norm(model: PoolMixture) -> Tensor:
    """The sum of squares of all weights of the learned experts."""
    zero = model.log_sigma.new_zeros(())
    parts = [
        (part.weight * part.features[..., None], part.constant, part.items) for part, _ in learned(model)
    ]
    return sum(((one**2).sum() for part in parts for one in part), zero)


def _precision(model: PoolMixture) -> Tensor:
    return (model.sigma**-2).expand(model.n_experts)


def _ridge(gram: Tensor, right: Tensor, ridge: float) -> Tensor:
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    solved: Tensor = torch.cholesky_solve(right[..., None], torch.linalg.cholesky(gram + ridge * eye))
    return solved[..., 0]


def _parts(count: int, cells: int) -> Iterator[slice]:
    step = max(CELLS // max(cells, 1), 1)
    return (slice(start, start + step) for start in range(0, count, step))
