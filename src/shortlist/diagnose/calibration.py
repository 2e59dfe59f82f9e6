"""Whether a scorer is as sure as it may be: confidence against what came true, and the temperature that mends it."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shortlist.diagnose.scorer_inputs import Rows, Sample, Served
from shortlist.errors import DataError

BINS = 10
COLDEST, HOTTEST = 0.01, 100.0  # temperatures that are tried
DRAWS = 200  # worlds in which the confidence is right, to tell chance from error
SURE = 1e-9  # no chance is nearer to 0 or 1 than this, so that logarithms stay finite

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Bin:
    """Requests, or candidates, of like confidence."""

    confidence: float  # mean
    accuracy: float  # share that came true
    count: int


@dataclass(frozen=True)
class Reliability:
    """How confidence and truth go together; `ece` is the mean distance of both over the bins, weighted by count."""

    ece: float
    by_chance: float  # an ece that perfect confidence stays below in 95 % of such samples
    nll: (
        float | None
    )  # nats per wanted candidate (softmax) or per candidate (chances); None where nothing counts
    bins: tuple[Bin, ...]


@dataclass(frozen=True)
class Calibration:
    """Confidence on one half of the users; the temperature was fitted on the other half.

    A temperature divides scores, or log-odds: it makes a scorer more or less sure and never changes an order.
    """

    users: int
    users_fitted: int
    probabilities: bool
    before: Reliability
    after: Reliability | None  # None where there was nothing to fit a temperature on
    temperature: float | None

    def as_dict(self) -> dict[str, Any]:
        """Plain values; those of `before` stand on top."""
        told = {name: value for name, value in asdict(self).items() if name != "before"}
        return told | asdict(self.before)


def calibration(one: Served, seed: int = 0) -> Calibration:
    """How sure a scorer is of what it puts first among its candidates, or of each candidate where it gives chances."""
    if not len(one.sample):
        raise DataError(f"calibration: expected candidates for {one.name!r}, got none for any request")
    if one.probabilities:
        _check_chances(one)
    fitting = _half(one.user, seed)[one.sample.request]
    fit, judged = one.sample.where(fitting), one.sample.where(~fitting)
    if not len(judged):  # a single user: judged as it is, and nothing to fit on
        fit, judged = judged, fit
    temperature = fitted(fit, one.probabilities)
    before = _reliability(judged, one.probabilities, 1.0, seed)
    after = None if temperature is None else _reliability(judged, one.probabilities, temperature, seed)
    users, users_fitted = (len(np.unique(one.user[part.request])) for part in (judged, fit))
    return Calibration(users, users_fitted, one.probabilities, before, after, temperature)


def fitted(sample: Sample, probabilities: bool) -> float | None:
    """The temperature with the least negative log-likelihood, by golden sections: it is convex in 1 / temperature."""
    if not sample.wanted.any():
        return None
    low, high = np.log(COLDEST), np.log(HOTTEST)
    golden = (np.sqrt(5.0) - 1.0) / 2.0
    for _ in range(60):
        left, right = high - golden * (high - low), low + golden * (high - low)
        cold, hot = (_nll(sample, probabilities, float(np.exp(at))) for at in (left, right))
        if cold is None or hot is None or cold <= hot:
            high = right
        else:
            low = left
    return float(np.exp((low + high) / 2))


def log_softmax(scores: Floats, request: Rows, temperature: float = 1.0) -> Floats:
    """log of exp(score / t) over its sum within each request [S]; rows of a request stand together."""
    if not len(scores):
        return scores
    starts, own = _groups(request)
    scaled = scores / temperature
    shifted = scaled - np.maximum.reduceat(scaled, starts)[own]
    return shifted - np.log(np.add.reduceat(np.exp(shifted), starts))[own]


def reliability(
    confidence: Floats, correct: NDArray[np.bool_], seed: int = 0, nll: float | None = None
) -> Reliability:
    """Ten bins of equal mass; equal confidences share a bin, so there may be fewer."""
    at = _binned(confidence)
    rng = np.random.default_rng([seed, 2])
    lucky = [_ece(confidence, rng.random(len(confidence)) < confidence, at) for _ in range(DRAWS)]
    counts, sure, true = _sums(confidence, correct, at)
    bins = (Bin(float(s / n), float(t / n), int(n)) for n, s, t in zip(counts, sure, true, strict=True) if n)
    return Reliability(_ece(confidence, correct, at), float(np.quantile(lucky, 0.95)), nll, tuple(bins))


def _half(user: Rows, seed: int) -> NDArray[np.bool_]:
    """Which cases belong to the half of the users a temperature is fitted on [C]."""
    known = np.unique(user)
    chosen = np.random.default_rng([seed, 1]).permutation(known)[: len(known) // 2]
    return np.isin(user, chosen)


def _reliability(sample: Sample, probabilities: bool, temperature: float, seed: int) -> Reliability:
    nll = _nll(sample, probabilities, temperature)
    if probabilities:
        return reliability(_chances(sample.scores, temperature), sample.wanted, seed, nll)
    first, chance = _firsts(sample), np.exp(log_softmax(sample.scores, sample.request, temperature))
    return reliability(chance[first], sample.wanted[first], seed, nll)


def _firsts(sample: Sample) -> Rows:
    """The row of the best candidate of each request; of equals the first."""
    order = np.lexsort((np.arange(len(sample)), -sample.scores, sample.request))
    starts, _ = _groups(sample.request)
    return order[starts]


def _groups(request: Rows) -> tuple[Rows, Rows]:
    """Where each request begins, and the number of every row's request."""
    _, starts, own = np.unique(request, return_index=True, return_inverse=True)
    return starts, own


def _nll(sample: Sample, probabilities: bool, temperature: float) -> float | None:
    """Of wanted candidates under the softmax; of all candidates' yes or no under chances."""
    if probabilities:
        chance = _chances(sample.scores, temperature)
        right = np.where(sample.wanted, chance, 1 - chance)
        return float(-np.log(np.clip(right, SURE, 1.0)).mean()) + 0.0
    if not sample.wanted.any():
        return None
    return float(-log_softmax(sample.scores, sample.request, temperature)[sample.wanted].mean()) + 0.0


def _chances(scores: Floats, temperature: float) -> Floats:
    """Chances whose log-odds are divided by the temperature."""
    if temperature == 1.0:
        return scores
    sure = np.clip(scores, SURE, 1 - SURE)
    odds: Floats = np.log(sure / (1 - sure)) / temperature
    return np.asarray(0.5 * (1 + np.tanh(odds / 2)), np.float64)  # exp of large odds would overflow


def _check_chances(one: Served) -> None:
    low, high = one.sample.scores.min(), one.sample.scores.max()
    if low < 0 or high > 1:
        raise DataError(
            f"calibration: {one.name!r} says that it gives chances, so scores from 0 to 1 were expected, "
            f"got {low:g} to {high:g}; train it again or take `probabilities` from it"
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
