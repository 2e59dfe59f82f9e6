"""Mixtures of nominators of many seeds and learning rates side by side.

Every tensor has the axes S seeds, then features, items or rows, then L learning rates, N experts and E the width. The
loss of a cell is the one of `PoolMixture` and `Objective`, so that a GPU trains all cells of a system at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.lab.experiments.components.pools.data import SeedTables
from shortlist.lab.experiments.components.pools.methods import (
    BERNOULLI,
    EACH,
    ITEM,
    POOLS,
    UNIFORM,
    USER_ITEM,
    Method,
)
from shortlist.lab.experiments.components.pools.points import Point
from shortlist.models.mixture.gate import INITIAL_STD
from shortlist.models.mixture.two_tower_expert import ITEM_STD

Parameters = Mapping[
    str, Tensor
]  # weight [S, D, L, N, E], constant [S, 1, L, N, E], items [S, A, L, N, E], and
# of a gate: gate.items [S, A, L, N], gate.contexts [S, D, L, N]


@dataclass(frozen=True, eq=False)
class CellModel:
    """What is fixed of a system: the features of each expert, and the weights of a gate that is not learned."""

    gate: str
    logistic: bool  # predictions are probabilities
    mask: Tensor  # [S, D, 1, N, 1]
    weights: Tensor | None  # [S, A, 1 or L, N] of a fixed gate
    each: bool = False  # every expert is trained on every example

    @property
    def n_experts(self) -> int:
        return int(self.mask.shape[3])

    def users(self, parameters: Parameters, x: Tensor) -> Tensor:
        """Vectors of contexts [S, R, D] as [S, R, L, N, E]."""
        return _apply(parameters["weight"] * self.mask, x) + parameters["constant"]

    def log_gate(self, parameters: Parameters, x: Tensor) -> Tensor:
        """Log weights of a learned gate for rows x [S, A, M, D] of every item [S, A, M or 1, L, N]."""
        of_items = parameters["gate.items"][:, :, None]
        if self.gate == ITEM:
            return of_items.log_softmax(-1)
        of_rows = _apply(parameters["gate.contexts"], x.flatten(1, 2))  # [S, A M, L, N]
        return (of_rows.view(*x.shape[:3], *of_rows.shape[2:]) + of_items).log_softmax(-1)

    def predictions(self, parameters: Parameters, x: Tensor) -> Tensor:
        """Scores of rows x [S, A, M, D] of every item by every expert [S, A, M, L, N]."""
        users = self.users(parameters, x.flatten(1, 2))
        return (users.view(*x.shape[:3], *users.shape[2:]) * parameters["items"][:, :, None]).sum(-1)

    def item_weights(self, parameters: Parameters) -> Tensor | None:
        """Weights of a gate that does not depend on contexts [S, A, L, N]."""
        if self.weights is not None:
            return self.weights
        return parameters["gate.items"].softmax(-1) if self.gate == ITEM else None

    def every(self, parameters: Parameters, x: Tensor) -> tuple[Tensor, Tensor]:
        """Weights and predicted outcomes of all items for x [S, R, D], both [S, R, L, A, N]."""
        vectors = parameters["items"].expand(-1, -1, -1, self.n_experts, -1)
        scores = torch.einsum("srlne,salne->srlan", self.users(parameters, x), vectors)
        own = self.item_weights(parameters)
        if own is None:
            of_rows, of_items = _apply(parameters["gate.contexts"], x), parameters["gate.items"]
            gate = (of_rows[:, :, :, None] + of_items.transpose(1, 2)[:, None]).softmax(-1)
        else:
            gate = own.transpose(1, 2)[:, None].expand(-1, len(x[0]), scores.shape[2], -1, -1)
        return gate, scores.sigmoid() if self.logistic else scores

    def mixture(self, parameters: Parameters, x: Tensor) -> Tensor:
        """Mixture means of all items [S, R, L, A]."""
        own = self.item_weights(parameters)
        if own is None or self.logistic:
            gate, outcomes = self.every(parameters, x)
            return (gate * outcomes).sum(-1)
        # A gate of items alone scales the item vectors: one inner product over all experts.
        vectors = (parameters["items"] * own[..., None]).flatten(3).permute(0, 2, 3, 1)  # [S, L, N E, A]
        users = self.users(parameters, x).flatten(3).transpose(1, 2)  # [S, L, R, N E]
        return (users @ vectors).transpose(1, 2)


def _apply(weight: Tensor, x: Tensor) -> Tensor:
    """Rows x [S, R, D] times weights [S, D, ...] of all learning rates at once [S, R, ...]."""
    return (x @ weight.flatten(2)).view(*x.shape[:2], *weight.shape[2:])


def make_cells(
    method: Method, point: Point, tables: SeedTables, n_rates: int
) -> tuple[CellModel, dict[str, Tensor]]:
    """The model of a system at a point, with the initial values of `PoolMixture`, equal for all learning rates."""
    alone = method.single or method.full
    n_experts = 1 if alone else point.nominators
    width = point.width * (point.nominators if method.single else 1)
    mask = tables.masks(point, point.nominators, tables.width if method.full else point.subset)[
        ..., :n_experts
    ]
    if method.full:
        mask = torch.ones_like(mask)
    weights = None
    if alone or method.gate == UNIFORM:
        shape = (len(tables.seeds), tables.arms, 1, n_experts)
        weights = torch.full(shape, 1 / n_experts, device=tables.device)
    elif method.gate == POOLS:
        weights = tables.random_pools(n_experts)
    model = CellModel(
        POOLS if weights is not None else method.gate,
        method.objective == BERNOULLI,
        mask[:, :, None, :, None].float(),
        weights,
        method.objective == EACH,
    )
    return model, _initial(method, tables, model.mask, width, n_rates)


def _initial(method: Method, tables: SeedTables, mask: Tensor, width: int, n_rates: int) -> dict[str, Tensor]:
    n_experts = mask.shape[3]
    owners = 1 if method.shared_items else n_experts
    found: dict[str, list[Tensor]] = {}
    for at, seed in enumerate(tables.seeds):
        generator = torch.Generator().manual_seed(seed)
        read = mask[at, :, 0, :, 0].sum(0).cpu()[:, None] + 1  # [N, 1] with the constant
        drawn = {
            "weight": torch.randn(tables.width, n_experts, width, generator=generator) * read**-0.5,
            "constant": torch.randn(1, n_experts, width, generator=generator) * read**-0.5,
            "items": ITEM_STD * torch.randn(tables.arms, owners, width, generator=generator),
        }
        if method.gate in (ITEM, USER_ITEM):
            drawn["gate.items"] = INITIAL_STD * torch.randn(tables.arms, n_experts, generator=generator)
        if method.gate == USER_ITEM:
            drawn["gate.contexts"] = torch.zeros(tables.width, n_experts)
        for name, one in drawn.items():
            found.setdefault(name, []).append(one)
    stacked = {name: torch.stack(one)[:, :, None] for name, one in found.items()}
    return {
        name: one.expand(-1, -1, n_rates, *one.shape[3:]).to(tables.device).clone()
        for name, one in stacked.items()
    }
