"""Norms of a scorer's weights, the score range they imply, and norm limits for training.

The norm of a matrix is its largest row sum of absolute values (the induced supremum norm). The largest column
sum, which the two-stage paper prints, does not bound scores and is reported for comparison only.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from shortlist.errors import ConfigError
from shortlist.models.nodes.attention import AttentionScorer
from shortlist.models.nodes.linear import LinearScorer
from shortlist.models.nodes.mlp import MLPScorer
from shortlist.models.nodes.scorer import NodeScorer, PReLU

LIPSCHITZ = {"relu": 1.0, "tanh": 1.0, "elu": 1.0, "silu": 1.0999, "gelu": 1.1290}  # rounded up
NO_CONSTANT = {"sigmoid": "it is not 0 at 0", "dice": "it depends on the rest of the batch"}


@dataclass(frozen=True)
class Matrix:
    """One matrix of a scorer with its two norms."""

    name: str
    row: float  # largest row sum of absolute values
    column: float  # largest column sum, not a bound here


@dataclass(frozen=True)
class Norms:
    """The quantities of a scorer that enter the bounds of two-stage recommendation."""

    kind: str  # linear, mlp or attention
    b0: float  # largest norm of a node vector
    bx: float | None  # largest norm of a history vector, None if the history is not one vector
    ba: float  # largest norm in the table that histories are read from
    layers: tuple[Matrix, ...]  # W_1 .. W_L, none for a linear scorer
    unit: tuple[Matrix, ...]  # the two matrices of the attention unit
    c_sigma: float  # largest Lipschitz constant of the activations
    reach: int  # history items summed in one input: the longest window, 1 for a mean
    max_history: int  # history items used
    bf: float  # upper bound of absolute scores, if `bounded`
    observed: float | None  # largest absolute score on the given batches, not a bound
    bounded: bool  # whether bf holds: no bias, no normalisation
    reasons: tuple[str, ...]  # why the theorems do not apply to this scorer

    @property
    def theory_applicable(self) -> bool:
        """Whether the theorems apply to this scorer."""
        return not self.reasons

    @property
    def depth(self) -> int:
        """L, the number of layer matrices; 1 for a linear scorer."""
        return max(len(self.layers), 1)

    @property
    def b1(self) -> float:
        """The largest norm of a layer, 1 without layers."""
        return max((matrix.row for matrix in self.layers), default=1.0)

    @property
    def b2(self) -> float:
        """The largest norm in the attention unit, 1 without one."""
        return max((matrix.row for matrix in self.unit), default=1.0)

    @property
    def product1(self) -> float:
        """The product of the layer norms, at most b1 ** depth."""
        return prod(matrix.row for matrix in self.layers)

    @property
    def product2(self) -> float:
        """The product of the two norms of the unit, at most b2 ** 2."""
        return prod(matrix.row for matrix in self.unit)


@dataclass(frozen=True)
class NormLimits:
    """Largest allowed norms of weights; None means no limit."""

    b0: float | None = None  # of node vectors
    b1: float | None = None  # of every layer
    b2: float | None = None  # of both matrices of the attention unit
    bx: float | None = None  # of history vectors, which have norm 1 by construction
    ba: float | None = None  # of the vectors that histories are read from

    def __post_init__(self) -> None:
        for field in fields(self):
            limit = getattr(self, field.name)
            if limit is not None and not 0 < limit < float("inf"):
                raise ConfigError(f"norm limits: {field.name} must be a positive number, got {limit!r}")
        if self.bx is not None and self.bx < 1:
            raise ConfigError(
                f"norm limits: history vectors have length 1, so bx must be at least 1, got {self.bx!r}; "
                "limit node vectors with b0 instead"
            )


def lipschitz_constant(activation: str, slope: float = 0.0) -> float:
    """The Lipschitz constant of an activation that is 0 at 0; `slope` is that of prelu below zero."""
    if activation == "prelu":
        return max(1.0, abs(slope))
    if activation in NO_CONSTANT:
        raise ConfigError(f"the bounds do not cover {activation}: {NO_CONSTANT[activation]}; use prelu")
    if activation not in LIPSCHITZ:
        known = ", ".join((*LIPSCHITZ, "prelu"))
        raise ConfigError(f"activation must be one of {known}, got {activation!r}")
    return LIPSCHITZ[activation]


def score_range(
    kind: str,
    b0: float,
    bx: float | None,
    ba: float,
    product1: float = 1.0,
    product2: float = 1.0,
    c_sigma: float = 1.0,
    depth: int = 1,
    reach: int = 1,
) -> float:
    """B_f, an upper bound of absolute scores if there is no bias and no normalisation.

    linear b0 bx; mlp c^(L-1) P1 max(bx, b0); attention c^(L-1) P1 max(b0, reach ba c^2 P2 max(ba, ba b0, b0)), with P1
    and P2 the products of the matrices' row norms: coordinates are at most norms.
    """
    if kind == "attention":
        weight = c_sigma**2 * product2 * max(ba, ba * b0, b0)
        return c_sigma ** (depth - 1) * product1 * max(b0, reach * ba * weight)
    if bx is None:
        raise ConfigError(f"the range of {kind} scores needs bx, the length of history vectors")
    return b0 * bx if kind == "linear" else c_sigma ** (depth - 1) * product1 * max(bx, b0)


@torch.no_grad()
def norm_report(
    scorer: NodeScorer, batches: Iterable[tuple[Tensor, Tensor]] = (), trained_history: bool = True
) -> Norms:
    """The current norms of a scorer, and the largest absolute score over pairs of history [U, K] and node rows [U, C].

    `trained_history`: the vectors that histories are read from were trained too, which the theorems exclude.
    """
    config, kind = scorer.config, _kind(scorer)
    layers, unit = tuple(_measured(_layers(scorer))), tuple(_measured(_unit(scorer)))
    b0, ba = _max_norm(scorer.nodes.weight), _max_norm(_past(scorer))
    bx = None if kind == "attention" else 1.0
    c_sigma = max(
        (lipschitz_constant("prelu", float(act.slope)) for act in _activations(scorer)), default=1.0
    )
    reach = max(config.windows) if config.pool == "sum" and kind == "attention" else 1
    products = prod(matrix.row for matrix in layers), prod(matrix.row for matrix in unit)
    bf = score_range(kind, b0, bx, ba, *products, c_sigma, max(len(layers), 1), reach)
    scores = list(_largest(scorer, batches))
    unbounded = tuple(_not_bounded(scorer))
    reasons = (*unbounded, *_not_theory(scorer, trained_history))
    observed = max(scores) if scores else None
    return Norms(
        kind,
        b0,
        bx,
        ba,
        layers,
        unit,
        c_sigma,
        reach,
        config.max_history,
        bf,
        observed,
        not unbounded,
        reasons,
    )


@torch.no_grad()
def project_(scorer: NodeScorer, limits: NormLimits) -> None:
    """Scale every vector and matrix row above its limit down to it, after an optimizer step.

    Rows within their limits keep their bits, so the projection is idempotent.
    """
    for weight, limit, order in _limited(scorer, limits):
        norms = _row_norms(weight, order)
        below = 1 - max(
            4 * torch.finfo(weight.dtype).eps, 1e-12
        )  # rounding never leaves a row above the limit
        scale = torch.where(norms > limit, below * limit / norms, 1.0)
        weight.copy_((weight.double() * scale[:, None]).to(weight.dtype))


def excess(scorer: NodeScorer, limits: NormLimits) -> Tensor:
    """The sum of norms above their limits: a penalty with the same limits as `project_`."""
    above = [
        F.relu(_row_norms(weight, order) - limit).sum() for weight, limit, order in _limited(scorer, limits)
    ]
    return torch.stack(above).sum() if above else scorer.nodes.weight.new_zeros((), dtype=torch.float64)


def _limited(scorer: NodeScorer, limits: NormLimits) -> Iterator[tuple[Tensor, float, int]]:
    """Weights with the limit of their rows and the order of its norm."""
    tables = [(scorer.nodes.weight, limits.b0), (_past(scorer), limits.ba)]
    yield from ((table, limit, 2) for table, limit in tables if limit is not None)
    matrices = [(_layers(scorer), limits.b1), (_unit(scorer), limits.b2)]
    for named, limit in matrices:
        yield from ((layer.weight, limit, 1) for _, layer in named if limit is not None)


def _kind(scorer: NodeScorer) -> str:
    kinds = {LinearScorer: "linear", MLPScorer: "mlp", AttentionScorer: "attention"}
    for kind, name in kinds.items():
        if isinstance(scorer, kind):
            return name
    raise ConfigError(f"norms are defined for linear, mlp and attention scorers, got {type(scorer).__name__}")


def _past(scorer: NodeScorer) -> Tensor:
    """The table that histories are read from."""
    return (scorer.nodes if scorer.items is None else scorer.items).weight


def _layers(scorer: NodeScorer) -> list[tuple[str, nn.Linear]]:
    if not isinstance(scorer, MLPScorer | AttentionScorer):
        return []
    hidden = [layer for layer in scorer.layers.linear if isinstance(layer, nn.Linear)]
    return [(f"layer {at}", layer) for at, layer in enumerate([*hidden, scorer.layers.out], start=1)]


def _unit(scorer: NodeScorer) -> list[tuple[str, nn.Linear]]:
    if not isinstance(scorer, AttentionScorer):
        return []
    return [("unit 1", scorer.unit1), ("unit 2", scorer.unit2)]


def _measured(named: list[tuple[str, nn.Linear]]) -> Iterator[Matrix]:
    for name, layer in named:
        sizes = layer.weight.double().abs()
        yield Matrix(name, float(sizes.sum(1).max()), float(sizes.sum(0).max()))


def _activations(scorer: NodeScorer) -> list[PReLU]:
    return [module for module in scorer.modules() if isinstance(module, PReLU)]


def _largest(scorer: NodeScorer, batches: Iterable[tuple[Tensor, Tensor]]) -> Iterator[float]:
    """The largest absolute score of each batch, in eval mode so that batch norm statistics do not change."""
    was = scorer.training
    scorer.eval()
    yield from (float(scorer(*batch).abs().max()) for batch in batches)
    scorer.train(was)


def _row_norms(weight: Tensor, order: int) -> Tensor:
    """Norms of rows [R] in float64."""
    norms: Tensor = torch.linalg.vector_norm(weight.double(), ord=order, dim=1)
    return norms


def _max_norm(table: Tensor) -> float:
    return float(_row_norms(table, 2).max())


def _not_bounded(scorer: NodeScorer) -> Iterator[str]:
    """Why scores may exceed the bound."""
    linear = [layer for _, layer in (*_layers(scorer), *_unit(scorer))]
    if any(layer.bias is not None and bool(layer.bias.any()) for layer in linear):
        yield "it has biases"
    if any(isinstance(module, nn.LayerNorm | nn.BatchNorm1d) for module in scorer.modules()):
        yield "it normalises its layers"


def _not_theory(scorer: NodeScorer, trained_history: bool) -> Iterator[str]:
    """Why else the theorems do not apply."""
    if scorer.config.dropout and _layers(scorer):
        yield "it was trained with dropout"
    if scorer.items is None:
        yield "histories are read from the node table, which is trained"
    elif trained_history:
        yield "histories are read from a trained table"
