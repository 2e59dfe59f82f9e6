"""Inputs of a bound: sizes of a tree, norms of vectors and weights; and a bound's value with its assumptions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from shortlist.errors import ConfigError
from shortlist.index.tree import TreeIndex, TreeShape
from shortlist.models.nodes.weight_norms import Norms, norm_report

NOT_APPLICABLE = "not_applicable"
SCORERS = ("linear", "mlp", "attention")
CONSTANTS = ("corrected", "paper")
NORMS = ("measured", "fixed", "stratified")
FACTORS = {  # the norms that a bound of each scorer grows with
    "linear": ("b0", "bx"),
    "mlp": ("b0", "bx", "layer_product"),
    "attention": ("b0", "ba", "layer_product", "unit_product"),
}
SUMS = {"layer_product": "layer_sums", "unit_product": "unit_sums"}
ASSUMPTIONS = (  # of every bound; none of them holds exactly
    "one positive per instance, instances sampled independently: windows of one user overlap",
    "the tree was fixed before the sample was drawn",
    "user representations are not trained",
    "no ties, no excluded items, no new items",
)


@dataclass(frozen=True)
class BoundTerm:
    """One value of a bound with its meaning; `ratio_to_ref` is set by a comparison."""

    name: str
    value: float
    formula: str
    constants: str
    vacuous: bool  # not below what is known without data
    ratio_to_ref: float | None = None
    assumptions: tuple[str, ...] = ()
    applicable: bool = field(init=False)  # whether the theorem applies to this scorer

    def __post_init__(self) -> None:
        applicable = not any(text.startswith(NOT_APPLICABLE) for text in self.assumptions)
        object.__setattr__(self, "applicable", applicable)

    def against(self, reference: "BoundTerm") -> "BoundTerm":
        """The same term with its ratio to that of another configuration; 1 where both are 0."""
        if self.value == reference.value:
            return replace(self, ratio_to_ref=1.0)
        return replace(self, ratio_to_ref=self.value / reference.value if reference.value else math.inf)


@dataclass(frozen=True)
class BoundInputs:
    """Sizes and norms that bounds are computed from.

    `b0`, `bx` and `ba` are the largest norms of node, user and item vectors; `b1` and `b2` are the largest row sums of
    absolute values in a layer and in the attention unit, `layer_product` and `unit_product` the products of those sums,
    which are at most b1 ** layers and b2 ** 2. Rows, not columns: column sums bound nothing. `norms` records whether
    they were measured after training, or limited before it.
    """

    n_train: int
    level_sizes: tuple[int, ...]  # the root first
    branch: int
    scorer: str = "linear"
    n_users: int = 0  # 0 = unknown
    b0: float = 1.0
    bx: float = 1.0
    ba: float = 1.0
    b1: float = 1.0
    b2: float = 1.0
    layer_product: float | None = None  # None = unknown, b1 ** layers
    unit_product: float | None = None  # None = unknown, b2 ** 2
    layers: int = 1  # matrices of the layers, the last with one row
    width: int = 1
    hist_len: int = 69
    window: int = 20  # the longest window
    c_sigma: float = 1.0
    odd: bool = False  # whether sigma(-x) = -sigma(x), as for tanh
    k: int = 1
    observed: float | None = None  # the largest measured score, not a bound
    delta: float = 0.05
    gamma: float = 1.0
    norms: str = "measured"
    departures: tuple[str, ...] = ()  # properties of this scorer that the theorems exclude

    def __post_init__(self) -> None:
        for name, choices in (("scorer", SCORERS), ("norms", NORMS)):
            if getattr(self, name) not in choices:
                raise ConfigError(
                    f"bounds: {name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}"
                )
        if len(self.level_sizes) < 2 or self.level_sizes[0] != 1 or min(self.level_sizes) < 1:
            raise ConfigError(
                f"bounds: expected the number of nodes per level, 1 for the root first, got {self.level_sizes}"
            )
        if (
            self.n_train < 1
            or self.branch < 2
            or self.layers < 1
            or not 0 < self.delta < 1
            or self.gamma <= 0
        ):
            raise ConfigError(
                "bounds: expected n_train and layers from 1, branch from 2, 0 < delta < 1 and gamma > 0, got "
                f"{self.n_train}, {self.layers}, {self.branch}, {self.delta} and {self.gamma}"
            )
        for name in ("b0", "bx", "ba", "b1", "b2", "c_sigma"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"bounds: {name} must be a number from 0, got {getattr(self, name)}")

    @classmethod
    def of_index(
        cls, index: TreeIndex, n_train: int, norms: Norms | None = None, fixed: bool = False, **more: Any
    ) -> Self:
        """The inputs of a tree and its scorer, measured now; `norms` if they were measured with histories.

        `fixed`: the norms were limited during training. `more`: n_users, k, delta, gamma.
        """
        found = norm_report(index.scorer) if norms is None else norms
        shape, config = index.tree.shape, index.scorer.config
        return cls(
            n_train=n_train,
            level_sizes=shape.sizes,
            branch=shape.branch,
            scorer=found.kind,
            b0=found.b0,
            bx=1.0 if found.bx is None else found.bx,
            ba=found.ba,
            b1=found.b1,
            b2=found.b2,
            layer_product=found.product1,
            unit_product=found.product2,
            layers=found.depth,
            width=config.width,
            hist_len=found.max_history,
            window=found.reach,
            c_sigma=found.c_sigma,
            observed=found.observed,
            norms="fixed" if fixed else "measured",
            departures=found.reasons,
            **more,
        )

    @property
    def n_items(self) -> int:
        """N: leaves."""
        return self.level_sizes[-1]

    @property
    def n_nodes(self) -> int:
        """V: nodes without the root."""
        return sum(self.level_sizes[1:])

    @property
    def height(self) -> int:
        """H: the level of the leaves."""
        return len(self.level_sizes) - 1

    @property
    def layer_sums(self) -> float:
        """The product of the largest row sums of all layers."""
        return self.b1**self.layers if self.layer_product is None else self.layer_product

    @property
    def unit_sums(self) -> float:
        """The product of the largest row sums of both matrices of the attention unit."""
        return self.b2**2 if self.unit_product is None else self.unit_product

    @property
    def range(self) -> float:
        """B_f: the largest score of this class, for any weights within their limits."""
        if self.scorer == "linear":
            return self.b0 * self.bx
        inputs = max(self.b0, self.bx)
        if self.scorer == "attention":
            weight = self.c_sigma**2 * self.unit_sums * max(self.ba, self.ba * self.b0, self.b0)
            inputs = max(self.b0, self.window * self.ba * weight)
        return self.c_sigma ** (self.layers - 1) * self.layer_sums * inputs

    def at_users(self) -> Self:
        """The same with one instance per user: windows of one user are not independent."""
        if self.n_users < 1:
            raise ConfigError("bounds: the number of users is unknown; give n_users")
        return replace(self, n_train=self.n_users)

    def stratified(self) -> Self:
        """Measured norms rounded up to powers of two, with delta divided for the choice.

        The i-th power gets delta / (i (i + 1)), so all of them together get delta; several norms share it again.
        """
        if self.norms != "measured":
            return self
        measured = {name: getattr(self, SUMS.get(name, name)) for name in FACTORS[self.scorer]}
        grid = {name: doubling(norm) for name, norm in measured.items()}
        paid = math.prod(cell * (cell + 1) for cell, _ in grid.values())
        rounded: dict[str, Any] = {name: norm for name, (_, norm) in grid.items()}
        return replace(self, **rounded, delta=self.delta / paid, norms="stratified")

    def norm_assumptions(self) -> tuple[str, ...]:
        """The assumption about the norms."""
        texts = {
            "measured": "norms were measured after training: the class was chosen from the data",
            "fixed": "norms were limited before training",
            "stratified": "measured norms, rounded up to powers of two; a share of delta covers the choice",
        }
        return (texts[self.norms],)


def doubling(norm: float) -> tuple[int, float]:
    """The first power of two, from 1 on, that is not smaller, as (index, value)."""
    cell = 1 + max(0, math.ceil(math.log2(norm))) if norm > 0 else 1
    return cell, float(2 ** (cell - 1))


def pair_factor(n_items: int, branch: int) -> float:
    """T = B N / sqrt(B^2 - 1), the paper's bound of the root of the number of pairs."""
    return branch * n_items / math.sqrt(branch**2 - 1)


def same_level_pairs(level_sizes: Sequence[int], with_self: bool = False) -> int:
    """Ordered pairs of nodes of the same level without the root; `with_self` counts a node with itself too."""
    return sum(size * (size if with_self else size - 1) for size in level_sizes[1:])


def bottom_aligned(n_items: int, branch: int) -> tuple[int, ...]:
    """Nodes by level of the trees of this library: all families but the last are full."""
    return TreeShape(n_items, branch).sizes


def top_aligned(n_items: int, branch: int) -> tuple[int, ...]:
    """Nodes by level of the tree in the paper's figures: all levels but that of the leaves are full."""
    sizes = [1]
    while sizes[-1] * branch < n_items:
        sizes.append(sizes[-1] * branch)
    return (*sizes, n_items)


def most_nodes(n_items: int, branch: int) -> float:
    """(2B - 1) N / (B - 1): no tree has more nodes below its root, aligned either way."""
    return (2 * branch - 1) * n_items / (branch - 1)


def check_constants(constants: str) -> None:
    """Refuse an unknown set of constants."""
    if constants not in CONSTANTS:
        raise ConfigError(f"bounds: constants must be one of {', '.join(CONSTANTS)}, got {constants!r}")


def applicability(inputs: BoundInputs, force: bool, what: str) -> tuple[str, ...]:
    """The note on a theorem that does not apply to this scorer; refused unless forced."""
    if not inputs.departures:
        return ()
    reasons = ", ".join(inputs.departures)
    if not force:
        raise ConfigError(
            f"bounds: {what} does not hold for this scorer: {reasons}; train it in theory mode, or pass force=True "
            f"to get numbers marked {NOT_APPLICABLE}"
        )
    return (f"{NOT_APPLICABLE}: {reasons}",)
