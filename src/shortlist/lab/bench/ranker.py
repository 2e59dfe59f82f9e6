"""How much faster rankers, their lessons and their diagnosis are than the same answers computed plainly."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.errors import MissingExtraError, ShortlistError
from shortlist.evaluate.losses import Losses, StageTrace, decompose
from shortlist.lab.bench.ranker_plain import (
    plain_calibrated,
    plain_decompose,
    plain_din,
    plain_lists,
    plain_resampled,
    plain_weights,
)
from shortlist.lab.bench.tree import taking_turns
from shortlist.lab.result import claim, result, row, start
from shortlist.metrics.estimate import resampled
from shortlist.models.ranking.din_ranker import DINRanker, DINRankerConfig
from shortlist.progress import Progress, silent
from shortlist.stages import DINScorer
from shortlist.train.context import RequestBatch
from shortlist.train.rankers.boosted_ranker import QUIET, lightgbm, trees_of
from shortlist.train.rankers.calibrate import isotonic, platt
from shortlist.train.rankers.training_set import ListSampling, RankingLists, TrainingSet

SOURCE = "issue 5"
CLOSE = 1e-5  # answers may differ by so much, which is rounding
OFTEN = 50  # the most times a quick side is done in its turn
MOST = 300  # turns
STAGES = ("nominators", "prerank", "rank", "select")

Work = Callable[[int], Any]


@dataclass(frozen=True)
class Size:
    """How much of everything is computed."""

    items: int = 3706
    candidates: int = 60
    history: int = 69
    requests: int = 16  # together in a batch
    features: int = 20
    trees: int = 300
    rounds: int = 10
    found: int = 200  # candidates of a rehearsed request
    users: int = 2000
    draws: int = 1000
    pairs: int = 100_000


@dataclass(frozen=True, eq=False)
class Contest:
    """Two ways to one answer; the ratio is the time of `over` over that of `under`."""

    name: str
    means: str
    over: tuple[str, Work]
    under: tuple[str, Work]
    differ: float  # the largest difference of their answers
    least: float | None = None  # what the ratio is claimed to reach
    most: float | None = None  # or to stay below

    def measured(self, repeats: int, seconds: float) -> tuple[list[float], Mapping[str, list[float]]]:
        """The ratio in every turn, and the seconds of both sides; refuses to compare different answers.

        There are `repeats` turns or more, as many as fit into `seconds`: quick work is easily disturbed. Seconds are
        of the processor, because what runs beside us interrupts the longer side more often.
        """
        if not self.differ <= CLOSE:
            raise ShortlistError(
                f"bench ranker: {self.name}: {self.over[0]} and {self.under[0]} differ by {self.differ:.2g}, "
                "expected equal answers; their times say nothing until one is mended"
            )
        works = dict([self.over, self.under])
        tried = taking_turns(works, 3, clock=time.process_time)
        once = {name: max(statistics.median(took), 1e-6) for name, took in tried.items()}
        slowest = max(once.values())
        often = {name: min(OFTEN, max(1, round(slowest / took))) for name, took in once.items()}
        turn = sum(often[name] * took for name, took in once.items())
        times = taking_turns(works, max(repeats, min(MOST, int(seconds / turn))), often, time.process_time)
        pairs = zip(times[self.over[0]], times[self.under[0]], strict=True)
        return [over / max(under, 1e-9) for over, under in pairs], times

    def told(self, ratio: float) -> dict[str, Any]:
        """The claim about a measured ratio."""
        holds = (self.least is None or ratio >= self.least) and (self.most is None or ratio <= self.most)
        limit = f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"
        return claim(self.name, SOURCE, holds, ratio, f"{limit}; {self.means}")


def bench_ranker(
    seed: int = 0,
    size: Size | None = None,
    repeats: int = 20,
    seconds: float = 3.0,
    progress: Progress = silent,
) -> dict[str, Any]:
    """All on one thread, taking turns, after a look at whether both sides answer the same; medians over turns.

    `ratios` has every ratio with what it means; `skipped` says what could not be measured and why.
    """
    began, threads, size = start(), torch.get_num_threads(), size or Size()
    rows, claims, ratios, skipped = [], [], {}, {}
    torch.set_num_threads(1)
    try:
        for step, (name, part) in enumerate(PARTS.items()):
            progress(f"bench ranker: {name}", step, len(PARTS))
            try:
                contests = list(part(size, seed))
            except MissingExtraError as error:
                skipped[name] = str(error)
                continue
            for one in contests:
                turns, times = one.measured(repeats, seconds)
                ratio = statistics.median(turns)
                rows += [
                    row(one.name, f"ms, {side}", [1e3 * t for t in took]) for side, took in times.items()
                ]
                rows += [row(one.name, "ratio", turns), row(one.name, "largest difference", [one.differ])]
                claims.append(one.told(ratio))
                ratios[one.name] = {"ratio": ratio, "means": one.means}
    finally:
        torch.set_num_threads(threads)
    profile = f"{size.candidates} candidates, history {size.history}, {size.trees} trees, one thread"
    told = result("ranker", profile, [seed], began, rows, claims)
    every = {one["id"]: one["estimate"] for one in claims}
    return {**told, **every, "ratios": ratios, "skipped": skipped}


def _din(size: Size, seed: int) -> Iterator[Contest]:
    """The factorised form of DIN against [a; a * e; e] for every pair."""
    model = _ranker(size, seed)
    for many, name in ((1, "din_plain_over_ours"), (size.requests, "din_plain_over_ours_batch")):
        query, found = _asked(size, many, seed)
        ours: Work = _still(model.score_rows, query.history, found.items)
        plain: Work = _still(plain_din, model, query.history, found.items)
        asked = "one request" if many == 1 else f"{many} requests"
        yield Contest(
            name,
            f"a DIN that builds every pair of history and candidate takes so many times as long for {asked}",
            ("plain", plain),
            ("ours", ours),
            _apart(ours(0), plain(0)),
            least=1.0 if many == 1 else 2.0,
        )


def _trees(size: Size, seed: int) -> Iterator[Contest]:
    """Boosted trees as our tensors against the library that grew them."""
    library, random = lightgbm(), np.random.default_rng(seed)
    count = 100 * size.candidates
    given = random.normal(size=(count, size.features)).astype(np.float32)
    wanted = given[:, 0] * given[:, 1] + given[:, 2] + random.normal(size=count) > 1
    data = library.Dataset(given, wanted.astype(int), group=np.full(100, size.candidates), params=QUIET)
    booster = library.train(QUIET | {"objective": "lambdarank", "num_leaves": 31}, data, size.trees)
    trees = trees_of(booster.dump_model()["tree_info"])
    for many, name in ((1, "lightgbm_over_ours"), (size.requests, "lightgbm_over_ours_batch")):
        some = given[: many * size.candidates]
        ours = _still(trees, torch.from_numpy(some))
        theirs = _still(booster.predict, some, num_threads=1)
        asked = "one request" if many == 1 else f"{many} requests"
        yield Contest(
            name,
            f"LightGBM's own predict, on one thread, takes so many times as long for {asked}",
            ("lightgbm", theirs),
            ("ours", ours),
            _apart(ours(0), torch.from_numpy(theirs(0))),
            least=0.8,
        )


def _lists(size: Size, seed: int) -> Iterator[Contest]:
    """The lists a ranker learns from against a loop over lists and items."""
    lessons = TrainingSet(
        ListSampling(mode="mixed", n_negatives=size.candidates), _rounds(size, seed), size.items, seed
    )
    weights = [plain_weights(lessons, number) for number in range(len(lessons.training))]
    count = len(weights)

    def ours(turn: int) -> RankingLists | None:
        return lessons.lists(turn % count, turn // count % 1000)

    def plain(turn: int) -> RankingLists:
        return plain_lists(lessons, turn % count, turn // count % 1000, weights[turn % count])

    yield Contest(
        "lists_plain_over_ours",
        "a loop over lists and items takes so many times as long to lay out what a ranker learns from",
        ("plain", plain),
        ("ours", ours),
        max(lists_apart(ours(turn), plain(turn)) for turn in range(count)),
        least=3.0,
    )


def _bootstrap(size: Size, seed: int) -> Iterator[Contest]:
    """Sums over drawn users as products of matrices against one draw after the other."""
    per_user = np.random.default_rng(seed).integers(0, 5, (size.users, len(STAGES) + 1))
    ours = _still(resampled, per_user, seed, size.draws)
    plain = _still(plain_resampled, per_user, seed, size.draws)
    yield Contest(
        "bootstrap_plain_over_ours",
        "drawing users one draw after the other takes so many times as long for the same intervals",
        ("plain", plain),
        ("ours", ours),
        float(np.abs(ours(0) - plain(0)).max()),
        least=2.0,
    )


def _account(size: Size, seed: int) -> Iterator[Contest]:
    """What each stage lost of each user against a loop over pairs of request and wanted item."""
    random = np.random.default_rng(seed)
    alive = np.logical_and.accumulate(random.random((size.pairs, len(STAGES))) < 0.7, axis=1)
    trace = StageTrace(alive, STAGES, random.integers(0, size.users, size.pairs))
    ours, plain = _still(decompose, trace), _still(plain_decompose, trace)
    yield Contest(
        "decompose_plain_over_ours",
        "a loop over wanted items takes so many times as long to say what each stage lost",
        ("plain", plain),
        ("ours", ours),
        losses_apart(ours(0), plain(0)),
        least=8.0,
    )


def _calibrated(size: Size, seed: int) -> Iterator[Contest]:
    """What a probability costs beyond the bare score."""
    raw = DINScorer(_ranker(size, seed))
    query, found = _asked(size, 1, seed)
    random = np.random.default_rng(seed)
    bare = raw.score(query, found)
    scores = random.normal(float(bare.mean()), float(bare.std()), 100 * size.candidates)
    wanted = random.random(len(scores)) < 1 / (1 + np.exp(-(scores - scores.mean()) / scores.std()))
    for name, fit in (("platt", platt), ("isotonic", isotonic)):
        curve = fit(scores, wanted)
        stage = raw.renewed(calibration=curve)
        yield Contest(
            f"{name}_over_raw",
            f"a DIN whose scores are probabilities ({name}) takes so many times as long as the bare one",
            (name, _still(stage.score, query, found)),
            ("raw", _still(raw.score, query, found)),
            _apart(stage.score(query, found), plain_calibrated(curve, bare)),
            most=1.3,
        )


PARTS: Mapping[str, Callable[[Size, int], Iterator[Contest]]] = {
    "din": _din,
    "trees": _trees,
    "lists": _lists,
    "bootstrap": _bootstrap,
    "account": _account,
    "calibration": _calibrated,
}


def lists_apart(one: RankingLists | None, other: RankingLists) -> float:
    """The largest difference of two sets of lists; the order within a list says nothing, but for the wanted item."""
    if (
        one is None
        or one.found.shape != other.found.shape
        or set(one.found.columns) != set(other.found.columns)
    ):
        return float("inf")
    pairs = [(one.query.history, other.query.history), (one.weight, other.weight), (one.logit_shift, other.logit_shift)]
    mine, theirs = _ordered(one), _ordered(other)
    return max(_apart(a, b) for a, b in [*pairs, *((mine[name], theirs[name]) for name in mine)])


def losses_apart(one: Losses, other: Losses) -> float:
    """The largest difference of two accounts."""
    names = ("users", "wanted", "lost", "rescued")
    parts = [(torch.from_numpy(getattr(one, name)), torch.from_numpy(getattr(other, name))) for name in names]
    return max(_apart(a, b) for a, b in parts)


def _ordered(lists: RankingLists) -> dict[str, Tensor]:
    """Everything of each place, the wanted item first and the others by their rows."""
    found = lists.found
    order = found.items.index_fill(1, torch.tensor([0]), -2).sort(dim=1, stable=True).indices
    every = {"items": found.items, "scores": found.scores, **found.columns}
    return {name: one.gather(1, order) for name, one in every.items()}


def _apart(one: Tensor, other: Tensor) -> float:
    """The largest difference of two tensors, endless where shapes differ or only one has no number somewhere."""
    if one.shape != other.shape or not bool((one.isnan() == other.isnan()).all()):
        return float("inf")
    return float((one.double() - other.double()).nan_to_num(nan=0.0).abs().max()) if one.numel() else 0.0


def _still(work: Callable[..., Any], *given: Any, **named: Any) -> Work:
    """The same work every turn, without gradients."""
    return lambda _: torch.no_grad()(partial(work, *given, **named))()


def _ranker(size: Size, seed: int) -> DINRanker:
    torch.manual_seed(seed)
    return DINRanker(DINRankerConfig(size.items, max_history=size.history)).eval()


def _asked(size: Size, many: int, seed: int) -> tuple[Query, Candidates]:
    """Requests with full histories, and their candidates."""
    generator = torch.Generator().manual_seed(seed)
    history = torch.randint(size.items, (many, size.history), generator=generator)
    items = torch.stack(
        [torch.randperm(size.items, generator=generator)[: size.candidates] for _ in range(many)]
    )
    return Query.of(history.tolist()), Candidates.of(items, torch.zeros(items.shape))


def _rounds(size: Size, seed: int) -> list[RequestBatch]:
    """Rehearsed requests of which about half the wanted items were found."""
    generator, rounds = torch.Generator().manual_seed(seed), []
    positives_per_request = min(10, size.found)
    for _ in range(size.rounds):
        mixed = [torch.randperm(size.items, generator=generator) for _ in range(size.requests)]
        items = torch.stack(mixed)
        wanted = torch.cat(
            [
                items[:, : positives_per_request // 2],
                items[:, size.found : size.found + positives_per_request - positives_per_request // 2],
            ],
            dim=1,
        )
        shape = (size.requests, size.found)
        columns = {"n.rank": torch.rand(shape, generator=generator)}
        found = Candidates.of(items[:, : size.found], torch.rand(shape, generator=generator), columns)
        history = torch.randint(size.items, (size.requests, size.history), generator=generator)
        rounds.append(RequestBatch(Query.of(history.tolist()), found, wanted))
    return rounds
