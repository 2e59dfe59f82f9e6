"""Systems of the pool experiment: how nominators share out items, and what they are trained on."""

from dataclasses import asdict, dataclass
from typing import Any

LIKELIHOOD, ITEM_LIKELIHOOD, MEAN_SQUARES, BERNOULLI = (
    "likelihood",
    "item-likelihood",
    "mean-squares",
    "bernoulli",
)
GATE, ERROR, AT_RANDOM = "gate", "error", "random"
EACH = "each"  # the squared error of every expert on every example
POOLS, UNIFORM, ITEM, USER_ITEM = "pools", "uniform", "item", "user_item"


@dataclass(frozen=True)
class Method:
    """One system; `sigma` is in units of the standard deviation of rewards.

    Gates: `pools` hard random pools, each expert trained on its own; `uniform` the mean of all experts; `item` and
    `user_item` learned. `single`: one expert of the width of all together. `full`: one expert that reads all features,
    as a ranker would. `distilled`: hard pools after at most 80 % of the steps, the rest trains experts on them; pools
    by `gate` weight, by the lowest `error` of an expert on the examples of an item, or `random` ones.
    """

    name: str
    gate: str = POOLS
    objective: str = MEAN_SQUARES
    sigma: float = 1.0
    gate_rate: float = 1.0
    widening: float = 1.0  # of sigma at the start, falls to 1 in the first third of the steps
    balance: float = 0.0
    shared_items: bool = False
    single: bool = False
    full: bool = False
    distilled: str = ""

    def as_json(self) -> dict[str, Any]:
        """The settings in plain types, without the name."""
        return {name: value for name, value in asdict(self).items() if name != "name"}


RANDOM = Method("random pools")
MOE_USER_ITEM = Method("MoE user_item", USER_ITEM, LIKELIHOOD)
MOE_ITEM = Method("MoE item", ITEM, LIKELIHOOD)
DISTILLED = Method("distilled", ITEM, LIKELIHOOD, distilled=GATE)
SHARED = Method("MoE item, shared items", ITEM, LIKELIHOOD, shared_items=True)
SINGLE = Method("single wide expert", single=True)
ENSEMBLE = Method("mean of experts", UNIFORM)
FULL = Method("full features", full=True)
FULL_WIDE = Method("full features, wide", full=True, single=True)
SQUARES_ITEM = Method("MoE item, mean squares", ITEM)
SQUARES_USER_ITEM = Method("MoE user_item, mean squares", USER_ITEM)
DISTILLED_SQUARES = Method("distilled, mean squares", ITEM, distilled=GATE)
BY_ERROR = Method("pools by error", UNIFORM, EACH, distilled=ERROR)
ALL_FIRST = Method("random pools, all first", UNIFORM, EACH, distilled=AT_RANDOM)

CORE = (
    RANDOM,
    MOE_USER_ITEM,
    MOE_ITEM,
    DISTILLED,
    SHARED,
    SINGLE,
    ENSEMBLE,
    SQUARES_ITEM,
    SQUARES_USER_ITEM,
    DISTILLED_SQUARES,
    BY_ERROR,
    ALL_FIRST,
    FULL,
    FULL_WIDE,
)
MITIGATIONS = tuple(
    Method(f"MoE {gate}, {name}", gate, **changes)
    for gate in (USER_ITEM, ITEM)
    for name, changes in (
        ("sigma / 2", {"objective": LIKELIHOOD, "sigma": 0.5}),
        ("sigma * 1.6", {"objective": LIKELIHOOD, "sigma": 1.6}),
        ("sigma * 3.2", {"objective": LIKELIHOOD, "sigma": 3.2}),
        ("slow gate", {"objective": LIKELIHOOD, "gate_rate": 0.1}),
        ("annealed, balanced", {"objective": LIKELIHOOD, "widening": 2.0, "balance": 1e-2}),
        ("item responsibilities", {"objective": ITEM_LIKELIHOOD}),
        ("Bernoulli", {"objective": BERNOULLI}),
    )
)
