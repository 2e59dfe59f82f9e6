"""Time of rankers, training sets and loss accounts over that of plain implementations with equal results."""

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.errors import MissingExtraError
from shortlist.evaluate.latency import one_thread
from shortlist.evaluate.losses import Losses, StageTrace, decompose
from shortlist.lab.bench.comparison import Comparison
from shortlist.lab.bench.ranker_plain import (
    plain_calibrated,
    plain_decompose,
    plain_din,
    plain_lists,
    plain_resampled,
    plain_weights,
)
from shortlist.lab.bench.timing import Job, estimates
from shortlist.lab.result import Result, result, row, start
from shortlist.metrics.estimate import resampled
from shortlist.models.ranking.din_ranker import DINRanker, DINRankerConfig
from shortlist.progress import Progress, silent
from shortlist.stages import DINScorer
from shortlist.train.context import RequestBatch
from shortlist.train.rankers.boosted_ranker import lightgbm, quiet, trees_of
from shortlist.train.rankers.calibrate import isotonic, platt
from shortlist.train.rankers.training_data.training_set import ListSampling, RankingLists, TrainingSet

STAGES = ("nominators", "prerank", "rank", "select")


@dataclass(frozen=True)
class Size:
    """Sizes of all inputs."""

    items: int = 3706
    candidates: int = 60
    history: int = 69
    requests: int = 16  # in a batch
    features: int = 20
    trees: int = 300
    batches: int = 10
    found: int = 200  # candidates of a request in a training set
    users: int = 2000
    draws: int = 1000
    pairs: int = 100_000


def bench_ranker(
    seed: int = 0,
    size: Size | None = None,
    repeats: int = 20,
    seconds: float = 3.0,
    progress: Progress = silent,
) -> Result:
    """All on one thread, alternating, after checking that both sides give equal results; medians over rounds.

    `ratios` has every ratio with its meaning; `skipped` says what could not be measured and why.
    """
    began, size = start(), size or Size()
    rows, claims, ratios, skipped = [], [], {}, {}
    with one_thread():
        for step, (name, part) in enumerate(PARTS.items()):
            progress(f"bench ranker: {name}", step, len(PARTS))
            try:
                comparisons = list(part(size, seed))
            except MissingExtraError as error:
                skipped[name] = str(error)
                continue
            for comparison in comparisons:
                own, times = comparison.measured(repeats, seconds)
                ratio, label = statistics.median(own), comparison.name
                rows += [row(label, f"ms, {side}", [1e3 * t for t in took]) for side, took in times.items()]
                rows += [row(label, "ratio", own), row(label, "largest difference", [comparison.differ])]
                claims.append(comparison.claim(ratio))
                ratios[label] = {"ratio": ratio, "means": comparison.meaning}
        profile = f"{size.candidates} candidates, history {size.history}, {size.trees} trees, one thread"
        return result(
            "ranker",
            profile,
            [seed],
            began,
            rows,
            claims,
            figures=estimates(claims),
            ratios=ratios,
            skipped=skipped,
        )


def _din(size: Size, seed: int) -> Iterator[Comparison]:
    """The factorised form of DIN against [a; a * e; e] built for every pair."""
    model = _ranker(size, seed)
    for count, name in ((1, "din_plain_over_ours"), (size.requests, "din_plain_over_ours_batch")):
        query, found = _requests(size, count, seed)
        ours: Job = _repeated(model.score_rows, query.history, found.items)
        plain: Job = _repeated(plain_din, model, query.history, found.items)
        requests = "one request" if count == 1 else f"{count} requests"
        yield Comparison(
            name,
            f"time of a DIN that builds every pair of history item and candidate over ours, for {requests}",
            ("plain", plain),
            ("ours", ours),
            _max_difference(ours(0), plain(0)),
            least=1.0 if count == 1 else 2.0,
        )


def _trees(size: Size, seed: int) -> Iterator[Comparison]:
    """Boosted trees as our tensors against the library that trained them."""
    library, random = lightgbm(), np.random.default_rng(seed)
    count = 100 * size.candidates
    features = random.normal(size=(count, size.features)).astype(np.float32)
    targets = features[:, 0] * features[:, 1] + features[:, 2] + random.normal(size=count) > 1
    data = library.Dataset(features, targets.astype(int), group=np.full(100, size.candidates), params=quiet())
    booster = library.train(quiet() | {"objective": "lambdarank", "num_leaves": 31}, data, size.trees)
    trees = trees_of(booster.dump_model()["tree_info"])
    for batch, name in ((1, "lightgbm_over_ours"), (size.requests, "lightgbm_over_ours_batch")):
        some = features[: batch * size.candidates]
        ours = _repeated(trees, torch.from_numpy(some))
        theirs = _repeated(booster.predict, some, num_threads=1)
        requests = "one request" if batch == 1 else f"{batch} requests"
        yield Comparison(
            name,
            f"time of LightGBM's predict on one thread over ours, for {requests}",
            ("lightgbm", theirs),
            ("ours", ours),
            _max_difference(ours(0), torch.from_numpy(theirs(0))),
            least=0.8,
        )


def _lists(size: Size, seed: int) -> Iterator[Comparison]:
    """The lists of a ranker's training set against a loop over lists and items."""
    training_set = TrainingSet(
        ListSampling(mode="mixed", n_negatives=size.candidates), _batches(size, seed), size.items, seed
    )
    weights = [plain_weights(training_set, number) for number in range(len(training_set.training))]
    count = len(weights)

    def ours(call: int) -> RankingLists | None:
        return training_set.lists(call % count, call // count % 1000)

    def plain(call: int) -> RankingLists:
        return plain_lists(training_set, call % count, call // count % 1000, weights[call % count])

    yield Comparison(
        "lists_plain_over_ours",
        "time of a loop over lists and items over ours, to build the lists of a ranker's training set",
        ("plain", plain),
        ("ours", ours),
        max(lists_difference(ours(call), plain(call)) for call in range(count)),
        least=3.0,
    )


def _bootstrap(size: Size, seed: int) -> Iterator[Comparison]:
    """Bootstrap sums over users as matrix products against one resample after the other."""
    per_user = np.random.default_rng(seed).integers(0, 5, (size.users, len(STAGES) + 1))
    ours = _repeated(resampled, per_user, seed, size.draws)
    plain = _repeated(plain_resampled, per_user, seed, size.draws)
    yield Comparison(
        "bootstrap_plain_over_ours",
        "time of resampling users one resample after the other over ours, for equal intervals",
        ("plain", plain),
        ("ours", ours),
        float(np.abs(ours(0) - plain(0)).max()),
        least=2.0,
    )


def _account(size: Size, seed: int) -> Iterator[Comparison]:
    """Losses per stage and user against a loop over pairs of request and relevant item."""
    random = np.random.default_rng(seed)
    alive = np.logical_and.accumulate(random.random((size.pairs, len(STAGES))) < 0.7, axis=1)
    trace = StageTrace(alive, STAGES, random.integers(0, size.users, size.pairs))
    ours, plain = _repeated(decompose, trace), _repeated(plain_decompose, trace)
    yield Comparison(
        "decompose_plain_over_ours",
        "time of a loop over relevant items over ours, to count what each stage lost",
        ("plain", plain),
        ("ours", ours),
        losses_difference(ours(0), plain(0)),
        least=8.0,
    )


def _calibrated(size: Size, seed: int) -> Iterator[Comparison]:
    """The cost of a probability beyond the raw score."""
    raw = DINScorer(_ranker(size, seed))
    query, found = _requests(size, 1, seed)
    random = np.random.default_rng(seed)
    logits = raw.score(query, found)
    scores = random.normal(float(logits.mean()), float(logits.std()), 100 * size.candidates)
    targets = random.random(len(scores)) < 1 / (1 + np.exp(-(scores - scores.mean()) / scores.std()))
    for name, fit in (("platt", platt), ("isotonic", isotonic)):
        curve = fit(scores, targets)
        stage = raw.renewed(calibration=curve)
        yield Comparison(
            f"{name}_over_raw",
            f"time of a DIN with calibrated probabilities ({name}) over one with raw scores",
            (name, _repeated(stage.score, query, found)),
            ("raw", _repeated(raw.score, query, found)),
            _max_difference(stage.score(query, found), plain_calibrated(curve, logits)),
            most=1.3,
        )


PARTS: Mapping[str, Callable[[Size, int], Iterator[Comparison]]] = {
    "din": _din,
    "trees": _trees,
    "lists": _lists,
    "bootstrap": _bootstrap,
    "account": _account,
    "calibration": _calibrated,
}


def lists_difference(lists: RankingLists | None, other: RankingLists) -> float:
    """The largest difference of two sets of lists; the order of negatives is irrelevant."""
    if (
        lists is None
        or lists.found.shape != other.found.shape
        or set(lists.found.columns) != set(other.found.columns)
    ):
        return float("inf")
    pairs = [
        (lists.query.history, other.query.history),
        (lists.weight, other.weight),
        (lists.logit_shift, other.logit_shift),
    ]
    mine, theirs = _ordered(lists), _ordered(other)
    return max(_max_difference(a, b) for a, b in [*pairs, *((mine[name], theirs[name]) for name in mine)])


def losses_difference(losses: Losses, other: Losses) -> float:
    """The largest difference of two loss accounts."""
    names = ("users", "relevant", "lost", "rescued")
    parts = [
        (torch.from_numpy(getattr(losses, name)), torch.from_numpy(getattr(other, name))) for name in names
    ]
    return max(_max_difference(a, b) for a, b in parts)


def _ordered(lists: RankingLists) -> dict[str, Tensor]:
    """All columns of the lists, the target first and the negatives by row."""
    found = lists.found
    order = found.items.index_fill(1, torch.tensor([0]), -2).sort(dim=1, stable=True).indices
    columns = {"items": found.items, "scores": found.scores, **found.columns}
    return {name: column.gather(1, order) for name, column in columns.items()}


def _max_difference(tensor: Tensor, other: Tensor) -> float:
    """The largest difference of two tensors, inf if shapes differ or NaN is not at the same places."""
    if tensor.shape != other.shape or not bool((tensor.isnan() == other.isnan()).all()):
        return float("inf")
    return (
        float((tensor.double() - other.double()).nan_to_num(nan=0.0).abs().max()) if tensor.numel() else 0.0
    )


def _repeated(job: Callable[..., Any], *arguments: Any, **named: Any) -> Job:
    """The same job in every call, without gradients."""
    return lambda _: torch.no_grad()(partial(job, *arguments, **named))()


def _ranker(size: Size, seed: int) -> DINRanker:
    torch.manual_seed(seed)
    return DINRanker(DINRankerConfig(size.items, max_history=size.history)).eval()


def _requests(size: Size, count: int, seed: int) -> tuple[Query, Candidates]:
    """Requests with full histories, and their candidates."""
    generator = torch.Generator().manual_seed(seed)
    history = torch.randint(size.items, (count, size.history), generator=generator)
    items = torch.stack(
        [torch.randperm(size.items, generator=generator)[: size.candidates] for _ in range(count)]
    )
    return Query.of(history.tolist()), Candidates.of(items, torch.zeros(items.shape))


def _batches(size: Size, seed: int) -> list[RequestBatch]:
    """Request batches in which about half of the targets are candidates."""
    generator, batches = torch.Generator().manual_seed(seed), []
    count = min(10, size.found)
    for _ in range(size.batches):
        mixed = [torch.randperm(size.items, generator=generator) for _ in range(size.requests)]
        items = torch.stack(mixed)
        inside, outside = items[:, : count // 2], items[:, size.found : size.found + count - count // 2]
        targets = torch.cat([inside, outside], dim=1)
        shape = (size.requests, size.found)
        columns = {"n.rank": torch.rand(shape, generator=generator)}
        found = Candidates.of(items[:, : size.found], torch.rand(shape, generator=generator), columns)
        history = torch.randint(size.items, (size.requests, size.history), generator=generator)
        batches.append(RequestBatch(Query.of(history.tolist()), found, targets))
    return batches
