"""Section 5 of the DTR paper: lemmas 1, 2 and 4, corollary 1 and theorem 4, as printed and corrected.

B_w1 = c^2 B2^2 Ba^2 is the contribution of the history alone, B_w2 = c^2 B0 B2^2 (Ba^2 + Ba) that through the node.
Printed, tau = sqrt((2B - 1) N / sqrt(B - 1)) grows with the branches; the proof gives sqrt((2B - 1) N / (B - 1)), and
what is needed is the root of the number of nodes. On a level every node is fixed, so lemma 2 needs none at all.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from shortlist.errors import ConfigError, DataError
from shortlist.index.tree import Tree
from shortlist.lab.theory.bounds import Bound, assembled, observed_term
from shortlist.lab.theory.bounds_inputs import (
    BoundInputs,
    BoundTerm,
    applicability,
    check_constants,
    most_nodes,
)
from shortlist.train.tree import label_weights

FORMS = ("printed", "derived", "exact")
COROLLARY = ("tight", "paper")
SIGN = "a factor 2 for every layer whose sigma is not odd, and the width where attention multiplies"


def node_factor(level_sizes: Sequence[int], branch: int, form: str = "exact") -> float:
    """tau: the root of the number of nodes, as printed, as derived in the proof, or counted."""
    n_items = level_sizes[-1]
    if form == "printed":
        return math.sqrt((2 * branch - 1) * n_items / math.sqrt(branch - 1))
    if form == "derived":
        return math.sqrt(most_nodes(n_items, branch))
    if form != "exact":
        raise ConfigError(f"bounds: form must be one of {', '.join(FORMS)}, got {form!r}")
    return math.sqrt(sum(level_sizes[1:]))


def lemma1(inputs: BoundInputs, constants: str = "corrected", force: bool = False) -> BoundTerm:
    """The complexity of scores where every instance has its own node: printed, its first summand lacks a root."""
    check_constants(constants)
    assumptions = applicability(inputs, force, "lemma 1")
    if constants == "paper":
        tau = node_factor(inputs.level_sizes, inputs.branch, "printed")
        inner = _inner(inputs, constants, first=1.0, node=tau)
    else:
        root = node_factor(inputs.level_sizes, inputs.branch)
        inner, assumptions = _inner(inputs, constants, first=root, node=root), (*assumptions, SIGN)
    value = 2 * inner / math.sqrt(inputs.n_train)
    formula = "2 c^(L-1) B1^L (B0 + K B_w1 + K B_w2 tau) / sqrt(m)"
    assumptions += inputs.norm_assumptions()
    return BoundTerm("lemma 1", value, formula, constants, value >= inputs.range, None, assumptions)


def lemma2(
    inputs: BoundInputs, level: int, empirical: float, constants: str = "corrected", force: bool = False
) -> Bound:
    """The loss of one level over all users, from that of the training instances."""
    check_constants(constants)
    if not 1 <= level <= inputs.height:
        raise ConfigError(f"bounds: level must lie between 1 and {inputs.height}, got {level}")
    assumptions = applicability(inputs, force, "lemma 2")
    paid = inputs.stratified() if constants == "corrected" else inputs
    most = 2 * paid.range + math.log(paid.level_sizes[level])
    terms = (
        observed_term("empirical", empirical, "mean softmax loss of the level", constants, most),
        _complexity(paid, paid.level_sizes[level], constants, assumptions, most),
        _tail(paid, 4 * most, constants, most),
    )
    return assembled(f"lemma 2, level {level}", terms, most, constants)


def dtr_bound(
    inputs: BoundInputs,
    empirical: float,
    divergences: Sequence[float] = (),
    label_error: float = 0.0,
    least_share: Sequence[float] | None = None,
    constants: str = "corrected",
    force: bool = False,
) -> Bound:
    """Theorem 4: the loss of all levels over all users.

    `divergences` are those of the sampler, level by level: KL(Q || P) as printed, KL(Q || P+) corrected. `label_error`
    is what lemma 4 measures between two estimators. `least_share` is the smallest probability of any negative of a
    level; without it sampling is uniform.
    """
    check_constants(constants)
    if divergences and len(divergences) != inputs.height:
        raise DataError(
            f"bounds: expected a divergence for each of {inputs.height} levels, got {len(divergences)}"
        )
    assumptions = applicability(inputs, force, "theorem 4")
    paid = inputs.stratified() if constants == "corrected" else inputs
    ranges = _ranges(paid, least_share if constants == "corrected" else None)
    most, nodes = sum(ranges), float(paid.n_nodes)
    spread = 4 * most
    if constants == "paper":
        tau = node_factor(paid.level_sizes, paid.branch, "printed")
        nodes, spread = tau**2, 8 * math.log(tau) + 8 * paid.height * paid.range
    terms = (
        observed_term("empirical", empirical, "mean loss of all levels, as sampled", constants, most),
        _estimation(paid, label_error, constants),
        observed_term(
            "divergence", math.fsum(divergences), "sum of divergences over levels", constants, most
        ),
        _complexity(paid, nodes, constants, assumptions, most),
        _tail(paid, spread, constants, most),
    )
    return assembled("theorem 4", terms, most, constants)


def _ranges(inputs: BoundInputs, least_share: Sequence[float] | None) -> list[float]:
    """The largest sampled loss of every level: 2 B_M + log(1 + 1 / min q), which is log N_j for uniform sampling."""
    if least_share is None:
        return [2 * inputs.range + math.log(size) for size in inputs.level_sizes[1:]]
    if len(least_share) != inputs.height or not all(0 < share <= 1 for share in least_share):
        raise DataError(
            f"bounds: expected a share above 0 for each of {inputs.height} levels, got {least_share}"
        )
    return [2 * inputs.range + math.log1p(1 / share) for share in least_share]


def _inner(inputs: BoundInputs, constants: str, first: float, node: float) -> float:
    """c^(L-1) B1^L (first B0 + K B_w1 + K B_w2 node)."""
    weights, unit = inputs.b1**inputs.layers, inputs.b2**2
    if constants == "corrected":
        weights = inputs.layer_sums * (1 if inputs.odd else 2 ** (inputs.layers - 1))
        unit = inputs.unit_sums * inputs.width
    alone = inputs.c_sigma**2 * unit * inputs.ba**2
    through = inputs.c_sigma**2 * unit * inputs.b0 * (inputs.ba**2 + inputs.ba)
    added = first * inputs.b0 + inputs.hist_len * (alone + through * node)
    return inputs.c_sigma ** (inputs.layers - 1) * weights * added


def _complexity(
    inputs: BoundInputs, nodes: float, constants: str, assumptions: tuple[str, ...], most: float
) -> BoundTerm:
    tau = node_factor(inputs.level_sizes, inputs.branch, "printed") if constants == "paper" else 1.0
    value = 8 * nodes * _inner(inputs, constants, 1.0, tau) / math.sqrt(inputs.n_train)
    assumptions = assumptions + (() if constants == "paper" else (SIGN,)) + inputs.norm_assumptions()
    formula = "8 nodes c^(L-1) B1^L (B0 + K B_w1 + K B_w2) / sqrt(m)"
    return BoundTerm("complexity", value, formula, constants, value >= most, None, assumptions)


def _tail(inputs: BoundInputs, spread: float, constants: str, most: float) -> BoundTerm:
    """As printed for all levels at once; corrected, every level must hold: delta / H."""
    delta = inputs.delta / (inputs.height if constants == "corrected" else 1)
    value = spread * math.sqrt(2 * math.log(4 / delta) / inputs.n_train)
    return BoundTerm("tail", value, "range sqrt(2 ln(4 / delta) / m)", constants, value >= most)


def _estimation(inputs: BoundInputs, label_error: float, constants: str) -> BoundTerm:
    return lemma4(label_error, inputs.range, inputs.n_items, constants)


def lemma4(label_error: float, range_: float, n_items: int, constants: str = "corrected") -> BoundTerm:
    """The effect of wrong labels on the loss: g (2 B_M + log N)."""
    if not 0 <= label_error < math.inf:
        raise ConfigError(f"bounds: the label error must be a number from 0, got {label_error}")
    most = 2 * range_ + math.log(n_items)
    value = label_error * most
    return BoundTerm("estimation", value, "g (2 B_M + log N)", constants, value >= most)


@torch.no_grad()
def label_gap(
    tree: Tree,
    histories: Tensor,
    labels: Tensor,
    estimators: tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]],
    rectify: str = "strict",
) -> BoundTerm:
    """g-hat of lemma 4: the difference of the rectified labels of two estimators, summed over levels.

    `estimators` return the scores of all items [U, N] for histories [U, K]. With the true scores as one of them it is
    exact.
    """
    levels = tuple(range(1, tree.shape.height + 1))
    first, second = (label_weights(scores(histories), labels, tree, levels, rectify) for scores in estimators)
    distance = (first.double() - second.double()).abs().sum(1)  # [U]
    error = float(distance.std()) / math.sqrt(len(distance))
    assumption = f"mean over {len(distance)} instances, standard error {error:.2g}"
    value = float(distance.mean())
    return BoundTerm(
        "label gap",
        value,
        "mean over instances of sum over levels |z - z*|",
        "measured",
        False,
        None,
        (assumption,),
    )


def corollary1(
    level: int, epsilon: float, size: int = 0, score_bound: float = 0.0, form: str = "tight"
) -> BoundTerm:
    """The distance of tree sampling from the model's softmax on a level, if node scores form a max-heap.

    `epsilon`: the best child of every node has at least 1 - epsilon of its siblings' softmax. Tight, the bound is
    (j - 1) log(1 / (1 - epsilon)); as printed it needs the nodes of the level and the largest score,
    log(1 + (j - 1) epsilon / (1 - epsilon) N_j e^(2 B_o)).
    """
    if level < 1 or not 0 <= epsilon < 1 or form not in COROLLARY:
        raise ConfigError(
            f"bounds: expected a level from 1, 0 <= epsilon < 1 and a form of {', '.join(COROLLARY)}, "
            f"got {level}, {epsilon} and {form!r}"
        )
    if form == "tight":
        value, formula = -(level - 1) * math.log1p(-epsilon), "(j - 1) log(1 / (1 - epsilon))"
    else:
        bias = (level - 1) * epsilon / (1 - epsilon) * size
        value = float(np.logaddexp(0.0, math.log(bias) + 2 * score_bound)) if bias else 0.0
        formula = "log(1 + B_eps N_j e^(2 B_o))"
    trivial = math.log(size) + 2 * score_bound if size else math.inf
    constants = "corrected" if form == "tight" else "paper"
    return BoundTerm("corollary 1", value, formula, constants, value >= trivial)
