"""The index rows of the DTR paper's table 2: what approximate search costs in quality and saves in time.

All indexes of vectors search among the same ones, those of a SASRec model of the same split. JTR has an encoder and a
tree of its own; the deep tree scores nodes by attention to the history and has no encoder at all. So there are two
times, both of one request on one thread. That of the search alone is told as a multiple of exact search among SASRec's
vectors. That of a whole request, encoder and search, is told as a multiple of SASRec's encoder with exact search; of
the deep tree the search is all of it. Quality is that of the same single requests. What was seen is left out of every
answer.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor

from shortlist.errors import MissingExtraError
from shortlist.evaluate.scores import score_slates
from shortlist.index import VectorIndex, make_index
from shortlist.index.jtr import search as jtr_search
from shortlist.index.registry import index_type
from shortlist.index.tree import search as tree_search
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.models.trials import settings_of
from shortlist.lab.experiments.sweeps import experiment_name
from shortlist.lab.experiments.trees.trial import MAX_HISTORY, Trial, grounds_of
from shortlist.lab.result import at_least, claim, result, row, start
from shortlist.models.model import VectorModel
from shortlist.nominate import ModelNominator, TreeNominator
from shortlist.nominate.jtr import JTRNominator
from shortlist.progress import Progress, silent, tracked
from shortlist.train.jtr import JTRTrainer
from shortlist.train.tree.validation import full_histories

SOURCE = "DTR paper, table 2"
DEPTH, TREE = 20, "dtr-u"
PROBES = (1, 2, 4, 8, 16, 32, 64)
CODES = ", codes alone"  # nothing is weighed exactly
ANN: Mapping[str, tuple[str, Sequence[int]]] = {  # the knob of a kind and what it is turned to
    "flat": ("", (0,)),
    "hnsw": ("ef", (8, 16, 32, 64, 128, 256)),
    "ivf": ("nprobe", PROBES),
    "ivf-pq": ("nprobe", PROBES),
    "ivf-pq" + CODES: ("nprobe", PROBES),
    "residual": ("nprobe", PROBES),
    "residual" + CODES: ("nprobe", PROBES),
    "scann": ("nprobe", PROBES),
}
BEAMS = {"jtr": (1, 2, 4, 8, 16, 32), TREE: (5, 10, 20, 50, 150)}
EXACT, OWN = "exact", "jtr, exact search"
TIME, WHOLE = "time over exact search", "whole request over SASRec with exact search"
SHARE, OWN_SHARE = (f"share of what exact search {where}finds" for where in ("", "among its own vectors "))
NEAR = 0.95  # of what exact search finds: what an index must keep at its best

Search = Callable[[slice], Tensor]  # some of the test users -> their items [B, k]


@dataclass(frozen=True, eq=False)
class Stages:
    """What was learned on one split: the vectors to search among, and the two trees."""

    flat: ModelNominator
    jtr: JTRNominator
    tree: TreeNominator


def dtr_table2_indexes(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0,),
    progress: Progress = silent,
    cache_file: Path | None = None,
    where: str = "ml-1m",
    kinds: Sequence[str] = tuple(ANN),
) -> dict[str, Any]:
    """A split and its models per seed; kinds of indexes whose package is not here are named as missing."""
    began, cache = start(), AnswerCache.open(cache_file)
    missing = [kind for kind in kinds if not _is_here(kind)]
    kinds = [kind for kind in kinds if kind not in missing]
    name = experiment_name("dtr-table2-indexes", where)
    (ground,) = grounds_of([where], data, profile, name)
    rows: dict[tuple[str, str, float], list[float]] = {}
    for seed in seeds:
        trial = Trial(ground, seed, cache, progress)
        for key, value in _measured(trial, learned(trial), kinds, progress).items():
            rows.setdefault(key, []).append(value)
    listed = [_row(rows, *key) for key in rows]
    told_of = result(name, profile, seeds, began, listed, _claims(rows, kinds))
    told_of |= {"x": "time of a whole request, over SASRec with exact search", "path": True}
    return told_of | (
        {"note": f"Not installed, and so not measured: {', '.join(missing)}."} if missing else {}
    )


def _is_here(kind: str) -> bool:
    try:
        index_type(_kind(kind))
    except MissingExtraError:
        return False
    return True


def _kind(way: str) -> str:
    return way.removesuffix(CODES)


def learned(trial: Trial) -> Stages:
    """The models of a trial, trained now or kept from before."""
    quick, where = trial.ground.quick, f"{trial.ground.name}/%s/{trial.seed}"
    small = (
        {"width": 16, "heads": 1, "epochs": 2, "leaf": 20, "rounds": 1, "round_epochs": 1} if quick else {}
    )
    trainer = JTRTrainer(max_history=12 if quick else MAX_HISTORY, device=trial.device, **small)

    def jtr() -> dict[str, Tensor]:
        encoder, index = trainer.learn(trial.split.train, trial.split.valid, trial.seed, trial.progress)
        return JTRNominator(encoder.cpu(), index.to("cpu")).tensors()

    def tree() -> dict[str, Tensor]:
        return TreeNominator(trial.short_training(TREE)).tensors()

    def flat() -> dict[str, Tensor]:
        return ModelNominator(trial.sasrec.cpu()).tensors()

    blobs = {}
    asked = {
        "sasrec": settings_of(trial.sasrec_trainer()),
        "jtr": settings_of(trainer),
        TREE: asdict(trial.plan(TREE)),
    }
    for name, make in (("sasrec", flat), ("jtr", jtr), (TREE, tree)):
        blobs[name], _ = trial.cache.get(where % f"{name}, all of it", partial(_kept, make), asked[name])
    plain = {name: load(blob.numpy().tobytes()) for name, blob in blobs.items()}
    return Stages(
        ModelNominator.build({}, plain["sasrec"]),
        JTRNominator.build({}, plain["jtr"]),
        TreeNominator.build({}, plain[TREE]),
    )


def _kept(make: Callable[[], Mapping[str, Tensor]]) -> tuple[Tensor, dict[str, Any]]:
    """What is made, as one tensor of bytes."""
    whole = {name: one.detach().cpu().contiguous().clone() for name, one in make().items()}
    return torch.frombuffer(bytearray(save(whole)), dtype=torch.uint8), {}


@torch.no_grad()
def _measured(
    trial: Trial, stages: Stages, kinds: Sequence[str], progress: Progress
) -> dict[tuple[str, str, float], float]:
    """(way, metric, knob) -> value, of all ways to search."""
    threads, count = torch.get_num_threads(), len(trial.split.test)
    torch.set_num_threads(1)
    try:
        ways = _ways(trial, stages, kinds)
        found = {way: _answers(search, count) for way, search in ways.items()}
        times = _times(ways | _encoders(trial, stages), count, progress)
    finally:
        torch.set_num_threads(threads)
    told_of: dict[tuple[str, str, float], float] = {}
    for (way, knob), items in found.items():
        scores = score_slates(items, trial.truth, (DEPTH,))
        for metric in ("recall@20", "f1@20"):
            told_of[way, metric, knob] = float(scores[metric].nanmean())
        told_of[way, SHARE, knob] = _shared(items, found[EXACT, 0.0])
        if way == "jtr":
            told_of[way, OWN_SHARE, knob] = _shared(items, found[OWN, 0.0])
    return told_of | _ratios(times)


def _ratios(times: Mapping[tuple[str, float], float]) -> dict[tuple[str, str, float], float]:
    """Seconds of searches and encoders, as multiples of exact search and of a whole request that is answered by it."""
    exact, told_of = times[EXACT, 0.0], {}
    for (way, knob), seconds in times.items():
        told_of[way, TIME, knob] = seconds / exact
        if not way.startswith("encoder"):
            encoding = times.get((_encoder(way), 0.0), 0.0)
            told_of[way, WHOLE, knob] = (encoding + seconds) / (times[_encoder(EXACT), 0.0] + exact)
    return told_of


def _encoder(way: str) -> str:
    """What makes the vector of a user that a way searches with; the deep tree has none, and so no time."""
    return f"encoder of {way.partition(',')[0] if way in ('jtr', OWN, TREE) else 'sasrec'}"


def _encoders(trial: Trial, stages: Stages) -> dict[tuple[str, float], Search]:
    history = trial.split.test.query(width=MAX_HISTORY).history
    flat, jtr = _vectors_of(stages.flat), stages.jtr.model
    return {
        (_encoder(EXACT), 0.0): lambda some: flat.users(history[some]),
        (_encoder("jtr"), 0.0): lambda some: jtr.users(history[some]),
    }


def _vectors_of(nominator: ModelNominator) -> VectorModel:
    assert isinstance(nominator.model, VectorModel)
    return nominator.model


def _ways(trial: Trial, stages: Stages, kinds: Sequence[str]) -> dict[tuple[str, float], Search]:
    """Every way to search, by name and by what its knob is turned to."""
    query, seen = trial.split.test.query(width=MAX_HISTORY), full_histories(trial.split.test)
    model, own = _vectors_of(stages.flat), stages.jtr.model.users(query.history)
    users, vectors, leaves = model.users(query.history), model.vectors(), stages.jtr.model.vectors()

    def of(index: VectorIndex, asked: Tensor = users) -> Search:
        return lambda some: index.search(asked[some], DEPTH, seen[some])[0]

    def jtr(beam: int) -> Search:
        return lambda some: jtr_search(stages.jtr.index, leaves, own[some], DEPTH, beam, seen[some]).items

    def tree(beam: int) -> Search:
        return lambda some: tree_search(stages.tree.index, query.history[some], DEPTH, beam, seen[some]).items

    ways: dict[tuple[str, float], Search] = {(EXACT, 0.0): of(make_index("exact", vectors))}
    for kind in kinds:
        ways |= {(kind, knob): of(index) for knob, index in _turned(kind, vectors, trial.seed).items()}
    ways |= {("jtr", float(beam)): jtr(beam) for beam in BEAMS["jtr"]}
    ways |= {(OWN, 0.0): of(make_index("exact", leaves), own)}
    return ways | {(TREE, float(beam)): tree(beam) for beam in BEAMS[TREE]}


def _turned(way: str, vectors: Tensor, seed: int) -> dict[float, VectorIndex]:
    """An index, its knob turned to every value."""
    knob, values = ANN[way]
    index = make_index(_kind(way), vectors, seed, **({"refine": 0} if way.endswith(CODES) else {}))
    return {float(value): index.tuned(**({knob: value} if knob else {})) for value in values}


def _answers(search: Search, count: int) -> Tensor:
    """What every user finds, asked one by one as they are timed."""
    parts = [search(slice(at, at + 1)) for at in range(count)]
    return torch.cat([torch.nn.functional.pad(one, (0, DEPTH - one.shape[1]), value=-1) for one in parts])


def _times(
    ways: Mapping[tuple[str, float], Search], count: int, progress: Progress, asked: int = 150
) -> dict[tuple[str, float], float]:
    """The median seconds of one request, asked right after another one, so that nobody finds the caches cold.

    The ways take turns on every user, in another order each time: all see the same weather.
    """
    seconds: dict[tuple[str, float], list[float]] = {way: [] for way in ways}
    lot = np.random.default_rng(0)
    for at in tracked(range(min(asked, count)), "search", progress):
        for turn in lot.permutation(len(ways)):
            way = list(ways)[turn]
            ways[way](slice(at - 1 if at else count - 1, at or count))
            began = time.perf_counter()
            ways[way](slice(at, at + 1))
            seconds[way].append(time.perf_counter() - began)
    return {way: statistics.median(all_of_it[len(all_of_it) // 10 :]) for way, all_of_it in seconds.items()}


def _shared(items: Tensor, exact: Tensor) -> float:
    hits = (items[:, :, None] == exact[:, None, :]) & (exact >= 0)[:, None, :]
    return float(hits.any(1).sum() / (exact >= 0).sum())


def _row(
    rows: Mapping[tuple[str, str, float], list[float]], way: str, metric: str, knob: float
) -> dict[str, Any]:
    """A point of the way's curve over a whole request's time for recall@20; all else tells how the knob was turned."""
    if metric == "recall@20":
        told_of = row(way, metric, rows[way, metric, knob])
        return told_of | {"x": statistics.fmean(rows[way, WHOLE, knob]), "knob": knob}
    turned = f", {ANN[way][0] if way in ANN else 'beam'} {knob:g}" if knob else ""
    return row(way + turned, metric, rows[way, metric, knob])


def _claims(rows: Mapping[tuple[str, str, float], list[float]], kinds: Sequence[str]) -> list[dict[str, Any]]:
    """What each way finds at its widest, and at what time."""
    claims = [_keeps(rows, f"{kind} keeps what exact search finds", kind, SHARE) for kind in kinds]
    claims.append(
        _keeps(rows, "jtr's beam keeps what exact search among its own vectors finds", "jtr", OWN_SHARE)
    )
    exact = statistics.fmean(rows[EXACT, "recall@20", 0.0])
    for way in ("jtr", TREE):
        reached = statistics.fmean(rows[way, "recall@20", _widest(rows, way)]) / exact
        claims.append(at_least(f"{way}, recall@20 over SASRec with exact search", SOURCE, reached, NEAR))
    return claims


def _keeps(
    rows: Mapping[tuple[str, str, float], list[float]], name: str, way: str, share: str
) -> dict[str, Any]:
    widest = _widest(rows, way)
    cache, search, whole = (statistics.fmean(rows[way, one, widest]) for one in (share, TIME, WHOLE))
    note = (
        f"share at the widest look, at least {NEAR:g}; {search:.2f} times exact search's time for the search"
    )
    return claim(name, SOURCE, cache >= NEAR, cache, f"{note}, {whole:.2f} times for the whole request")


def _widest(rows: Mapping[tuple[str, str, float], list[float]], way: str) -> float:
    return max(knob for name, _, knob in rows if name == way)
