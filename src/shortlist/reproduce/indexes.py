"""The index rows of the DTR paper's table 2: what approximate search costs in quality and saves in time.

All indexes of vectors search among the same ones, those of a SASRec model of the same split. JTR has an encoder and a
tree of its own, and the deep tree scores nodes by attention. Times are of the search alone, for one request on one
thread, as a multiple of exact search among the same vectors in the same run; of the deep tree it is all it does, as it
has no encoder. What was seen is left out of every answer.
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
from shortlist.evaluate import score_slates
from shortlist.index import VectorIndex, make_index
from shortlist.index.jtr import search as jtr_search
from shortlist.index.kinds import index_type
from shortlist.index.tree import search as tree_search
from shortlist.nominate import ModelNominator, TreeNominator
from shortlist.nominate.jtr import JTRNominator
from shortlist.progress import Progress, silent, told
from shortlist.report.result import claim, result, row, start
from shortlist.represent.model import VectorModel
from shortlist.reproduce.kept import Kept
from shortlist.reproduce.sweeps import titled
from shortlist.reproduce.trees import MEMORY, Trial, grounds_of
from shortlist.reproduce.yardsticks import settings_of
from shortlist.train.jtr import JTRTrainer
from shortlist.train.tree.judge import everything_seen

SOURCE = "DTR paper, table 2"
DEEP, TREE = 20, "dtr-u"
BATCH = 100
PROBES = (1, 2, 4, 8, 16, 32, 64)
ANN: Mapping[str, tuple[str, Sequence[int]]] = {  # the knob of a kind and what it is turned to
    "hnsw": ("ef", (8, 16, 32, 64, 128, 256)),
    "ivf": ("nprobe", PROBES),
    "ivf-pq": ("nprobe", PROBES),
    "residual": ("nprobe", PROBES),
    "scann": ("nprobe", PROBES),
}
BEAMS = {"jtr": (1, 2, 4, 8, 16, 32), TREE: (5, 10, 20, 50, 150)}
TIME = "time over exact search"
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
    keep: Path | None = None,
    where: str = "ml-1m",
    kinds: Sequence[str] = tuple(ANN),
) -> dict[str, Any]:
    """A split and its models per seed; kinds of indexes whose package is not here are named as missing."""
    began, kept = start(), Kept.at(keep)
    missing = [kind for kind in kinds if not _is_here(kind)]
    kinds = [kind for kind in kinds if kind not in missing]
    name = titled("dtr-table2-indexes", where)
    (ground,) = grounds_of([where], data, profile, name)
    rows: dict[tuple[str, str, float], list[float]] = {}
    for seed in seeds:
        trial = Trial(ground, seed, kept, progress)
        for key, value in _measured(trial, learned(trial), kinds, progress).items():
            rows.setdefault(key, []).append(value)
    listed = [_row(rows, *key) for key in rows]
    told_of = result(name, profile, seeds, began, listed, _claims(rows, kinds))
    told_of |= {"x": "time of a search, over exact search", "path": True}
    return told_of | (
        {"note": f"Not installed, and so not measured: {', '.join(missing)}."} if missing else {}
    )


def _is_here(kind: str) -> bool:
    try:
        index_type(kind)
    except MissingExtraError:
        return False
    return True


def learned(trial: Trial) -> Stages:
    """The models of a trial, trained now or kept from before."""
    quick, where = trial.ground.quick, f"{trial.ground.name}/%s/{trial.seed}"
    small = (
        {"width": 16, "heads": 1, "epochs": 2, "leaf": 20, "rounds": 1, "round_epochs": 1} if quick else {}
    )
    trainer = JTRTrainer(memory=12 if quick else MEMORY, device=trial.device, **small)

    def jtr() -> dict[str, Tensor]:
        encoder, index = trainer.learn(trial.split.train, trial.split.valid, trial.seed, trial.progress)
        return JTRNominator(encoder.cpu(), index.to("cpu")).tensors()

    def tree() -> dict[str, Tensor]:
        return TreeNominator(trial.taught(TREE)).tensors()

    def flat() -> dict[str, Tensor]:
        return ModelNominator(trial.sasrec.cpu()).tensors()

    blobs = {}
    asked = {"sasrec": None, "jtr": settings_of(trainer), TREE: asdict(trial.plan(TREE))}
    for name, make in (("sasrec", flat), ("jtr", jtr), (TREE, tree)):
        blobs[name], _ = trial.kept.get(where % f"{name}, all of it", partial(_kept, make), asked[name])
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
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        ways = _ways(trial, stages, kinds)
        found = {way: _answers(search, len(trial.split.test)) for way, search in ways.items()}
        times = _times(ways, len(trial.split.test), progress)
    finally:
        torch.set_num_threads(threads)
    told_of: dict[tuple[str, str, float], float] = {}
    exact = found["exact", 0.0]
    for (way, knob), items in found.items():
        scores = score_slates(items, trial.truth, (DEEP,))
        for metric in ("recall@20", "f1@20"):
            told_of[way, metric, knob] = float(scores[metric].nanmean())
        told_of[way, "share of what exact search finds", knob] = _shared(items, exact)
        told_of[way, TIME, knob] = times[way, knob] / times["exact", 0.0]
    return told_of


def _ways(trial: Trial, stages: Stages, kinds: Sequence[str]) -> dict[tuple[str, float], Search]:
    """Every way to search, by name and by what its knob is turned to."""
    query, seen = trial.split.test.query(width=MEMORY), everything_seen(trial.split.test)
    model = stages.flat.model
    assert isinstance(model, VectorModel)
    users, own = model.users(query.history), stages.jtr.model.users(query.history)
    vectors = model.vectors()

    def of(index: VectorIndex) -> Search:
        return lambda some: index.search(users[some], DEEP, seen[some])[0]

    def jtr(beam: int) -> Search:
        items = stages.jtr.model.vectors()
        return lambda some: jtr_search(stages.jtr.index, items, own[some], DEEP, beam, seen[some]).items

    def tree(beam: int) -> Search:
        return lambda some: tree_search(stages.tree.index, query.history[some], DEEP, beam, seen[some]).items

    ways: dict[tuple[str, float], Search] = {("exact", 0.0): of(make_index("exact", vectors))}
    for kind in kinds:
        knob, values = ANN[kind]
        index = make_index(kind, vectors, trial.seed)
        ways |= {(kind, float(value)): of(index.tuned(**{knob: value})) for value in values}
    ways |= {("jtr", float(beam)): jtr(beam) for beam in BEAMS["jtr"]}
    return ways | {(TREE, float(beam)): tree(beam) for beam in BEAMS[TREE]}


def _answers(search: Search, count: int) -> Tensor:
    parts = [search(slice(at, at + BATCH)) for at in range(0, count, BATCH)]
    return torch.cat([torch.nn.functional.pad(one, (0, DEEP - one.shape[1]), value=-1) for one in parts])


def _times(
    ways: Mapping[tuple[str, float], Search], count: int, progress: Progress, asked: int = 150
) -> dict[tuple[str, float], float]:
    """The median seconds of one request, asked right after another one, so that nobody finds the caches cold.

    The ways take turns on every user, in another order each time: all see the same weather.
    """
    seconds: dict[tuple[str, float], list[float]] = {way: [] for way in ways}
    lot = np.random.default_rng(0)
    for at in told(range(min(asked, count)), "search", progress):
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
    """A point of the way's curve over time for recall@20; all else is told with how the knob was turned."""
    if metric == "recall@20":
        told_of = row(way, metric, rows[way, metric, knob])
        return told_of | {"x": statistics.fmean(rows[way, TIME, knob]), "knob": knob}
    turned = f", {ANN[way][0] if way in ANN else 'beam'} {knob:g}" if knob else ""
    return row(way + turned, metric, rows[way, metric, knob])


def _claims(rows: Mapping[tuple[str, str, float], list[float]], kinds: Sequence[str]) -> list[dict[str, Any]]:
    """What each way finds at its widest, and at what time."""
    claims = []
    exact = statistics.fmean(rows["exact", "recall@20", 0.0])
    for way in (*kinds, "jtr", TREE):
        best = max(knob for name, _, knob in rows if name == way)
        reached = statistics.fmean(rows[way, "recall@20", best]) / exact
        times = statistics.fmean(rows[way, TIME, best])
        note = f"recall@20 over that of exact search at the widest look; time over exact search {times:.2f}"
        claims.append(claim(f"{way} keeps what exact search finds", SOURCE, reached >= NEAR, reached, note))
    return claims
