"""Rademacher complexity bounds of tree retrieval, by the theorems of the two-stage paper.

At realistic sizes all of them are vacuous: they are weaker than "an error is at most 1". They are here to be compared
between configurations. The kinds (V nodes, m instances, T or its exact form the root of the number of pairs of nodes of
one level):

    paper_linear     4 B0 Bx T / sqrt(m)                               theorem 4.5
    paper_mlp        8 c^(L-1) B1^L (B0 + Bx) T / sqrt(m)              theorem 4.6
    paper_ta         4 c^(L-1) B1^L (Bw hist_len + B0) T / sqrt(m)     theorem 4.7
    pair_exact       the same for this scorer, with the actual number of pairs instead of T
    rigorous_linear  2 V B0 Bx / sqrt(m), of the full-level margin
    rigorous_model   2 V B_model / sqrt(m), of any scorer, with theorem 4.9
    trivial          2 B_f

With the constants "corrected" theorem 4.5 has a factor 2, 4.6 and 4.7 one of 4; products of row sums replace B1^L, with
a factor 2 for every layer whose sigma is not odd, and a factor of the width where attention multiplies.
"""

import math
from dataclasses import dataclass

from shortlist.errors import ConfigError
from shortlist.lab.theory.bounds_inputs import (
    BoundInputs,
    BoundTerm,
    applicability,
    check_constants,
    pair_factor,
    same_level_pairs,
)

KINDS = (
    "paper_linear",
    "paper_mlp",
    "paper_ta",
    "pair_exact",
    "rigorous_linear",
    "rigorous_model",
    "trivial",
)
OF_SCORER = {"linear": "paper_linear", "mlp": "paper_mlp", "attention": "paper_ta"}
PAPER_FACTOR = {"linear": 4, "mlp": 8, "attention": 4}
FACTOR = {"linear": 2, "mlp": 4, "attention": 4}
UNPROVEN = "the step from single functions to all of them is not proven"
UNPROVEN_ATTENTION = "the step for products of attention is corrected by a factor of the width"
LOSSES = ("ramp", "hinge", "logistic")


def retriever_bound(
    inputs: BoundInputs, kind: str, constants: str = "corrected", force: bool = False
) -> BoundTerm:
    """A bound on the Rademacher complexity of the margins of a tree, to be compared with that of another tree."""
    check_constants(constants)
    if kind not in KINDS:
        raise ConfigError(f"bounds: kind must be one of {', '.join(KINDS)}, got {kind!r}")
    if kind == "trivial":
        return _term(inputs, kind, 2 * inputs.range, "2 B_f", constants, ())
    scorers = {"rigorous_linear": "linear", **{name: scorer for scorer, name in OF_SCORER.items()}}
    if scorers.get(kind, inputs.scorer) != inputs.scorer:
        raise ConfigError(f"bounds: {kind} is for the scorer {scorers[kind]}, this one is {inputs.scorer}")
    assumptions = applicability(inputs, force, kind)
    if kind.startswith("rigorous"):
        value = 2 * inputs.n_nodes * model_factor(inputs, "corrected") / math.sqrt(inputs.n_train)
        formula = "2 V B0 Bx / sqrt(m)" if inputs.scorer == "linear" else "2 V B_model / sqrt(m)"
        return _term(inputs, kind, value, formula, constants, assumptions + _attentive(inputs))
    factor = (FACTOR if constants == "corrected" else PAPER_FACTOR)[inputs.scorer]
    if kind == "pair_exact" and inputs.scorer == "mlp":
        factor = FACTOR["mlp"]
    pairs, warning = _pairs(inputs, kind)
    value = factor * _unsigned(inputs, constants) * pairs / math.sqrt(inputs.n_train)
    formula = f"{factor} B_model {'T' if kind != 'pair_exact' else 'T_exact'} / sqrt(m)"
    return _term(inputs, kind, value, formula, constants, (UNPROVEN, *warning, *assumptions))


def model_complexity(inputs: BoundInputs, constants: str = "corrected", force: bool = False) -> BoundTerm:
    """Theorem 4.9: B_model / sqrt(m), the complexity of the scores of a single node."""
    check_constants(constants)
    assumptions = applicability(inputs, force, "theorem 4.9")
    value = model_factor(inputs, constants) / math.sqrt(inputs.n_train)
    assumptions += _attentive(inputs) if constants == "corrected" else ()
    return _term(inputs, "model_complexity", value, "B_model / sqrt(m)", constants, assumptions)


def model_factor(inputs: BoundInputs, constants: str) -> float:
    """B_model of theorem 4.9; corrected, the single factor 2 of the paper becomes one per sigma that is not odd."""
    doubled = 2 if constants == "paper" and inputs.scorer == "mlp" else 1
    return doubled * _unsigned(inputs, constants)


def _unsigned(inputs: BoundInputs, constants: str) -> float:
    """The common part of all theorems: the norms of the inputs times those of the layers."""
    if inputs.scorer == "linear":
        return inputs.b0 * inputs.bx
    weights = inputs.b1**inputs.layers
    if constants == "corrected":
        weights = inputs.layer_sums * (1 if inputs.odd else 2 ** (inputs.layers - 1))
    weights *= inputs.c_sigma ** (inputs.layers - 1)
    if inputs.scorer == "mlp":
        return weights * (inputs.b0 + inputs.bx)
    return weights * (attention_factor(inputs, constants) * inputs.hist_len + inputs.b0)


def attention_factor(inputs: BoundInputs, constants: str) -> float:
    """B_w: the largest norm of a weighted history vector."""
    unit = inputs.b2**2 if constants == "paper" else inputs.unit_sums * inputs.width
    ba, b0 = inputs.ba, inputs.b0
    return inputs.c_sigma**2 * unit * (ba**2 + ba**2 * b0 + b0 * ba)


def _pairs(inputs: BoundInputs, kind: str) -> tuple[float, tuple[str, ...]]:
    """The factor of the tree's shape, and a warning about it."""
    factor = pair_factor(inputs.n_items, inputs.branch)
    exact = same_level_pairs(inputs.level_sizes, with_self=inputs.scorer != "linear")
    if kind == "pair_exact":
        return math.sqrt(exact), ()
    if exact <= factor**2:
        return factor, ()
    return factor, (f"this tree has {exact:,} pairs of nodes of one level, more than T^2 = {factor**2:,.1f}",)


def _attentive(inputs: BoundInputs) -> tuple[str, ...]:
    return (UNPROVEN_ATTENTION,) if inputs.scorer == "attention" else ()


def _term(
    inputs: BoundInputs, name: str, value: float, formula: str, constants: str, assumptions: tuple[str, ...]
) -> BoundTerm:
    vacuous = value >= 2 * inputs.range
    return BoundTerm(
        name, value, formula, constants, vacuous, assumptions=assumptions + inputs.norm_assumptions()
    )


@dataclass(frozen=True)
class Bound:
    """A bound on an error or a loss, with each summand."""

    name: str
    terms: tuple[BoundTerm, ...]
    total: BoundTerm

    def __getitem__(self, name: str) -> BoundTerm:
        return next(term for term in (*self.terms, self.total) if term.name == name)


def assembled(name: str, terms: tuple[BoundTerm, ...], trivial: float, constants: str) -> Bound:
    """The sum of terms; vacuous if it is not below the largest possible loss."""
    value = math.fsum(term.value for term in terms)
    assumptions = tuple(dict.fromkeys(text for term in terms for text in term.assumptions))
    formula = " + ".join(term.name for term in terms)
    return Bound(
        name, terms, BoundTerm("total", value, formula, constants, value >= trivial, None, assumptions)
    )


def retrieval_bound(
    inputs: BoundInputs,
    empirical: float,
    kind: str = "rigorous_linear",
    loss: str = "ramp",
    constants: str = "corrected",
    force: bool = False,
) -> Bound:
    """Theorem 4.4: the share of relevant items that are not retrieved <= mean A(g) + complexity + tail.

    `empirical` is the mean loss on the training instances, of the full-level margin. The paper's factor 4 and tail
    belong to other definitions of complexity; corrected they are 2 c_A and 3 B_A sqrt(ln(2 / delta) / (2 m)).
    """
    check_constants(constants)
    paid = inputs.stratified() if constants == "corrected" else inputs
    steep, most = loss_constants(loss, paid)
    complexity = retriever_bound(paid, kind, constants, force)
    twice, tail = (2, corrected_tail(paid, most)) if constants == "corrected" else (4, paper_tail(paid, most))
    terms = (
        observed_term("empirical", empirical, f"mean {loss} loss of training instances", constants, most),
        BoundTerm(
            "complexity",
            twice * steep * complexity.value,
            f"{twice} c_A ({complexity.formula})",
            constants,
            twice * steep * complexity.value >= most,
            assumptions=complexity.assumptions,
        ),
        tail,
    )
    return assembled(f"theorem 4.4, {kind}", terms, 1.0, constants)


def loss_constants(loss: str, inputs: BoundInputs) -> tuple[float, float]:
    """(c_A, B_A): the Lipschitz constant of a loss of margins, and its maximum; only the ramp needs no score limit."""
    known = {
        "ramp": (1 / inputs.gamma, 1.0),
        "hinge": (1.0, 1 + 2 * inputs.range),
        "logistic": (
            1 / math.log(2),
            (2 * inputs.range + math.log1p(math.exp(-2 * inputs.range))) / math.log(2),
        ),
    }
    if loss not in known:
        raise ConfigError(f"bounds: loss must be one of {', '.join(LOSSES)}, got {loss!r}")
    return known[loss]


def observed_term(name: str, value: float, formula: str, constants: str, most: float) -> BoundTerm:
    """A measured mean as a summand of a bound."""
    if not 0 <= value < math.inf:
        raise ConfigError(f"bounds: a mean loss must be a number from 0, got {value}")
    return BoundTerm(name, value, formula, constants, value >= most)


def corrected_tail(inputs: BoundInputs, most: float) -> BoundTerm:
    """The concentration term beside the empirical complexity."""
    value = 3 * most * math.sqrt(math.log(2 / inputs.delta) / (2 * inputs.n_train))
    return BoundTerm("tail", value, "3 B_A sqrt(ln(2 / delta) / (2 m))", "corrected", value >= most)


def paper_tail(inputs: BoundInputs, most: float) -> BoundTerm:
    """As printed; it belongs to the expected complexity, not to the empirical one."""
    value = most * math.sqrt(2 * math.log(2 / inputs.delta) / inputs.n_train)
    return BoundTerm("tail", value, "B_A sqrt(2 ln(2 / delta) / m)", "paper", value >= most)


def break_even(inputs: BoundInputs, kind: str, constants: str = "corrected") -> BoundTerm:
    """The number of instances from which a complexity bound is below the trivial one."""
    term = retriever_bound(inputs, kind, constants, force=True)
    value = (term.value * math.sqrt(inputs.n_train) / (2 * inputs.range)) ** 2
    formula = "the m at which it equals 2 B_f"
    return BoundTerm(
        f"break_even {kind}", value, formula, constants, value >= inputs.n_train, None, term.assumptions
    )
