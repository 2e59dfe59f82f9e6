"""Whether a scorer is served other candidates than it learned from."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import Tensor

from shortlist.artifact.store import Artifact
from shortlist.data import Catalog
from shortlist.diagnose.scorer_inputs import Sample, Served
from shortlist.errors import ArtifactError
from shortlist.metrics.estimate import FEWEST
from shortlist.metrics.two_samples import Floats, Ints, jensen_shannon, kolmogorov_smirnov, classifier_two_sample

RECORD = "weights/rehearsal.safetensors"
COLUMNS = ("items", "scores", "pool", "wanted", "request", "recall")
MOST = 20_000  # candidates of either side that the classifier looks at
CATEGORIES = 10  # the most common ones that it is told apart

# Rules for the level: the first that holds.
LARGE_AUC, LARGE_RECALL = 0.8, 0.2
NOTICEABLE_AUC, NOTICEABLE_RECALL, NOTICEABLE_KS = 0.65, 0.1, 0.2


@dataclass(frozen=True)
class Shift:
    """Candidates in training beside candidates at serving.

    A ranker trained on all wanted items, also those it will never be served, learns from a distribution that lies
    `tv` = 1 - recall (total variation) from the one it serves; the mean of |1 - weight| is twice that. The classifier's
    `tv_lower_bound` is about candidates: how they differ at least, from how well someone tells either side apart.
    """

    requests: int
    requests_training: int
    candidates: float  # per request, at serving
    recall_training: float | None
    recall_serving: float | None
    tv: float | None
    tv_doubled: float | None
    tv_training: float | None
    popularity_js: float  # of histograms of popularity in powers of two, in bits, 0 to 1
    score_ks: float
    auc: float
    balanced_accuracy: float
    tv_lower_bound: float
    items_never_trained: int  # served, and not among the recorded sample of training candidates
    never_trained_wanted: float  # their share of all wanted items
    wanted_never_trained: float  # the same of any wanted item, served or not
    level: str  # small, noticeable or large
    few: bool  # too few requests on a side for the level to mean much
    histogram: tuple[dict[str, Any], ...]  # shares of candidates by the events of their items, both sides

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def rehearsals(record: Artifact | Mapping[str, Tensor]) -> dict[str, Sample]:
    """A sample of the candidates that the scorers of a bundle learned from, by name; none without a record."""
    if isinstance(record, Artifact):
        tensors = record.tensors(RECORD) if RECORD in record else {}
    else:
        tensors = dict(record)
    names = sorted({name.rpartition(".")[0] for name in tensors})
    return {name: rehearsal(name, tensors) for name in names}


def rehearsal(name: str, tensors: Mapping[str, Tensor]) -> Sample:
    """One scorer's record out of the tensors `NAME.items`, `NAME.scores` and so on."""
    lacking = [column for column in COLUMNS if f"{name}.{column}" not in tensors]
    if lacking:
        raise ArtifactError(f"{RECORD}: the record of {name!r} lacks {', '.join(lacking)}; train again")
    columns = {column: tensors[f"{name}.{column}"].numpy() for column in COLUMNS}
    found, sought = columns.pop("recall").tolist()
    if len({len(column) for column in columns.values()}) != 1:
        sizes = {column: len(values) for column, values in columns.items()}
        raise ArtifactError(
            f"{RECORD}: expected columns of one length for {name!r}, got {sizes}; train again"
        )
    order = np.argsort(columns["request"], kind="stable")
    return Sample(
        columns["items"][order].astype(np.int64),
        columns["scores"][order].astype(np.float64),
        columns["pool"][order].astype(np.float64),
        columns["wanted"][order].astype(np.bool_),
        columns["request"][order].astype(np.int64),
        int(found),
        int(sought),
    )


def shifts(
    given: Mapping[str, Served],
    learned: Mapping[str, Sample],
    popularity: Ints,
    catalog: Catalog,
    seed: int = 0,
) -> dict[str, dict[str, Any]]:
    """The shift of every scorer in plain values, or why there is none to tell."""
    return {name: _told(one, learned.get(name), popularity, catalog, seed) for name, one in given.items()}


def shift(one: Served, learned: Sample, popularity: Ints, catalog: Catalog, seed: int = 0) -> Shift:
    """Training candidates against served ones; `popularity` [N] are the events of each item in training."""
    now = one.sample
    area, accuracy = _classified(learned, now, popularity, catalog, seed)
    scores = kolmogorov_smirnov(learned.scores, now.scores)
    never = np.setdiff1d(now.items, learned.items)
    wanted = max(len(one.truth), 1)
    few = min(now.requests, learned.requests) < FEWEST
    sides = _histograms(popularity, learned.items, now.items)
    return Shift(
        requests=now.requests,
        requests_training=learned.requests,
        candidates=len(now) / now.requests,
        recall_training=learned.recall,
        recall_serving=now.recall,
        tv=None if now.recall is None else 1 - now.recall,
        tv_doubled=None if now.recall is None else 2 * (1 - now.recall),
        tv_training=None if learned.recall is None else 1 - learned.recall,
        popularity_js=jensen_shannon(*sides),
        score_ks=scores,
        auc=area,
        balanced_accuracy=accuracy,
        tv_lower_bound=max(0.0, 2 * accuracy - 1),
        items_never_trained=len(never),
        never_trained_wanted=float(np.isin(one.truth, never).sum() / wanted),
        wanted_never_trained=float(np.isin(one.truth, learned.items, invert=True).sum() / wanted),
        level=level(area, learned.recall, now.recall, scores),
        few=few,
        histogram=tuple(_bars(*sides)),
    )


def level(area: float, before: float | None, now: float | None, scores: float) -> str:
    """Large or noticeable by the classifier's AUC or the difference of recalls, noticeable also by the scores."""
    apart = 0.0 if before is None or now is None else abs(before - now)
    if area >= LARGE_AUC or apart >= LARGE_RECALL:
        return "large"
    if area >= NOTICEABLE_AUC or apart >= NOTICEABLE_RECALL or scores >= NOTICEABLE_KS:
        return "noticeable"
    return "small"


def _told(
    one: Served, learned: Sample | None, popularity: Ints, catalog: Catalog, seed: int
) -> dict[str, Any]:
    if learned is None:
        return {"why": "the bundle has no record of the candidates this scorer learned from; train it again"}
    if not len(learned) or not len(one.sample):
        side = "in training" if not len(learned) else "at serving"
        return {"why": f"this scorer was given no candidates {side}"}
    return shift(one, learned, popularity, catalog, seed).as_dict()


def _histograms(popularity: Ints, *sides: Ints) -> tuple[Floats, Floats]:
    """How often candidates have 0, 1, 2 to 3, 4 to 7 ... events."""
    steps = np.floor(np.log2(np.maximum(popularity, 1))).astype(np.int64) + (popularity > 0)
    width = int(steps.max(initial=0)) + 1
    first, second = (np.bincount(steps[side], minlength=width).astype(np.float64) for side in sides)
    return first, second


def _bars(before: Floats, now: Floats) -> Iterator[dict[str, Any]]:
    """The histograms as shares, from the first to the last bar that is not empty on both sides."""
    there = np.flatnonzero(before + now)
    for step in range(int(there.min()), int(there.max()) + 1):
        low, high = (2 ** (step - 1), 2**step - 1) if step else (0, 0)
        events = str(low) if low == high else f"{low:,}–{high:,}"
        shares = float(before[step] / before.sum()), float(now[step] / now.sum())
        yield {"events": events, "training": shares[0], "serving": shares[1]}


def _classified(
    learned: Sample, now: Sample, popularity: Ints, catalog: Catalog, seed: int
) -> tuple[float, float]:
    """AUC and balanced accuracy of telling a served candidate from one of training, whole requests held out."""
    rng = np.random.default_rng([seed, 4])
    sides = [_some(side, rng) for side in (learned, now)]
    items = np.concatenate([side.items for side in sides])
    numbers = [
        np.log1p(popularity[items].astype(np.float64)),
        np.concatenate([side.pool for side in sides]),
        np.concatenate([side.scores for side in sides]),
    ]
    scaled = [_scaled(column) for column in numbers]
    features = np.stack([*scaled, *(column**2 for column in scaled), *_themes(items, catalog)], axis=1)
    served = np.repeat([False, True], [len(side) for side in sides])
    # Requests of both sides may have the same number; they are different groups.
    group = np.concatenate([sides[0].request * 2, sides[1].request * 2 + 1])
    return classifier_two_sample(features, served, group, seed)


def _some(sample: Sample, rng: np.random.Generator) -> Sample:
    """Whole requests by chance, so many that there are about as many candidates as the classifier may see."""
    known = np.unique(sample.request)
    count = max(1, min(len(known), MOST * len(known) // max(len(sample), 1)))
    return sample.where(np.isin(sample.request, rng.permutation(known)[:count]))


def _scaled(column: Floats) -> Floats:
    """Mean 0 and spread 1, what lies far out drawn in."""
    spread = column.std()
    drawn_in: Floats = np.clip((column - column.mean()) / (spread if spread > 0 else 1.0), -5.0, 5.0)
    return drawn_in


def _themes(items: Ints, catalog: Catalog) -> list[Floats]:
    """1 where a candidate has one of the most common categories, a column each."""
    rows = catalog.category_rows[items]
    common = np.argsort(-np.bincount(rows), kind="stable")[:CATEGORIES]
    return [(rows == row).astype(np.float64) for row in common] if len(common) > 1 else []
