"""Distribution shift of a scorer: its candidates at serving against those it was trained on."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from shortlist.data import Catalog
from shortlist.diagnose.not_measured import NotMeasured
from shortlist.diagnose.scorer_inputs import CandidateRows, ScorerInputs
from shortlist.errors import ArtifactError
from shortlist.metrics.estimate import MIN_USERS
from shortlist.metrics.two_samples import (
    Floats,
    Ints,
    classifier_two_sample,
    jensen_shannon,
    kolmogorov_smirnov,
)

COLUMNS = ("items", "scores", "pool", "target", "request", "recall")
MOST = 20_000  # candidates of either side that the classifier sees
CATEGORIES = 10  # the most common categories are features of the classifier

# Rules for the level: the first that holds.
LARGE_AUC, LARGE_RECALL = 0.8, 0.2
NOTICEABLE_AUC, NOTICEABLE_RECALL, NOTICEABLE_KS = 0.65, 0.1, 0.2


@dataclass(frozen=True)
class PopularityBar:
    """One popularity bin of the candidates: their share in training and at serving."""

    events: str
    training: float
    serving: float


@dataclass(frozen=True)
class Shift:
    """Candidates in training against candidates at serving.

    A ranker trained on all targets, also those it never receives as candidates, is trained on a distribution that lies
    `tv` = 1 - recall (total variation) from the one it serves; the mean of |1 - weight| is twice that. The classifier's
    `tv_lower_bound` is about candidates: the least distance that explains how well it separates the two sides.
    """

    requests: int
    requests_training: int
    candidates: float  # per request, at serving
    recall_training: float | None  # share of all targets among the candidates
    recall_serving: float | None  # share of all relevant items among the candidates
    tv: float | None
    tv_doubled: float | None
    tv_training: float | None
    popularity_js: (
        float  # Jensen-Shannon divergence of popularity histograms in powers of two, in bits, 0 to 1
    )
    score_ks: float
    auc: float
    balanced_accuracy: float
    tv_lower_bound: float
    items_not_in_training: (
        int  # candidates at serving that are not in the stored sample of training candidates
    )
    relevant_candidates_not_in_training: float  # their share of all relevant items
    relevant_not_in_training: float  # the same of any relevant item, candidate or not
    level: str  # small, noticeable or large
    few: bool  # too few requests on a side for the level to mean much
    histogram: tuple[PopularityBar, ...]


def training_candidates(tensors: Mapping[str, Tensor]) -> dict[str, CandidateRows]:
    """A bundle's stored sample of the candidates its scorers were trained on, by scorer."""
    names = sorted({name.rpartition(".")[0] for name in tensors})
    return {name: _training_rows(name, tensors) for name in names}


def _training_rows(name: str, tensors: Mapping[str, Tensor]) -> CandidateRows:
    """The sample of one scorer from the tensors `NAME.items`, `NAME.scores` and so on."""
    lacking = [column for column in COLUMNS if f"{name}.{column}" not in tensors]
    if lacking:
        raise ArtifactError(f"training sample: that of {name!r} lacks {', '.join(lacking)}; train again")
    columns = {column: tensors[f"{name}.{column}"].numpy() for column in COLUMNS}
    retrieved, total = columns.pop("recall").tolist()
    if len({len(column) for column in columns.values()}) != 1:
        sizes = {column: len(values) for column, values in columns.items()}
        raise ArtifactError(
            f"training sample: expected columns of one length for {name!r}, got {sizes}; train again"
        )
    order = np.argsort(columns["request"], kind="stable")
    return CandidateRows(
        columns["items"][order].astype(np.int64),
        columns["scores"][order].astype(np.float64),
        columns["pool"][order].astype(np.float64),
        columns["target"][order].astype(np.bool_),
        columns["request"][order].astype(np.int64),
        int(retrieved),
        int(total),
    )


def shifts(
    serving: Mapping[str, ScorerInputs],
    training: Mapping[str, CandidateRows],
    popularity: Ints,
    catalog: Catalog,
    seed: int = 0,
) -> dict[str, Shift | NotMeasured]:
    """The shift of every scorer, or why it could not be measured."""
    return {
        name: _shift_or_why(inputs, training.get(name), popularity, catalog, seed)
        for name, inputs in serving.items()
    }


def _shift_or_why(
    inputs: ScorerInputs, training: CandidateRows | None, popularity: Ints, catalog: Catalog, seed: int
) -> Shift | NotMeasured:
    if training is None:
        return NotMeasured(
            "the bundle stores no sample of the candidates this scorer was trained on; train again"
        )
    if not len(training) or not len(inputs.rows):
        side = "in training" if not len(training) else "at serving"
        return NotMeasured(f"this scorer had no candidates {side}")
    return shift(inputs, training, popularity, catalog, seed)


def shift(
    inputs: ScorerInputs, training: CandidateRows, popularity: Ints, catalog: Catalog, seed: int = 0
) -> Shift:
    """Training candidates against candidates at serving; `popularity` [N] counts the training events of each item."""
    serving = inputs.rows
    auc, accuracy = _classified(training, serving, popularity, catalog, seed)
    score_ks = kolmogorov_smirnov(training.scores, serving.scores)
    never = np.setdiff1d(serving.items, training.items)
    total = max(len(inputs.relevant), 1)
    before, now = training.share_retrieved, serving.share_retrieved
    histograms = _histograms(popularity, training.items, serving.items)
    return Shift(
        requests=serving.requests,
        requests_training=training.requests,
        candidates=len(serving) / serving.requests,
        recall_training=before,
        recall_serving=now,
        tv=None if now is None else 1 - now,
        tv_doubled=None if now is None else 2 * (1 - now),
        tv_training=None if before is None else 1 - before,
        popularity_js=jensen_shannon(*histograms),
        score_ks=score_ks,
        auc=auc,
        balanced_accuracy=accuracy,
        tv_lower_bound=max(0.0, 2 * accuracy - 1),
        items_not_in_training=len(never),
        relevant_candidates_not_in_training=float(np.isin(inputs.relevant, never).sum() / total),
        relevant_not_in_training=float(np.isin(inputs.relevant, training.items, invert=True).sum() / total),
        level=level(auc, before, now, score_ks),
        few=min(serving.requests, training.requests) < MIN_USERS,
        histogram=tuple(_bars(*histograms)),
    )


def level(auc: float, before: float | None, now: float | None, score_ks: float) -> str:
    """Large or noticeable by the classifier's AUC or the difference of recalls, noticeable also by the scores."""
    apart = 0.0 if before is None or now is None else abs(before - now)
    if auc >= LARGE_AUC or apart >= LARGE_RECALL:
        return "large"
    if auc >= NOTICEABLE_AUC or apart >= NOTICEABLE_RECALL or score_ks >= NOTICEABLE_KS:
        return "noticeable"
    return "small"


def _histograms(popularity: Ints, *sides: Ints) -> tuple[Floats, Floats]:
    """How many candidates have 0, 1, 2 to 3, 4 to 7 ... events."""
    steps = np.floor(np.log2(np.maximum(popularity, 1))).astype(np.int64) + (popularity > 0)
    width = int(steps.max(initial=0)) + 1
    first, second = (np.bincount(steps[side], minlength=width).astype(np.float64) for side in sides)
    return first, second


def _bars(before: Floats, now: Floats) -> Iterator[PopularityBar]:
    """The histograms as shares, from the first to the last bar that is not empty on both sides."""
    filled = np.flatnonzero(before + now)
    for step in range(int(filled.min()), int(filled.max()) + 1):
        low, high = (2 ** (step - 1), 2**step - 1) if step else (0, 0)
        events = str(low) if low == high else f"{low:,}–{high:,}"
        yield PopularityBar(events, float(before[step] / before.sum()), float(now[step] / now.sum()))


def _classified(
    training: CandidateRows, serving: CandidateRows, popularity: Ints, catalog: Catalog, seed: int
) -> tuple[float, float]:
    """AUC and balanced accuracy of a classifier of serving against training, tested on held-out requests."""
    rng = np.random.default_rng([seed, 4])
    sides = [_subsampled(side, rng) for side in (training, serving)]
    items = np.concatenate([side.items for side in sides])
    numbers = [
        np.log1p(popularity[items].astype(np.float64)),
        np.concatenate([side.pool for side in sides]),
        np.concatenate([side.scores for side in sides]),
    ]
    scaled = [_scaled(column) for column in numbers]
    features = np.stack([*scaled, *(column**2 for column in scaled), *_categories(items, catalog)], axis=1)
    is_serving = np.repeat([False, True], [len(side) for side in sides])
    # Requests of both sides may have the same number; they are different groups.
    group = np.concatenate([sides[0].request * 2, sides[1].request * 2 + 1])
    return classifier_two_sample(features, is_serving, group, seed)


def _subsampled(rows: CandidateRows, rng: np.random.Generator) -> CandidateRows:
    """A random sample of whole requests with about as many candidates as the classifier may see."""
    known = np.unique(rows.request)
    count = max(1, min(len(known), MOST * len(known) // max(len(rows), 1)))
    return rows.where(np.isin(rows.request, rng.permutation(known)[:count]))


def _scaled(column: Floats) -> Floats:
    """Mean 0 and standard deviation 1, clipped at 5."""
    deviation = column.std()
    clipped: Floats = np.clip((column - column.mean()) / (deviation if deviation > 0 else 1.0), -5.0, 5.0)
    return clipped


def _categories(items: Ints, catalog: Catalog) -> list[Floats]:
    """Indicators of the most common categories, a column each."""
    lists = catalog.category_lists[items]  # [n, C]
    common = np.argsort(-np.bincount(lists[lists >= 0]), kind="stable")[:CATEGORIES]
    return [(lists == row).any(axis=1).astype(np.float64) for row in common] if len(common) > 1 else []
