"""Theorem 4.8 on rankers, as printed, which is always vacuous, and corrected.

As printed an item is included in the maximum it is compared with, so its margin is never positive, and the loss of
every retrieved instance is at least 1; with twice the shift the sum is at least 2 - R, for any ranker. Corrected, the
item is excluded from the maximum, the shift counts once, and the factor N becomes its root.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import ConfigError, DataError
from shortlist.lab.theory.bounds import (
    Bound,
    assembled,
    corrected_tail,
    loss_constants,
    model_complexity,
    observed_term,
    paper_tail,
)
from shortlist.lab.theory.bounds_inputs import BoundInputs, BoundTerm, check_constants

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def ranker_bound(
    inputs: BoundInputs,
    recall: float,
    empirical: float,
    constants: str = "corrected",
    harmonised: bool = False,
    crossfit: bool = True,
    loss: str = "ramp",
    force: bool = False,
) -> Bound:
    """Theorem 4.8: the error of a ranker on retrieved instances, from its training loss.

    `recall` is the share R of instances whose item is retrieved, single target. `harmonised`: trained on retrieved
    instances only, so there is no shift, but only R m instances. `crossfit`: the retriever was not trained on the
    instances.
    """
    check_constants(constants)
    if not 0 < recall <= 1:
        raise ConfigError(f"bounds: recall must lie above 0 and at most at 1, got {recall}")
    least = 1.0 if harmonised else recall
    if constants == "paper" and empirical < least - 1e-12:
        raise DataError(
            f"bounds: as printed the loss compares an item with itself and is at least {least:g}, got {empirical:g}; "
            "compute it with rank_margins(..., with_self=True)"
        )
    count = max(1, math.floor(recall * inputs.n_train)) if harmonised else inputs.n_train
    paid = _with_instances(inputs.stratified() if constants == "corrected" else inputs, count)
    steep, most = loss_constants(loss, paid)
    fit = model_complexity(paid, constants, force)
    factor, factor_text = _factor(paid, constants)
    value = factor * steep * fit.value
    independence = () if crossfit else ("the retriever was trained on the ranker's sample: not independent",)
    assumptions = fit.assumptions + independence
    terms = (
        shift_term(1.0 if harmonised else recall, constants),
        observed_term("empirical", empirical, f"mean {loss} loss of the ranker's margins", constants, most),
        BoundTerm(
            "complexity",
            value,
            f"{factor_text} B_model / sqrt(m)",
            constants,
            value >= most,
            None,
            assumptions,
        ),
        corrected_tail(paid, most) if constants == "corrected" else paper_tail(paid, most),
    )
    return assembled(f"theorem 4.8{', harmonised' if harmonised else ''}", terms, 1.0, constants)


def shift_term(recall: float, constants: str = "corrected") -> BoundTerm:
    """The total variation 1 - R between training and retrieved instances; printed, twice that."""
    times = 1 if constants == "corrected" else 2
    value = times * (1 - recall)
    return BoundTerm("shift", value, "1 - R" if times == 1 else "2 (1 - R)", constants, value >= 1)


def _factor(inputs: BoundInputs, constants: str) -> tuple[float, str]:
    if constants == "paper":
        return 4 * inputs.n_items * (inputs.k + 1), "4 c_Phi N (K + 1)"
    return 2 * math.sqrt(inputs.n_items) * (inputs.k + 1), "2 c_Phi sqrt(N) (K + 1)"


def _with_instances(inputs: BoundInputs, n_train: int) -> BoundInputs:
    return replace(inputs, n_train=n_train)


def rank_margins(own: Floats, others: Floats, with_self: bool = False) -> Floats:
    """An item's score [n] minus the best of the other candidates' [n, C], inf where there is none.

    `with_self`, as printed, the item is among those it is compared with: no margin is positive.
    """
    margins: Floats = own - others.max(axis=1, initial=-np.inf)
    return np.minimum(margins, 0.0) if with_self else margins


def ramp(margins: Floats, gamma: float = 1.0) -> Floats:
    """min(1, max(0, 1 - t / gamma))."""
    return np.clip(1 - margins / gamma, 0.0, 1.0)


def weight_shift(flags: Bools) -> float:
    """mean |1 - w| for w = flag / R, the exact density ratio of retrieved instances: equal to 2 (1 - R)."""
    recall = _recall(flags)
    return float(np.abs(1 - flags / recall).mean())


def harmonised_limit(recall: float, constants: str = "corrected") -> float:
    """Training on retrieved instances has the smaller bound while C0 / sqrt(m) is below this: sqrt(R) (1 + sqrt(R)).

    With the printed shift it is twice that. C0 is the factor of 1 / sqrt(m), which cannot be measured.
    """
    check_constants(constants)
    return (1 if constants == "corrected" else 2) * math.sqrt(recall) * (1 + math.sqrt(recall))


def _recall(flags: Bools) -> float:
    if not flags.any():
        raise DataError("bounds: no instance is retrieved, so there are no weights; widen the beam or K")
    return float(flags.mean())
