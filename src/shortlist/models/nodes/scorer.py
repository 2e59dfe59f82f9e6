"""The interface of node scorers: a history and node rows in, one score per row out."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F  # noqa: N812

from shortlist.models.nodes.config import ScorerConfig

State = tuple[Tensor, ...]  # a NamedTuple of the scorer; the first axis of every tensor is the user
BIAS = 0.1  # initial biases
SLOPE = 0.25  # initial slopes of PReLU


class NodeScorer(nn.Module, ABC):
    """Scores of node rows for histories; in eval mode a score depends only on weights, history and row.

    U users, K history, C candidates, D width. Rows are rows of tables; -1 in a history is padding.
    """

    config: ScorerConfig
    nodes: nn.Embedding  # [n_rows, D]
    items: nn.Embedding | None  # [n_items, D] if the history has its own table
    lazy: bool = False  # sparse gradients for the tables

    def __init__(self, config: ScorerConfig) -> None:
        super().__init__()
        self.config = config
        self.nodes = nn.Embedding(config.n_rows, config.width)
        self.items = nn.Embedding(config.n_items, config.width) if config.history == "item" else None

    @abstractmethod
    def prepare(self, history: Tensor) -> State:
        """The part of the computation that depends on histories [U, K] alone."""

    @abstractmethod
    def score_vectors(self, state: State, w: Tensor) -> Tensor:
        """Scores [U, C] of node vectors w [U, C, D]."""

    @abstractmethod
    def naive(self, history: Tensor, rows: Tensor) -> Tensor:
        """The same scores [U, C], straight from the formula: slow, the oracle of the tests."""

    def score(self, state: State, rows: Tensor) -> Tensor:
        """Scores [U, C] of each user's own rows [U, C]."""
        return at_least_float32(self.score_vectors(state, self.lookup(rows)))

    def score_all(self, state: State, rows: Tensor) -> Tensor:
        """Scores [U, C] of rows [C] shared by all users."""
        w = self.lookup(rows).expand(len(state[0]), -1, -1)  # [U, C, D]
        return at_least_float32(self.score_vectors(state, w))

    def forward(self, history: Tensor, rows: Tensor) -> Tensor:
        return self.score(self.prepare(history), rows)

    def lookup(self, rows: Tensor) -> Tensor:
        """Vectors of node rows."""
        return F.embedding(rows, self.nodes.weight, sparse=self.lazy)

    def history_vectors(self, history: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors [U, K, D] of the last `max_history` rows, and which are not padding [U, K]."""
        rows = last(history, self.config.max_history)
        table = self.nodes if self.items is None else self.items
        return F.embedding(rows.clamp(min=0), table.weight, sparse=self.lazy), rows >= 0

    @torch.no_grad()
    def reset_parameters(self, generator: Generator) -> None:
        """Initial weights: N(0, 1/inputs) for layers, N(0, spread^2) for tables."""
        for module in self.modules():
            _reset(module, self.config.spread, generator)

    def settings(self) -> dict[str, Any]:
        """The plain values stored beside the weights."""
        return self.config.settings()


class PReLU(nn.Module):
    """max(x, 0) + slope * min(x, 0), one slope per layer."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.full((1,), SLOPE))

    def forward(self, x: Tensor) -> Tensor:
        return F.prelu(x, self.slope.to(x.dtype))


def zero_bias(module: nn.Module) -> None:
    """Replace biases by zero buffers, which are saved but not trained."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear) and layer.bias is not None:
            zeros = torch.zeros_like(layer.bias)
            del layer.bias
            layer.register_buffer("bias", zeros)


def last(history: Tensor, max_history: int) -> Tensor:
    """The last `max_history` rows, padded with -1 in front."""
    short = max_history - history.shape[-1]
    return F.pad(history, (short, 0), value=-1) if short > 0 else history[..., -max_history:]


def at_least_float32(scores: Tensor) -> Tensor:
    """Scores in float32, or in float64 if the weights are."""
    return scores if scores.dtype == torch.float64 else scores.float()


def _reset(module: nn.Module, spread: float, generator: Generator) -> None:
    if isinstance(module, nn.Embedding):
        module.weight.normal_(0, spread, generator=generator)
    elif isinstance(module, nn.Linear):
        module.weight.normal_(0, module.in_features**-0.5, generator=generator)
        if module.bias is not None:
            module.bias.fill_(BIAS if isinstance(module.bias, nn.Parameter) else 0.0)
    elif isinstance(module, PReLU):
        module.slope.fill_(SLOPE)
    elif isinstance(module, nn.LayerNorm | nn.BatchNorm1d):
        module.reset_parameters()
