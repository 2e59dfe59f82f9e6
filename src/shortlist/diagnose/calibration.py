"""Calibration of a scorer: confidence against accuracy, and the temperature that corrects it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shortlist.diagnose.scorer_inputs import CandidateRows, Rows, ScorerInputs
from shortlist.errors import DataError

BINS = 10
LOWEST, HIGHEST = 0.01, 100.0  # temperatures that are tried
DRAWS = 200  # simulated samples of a perfectly calibrated scorer
CLIP = 1e-9  # probabilities stay this far from 0 and 1, so that logarithms are finite

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Bin:
    """Requests, or candidates, of similar confidence."""

    confidence: float  # mean
    accuracy: float  # share that is relevant
    count: int


@dataclass(frozen=True)
class Reliability:
    """`ece`, the expected calibration error: mean distance of confidence and accuracy over bins, weighted by count."""

    ece: float
    noise: float  # an ECE that a perfectly calibrated scorer stays below in 95 % of such samples
    nll: (
        float | None
    )  # nats per relevant candidate (softmax) or per candidate (probabilities); None without any
    bins: tuple[Bin, ...]


@dataclass(frozen=True)
class Calibration:
    """Calibration on one half of the users; the temperature was fitted on the other half.

    A temperature divides scores, or log-odds: it changes the confidence and never the order.
    """

    users: int
    users_fitted: int
    probabilities: bool
    before: Reliability
    after: Reliability | None  # None without a temperature
    temperature: float | None  # None without relevant candidates to fit it on


def calibration(inputs: ScorerInputs, seed: int = 0) -> Calibration:
    """Calibration of a scorer's first choices, or of every candidate's score if it gives probabilities."""
    if not len(inputs.rows):
        raise DataError(f"calibration: expected candidates for {inputs.name!r}, got none for any request")
    if inputs.probabilities:
        _check_probabilities(inputs)
    fitting = _half(inputs.user, seed)[inputs.rows.request]
    fit, rest = inputs.rows.where(fitting), inputs.rows.where(~fitting)
    if not len(rest):  # a single user: no users left to fit a temperature on
        fit, rest = rest, fit
    temperature = fit_temperature(fit, inputs.probabilities)
    before = _reliability(rest, inputs.probabilities, 1.0, seed)
    after = None if temperature is None else _reliability(rest, inputs.probabilities, temperature, seed)
    users, users_fitted = (len(np.unique(inputs.user[part.request])) for part in (rest, fit))
    return Calibration(users, users_fitted, inputs.probabilities, before, after, temperature)


def fit_temperature(rows: CandidateRows, probabilities: bool) -> float | None:
    """The temperature with the least negative log-likelihood, by golden-section search: convex in 1 / temperature."""
    if not rows.relevant.any():
        return None
    low, high = np.log(LOWEST), np.log(HIGHEST)
    golden = (np.sqrt(5.0) - 1.0) / 2.0
    for _ in range(60):
        left, right = high - golden * (high - low), low + golden * (high - low)
        at_left, at_right = (_nll(rows, probabilities, float(np.exp(at))) for at in (left, right))
        if at_left is None or at_right is None or at_left <= at_right:
            high = right
        else:
            low = left
    return float(np.exp((low + high) / 2))


def log_softmax(scores: Floats, request: Rows, temperature: float = 1.0) -> Floats:
    """Log-softmax of score / temperature within each request [S]; the rows of a request are adjacent."""
    if not len(scores):
        return scores
    starts, own = _groups(request)
    scaled = scores / temperature
    shifted = scaled - np.maximum.reduceat(scaled, starts)[own]
    return shifted - np.log(np.add.reduceat(np.exp(shifted), starts))[own]


def reliability(
    confidence: Floats, correct: NDArray[np.bool_], seed: int = 0, nll: float | None = None
) -> Reliability:
    """Reliability over ten bins of equal mass; equal confidences share a bin, so there may be fewer."""
    at = _binned(confidence)
    rng = np.random.default_rng([seed, 2])
    perfect = [_ece(confidence, rng.random(len(confidence)) < confidence, at) for _ in range(DRAWS)]
    counts, sure, true = _sums(confidence, correct, at)
    bins = (Bin(float(s / n), float(t / n), int(n)) for n, s, t in zip(counts, sure, true, strict=True) if n)
    return Reliability(_ece(confidence, correct, at), float(np.quantile(perfect, 0.95)), nll, tuple(bins))


def _half(user: Rows, seed: int) -> NDArray[np.bool_]:
    """Which requests belong to the half of the users a temperature is fitted on [C]."""
    known = np.unique(user)
    chosen = np.random.default_rng([seed, 1]).permutation(known)[: len(known) // 2]
    return np.isin(user, chosen)


def _reliability(rows: CandidateRows, probabilities: bool, temperature: float, seed: int) -> Reliability:
    nll = _nll(rows, probabilities, temperature)
    if probabilities:
        return reliability(_tempered(rows.scores, temperature), rows.relevant, seed, nll)
    first, probability = _firsts(rows), np.exp(log_softmax(rows.scores, rows.request, temperature))
    return reliability(probability[first], rows.relevant[first], seed, nll)


def _firsts(rows: CandidateRows) -> Rows:
    """The row of the best candidate of each request; of ties the first."""
    order = np.lexsort((np.arange(len(rows)), -rows.scores, rows.request))
    starts, _ = _groups(rows.request)
    return order[starts]


def _groups(request: Rows) -> tuple[Rows, Rows]:
    """Where each request begins, and the number of every row's request."""
    _, starts, own = np.unique(request, return_index=True, return_inverse=True)
    return starts, own


def _nll(rows: CandidateRows, probabilities: bool, temperature: float) -> float | None:
    """Of relevant candidates under the softmax; of every candidate's relevance under probabilities."""
    if probabilities:
        probability = _tempered(rows.scores, temperature)
        likelihood = np.where(rows.relevant, probability, 1 - probability)
        return float(-np.log(np.clip(likelihood, CLIP, 1.0)).mean()) + 0.0
    if not rows.relevant.any():
        return None
    return float(-log_softmax(rows.scores, rows.request, temperature)[rows.relevant].mean()) + 0.0


def _tempered(scores: Floats, temperature: float) -> Floats:
    """Probabilities whose log-odds are divided by the temperature."""
    if temperature == 1.0:
        return scores
    clipped = np.clip(scores, CLIP, 1 - CLIP)
    odds: Floats = np.log(clipped / (1 - clipped)) / temperature
    return np.asarray(0.5 * (1 + np.tanh(odds / 2)), np.float64)  # exp of large log-odds would overflow


def _check_probabilities(inputs: ScorerInputs) -> None:
    low, high = inputs.rows.scores.min(), inputs.rows.scores.max()
    if low < 0 or high > 1:
        raise DataError(
            f"calibration: {inputs.name!r} declares probabilities, so scores from 0 to 1 were expected, "
            f"got {low:g} to {high:g}; train it again or remove `probabilities` from it"
        )


def _binned(confidence: Floats) -> Rows:
    """The bin of every value: equal mass, equal values together."""
    ordered = np.sort(confidence)
    edges = ordered[[len(ordered) * number // BINS for number in range(1, BINS)]]
    return np.searchsorted(np.unique(edges), confidence, side="right")


def _sums(confidence: Floats, correct: NDArray[np.bool_], at: Rows) -> tuple[Rows, Floats, Floats]:
    counts = np.bincount(at, minlength=BINS)
    sums = (np.bincount(at, values, BINS).astype(np.float64) for values in (confidence, correct))
    return counts, next(sums), next(sums)


def _ece(confidence: Floats, correct: NDArray[np.bool_], at: Rows) -> float:
    _, sure, true = _sums(confidence, correct, at)
    return float(abs(sure - true).sum() / max(len(confidence), 1))
