"""The index rows of the DTR paper's table 2: what approximate search costs in quality and saves in time.

All vector indexes search the same vectors, those of a SASRec model of the same split. JTR has an encoder and a tree of
its own; the deep tree scores nodes by attention to the history and has no encoder. So there are two times, both of one
request on one thread. The time of the search alone is a multiple of exact search of SASRec's vectors. The time of a
whole request, encoder and search, is a multiple of SASRec's encoder with exact search; for the deep tree it is the
search alone. Quality is that of the same single requests. Items of the history are excluded from every answer.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor

from shortlist.errors import MissingExtraError
from shortlist.evaluate.latency import one_thread
from shortlist.evaluate.scores import score_slates
from shortlist.index import VectorIndex, make_index
from shortlist.index.jtr import search as jtr_search
from shortlist.index.registry import index_type
from shortlist.index.tree import search as tree_search
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.sweeps import experiment_name
from shortlist.lab.experiments.trees.trial import (
    MAX_HISTORY,
    Trial,
    data_setups,
    settings_without_device,
    tree_facts,
)
from shortlist.lab.result import Claim, Result, Row, at_least, claim, result, row, start
from shortlist.models.model import VectorModel
from shortlist.nominate import ModelNominator, TreeNominator
from shortlist.nominate.jtr import JTRNominator
from shortlist.progress import Progress, silent, tracked
from shortlist.train.jtr import JTRTrainer
from shortlist.train.loop.convergence import history_of
from shortlist.train.tree.validation import full_histories

SOURCE = "DTR paper, table 2"
TOP, TREE = 20, "dtr-u"
PROBES = (1, 2, 4, 8, 16, 32, 64)
CODES = ", codes alone"  # without exact scores of the best codes
ANN: Mapping[str, tuple[str, Sequence[int]]] = {  # the knob of an index and its values
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
NEAR = 0.95  # of what exact search finds: what an index must reach at its widest setting

Search = Callable[[slice], Tensor]  # some of the test users -> their items [B, k]
Setting = tuple[str, float]  # an index or tree, and the value of its knob
Values = Mapping[tuple[str, str, float], Sequence[float]]  # (index, metric, knob) -> a value per seed


@dataclass(frozen=True, eq=False)
class Stages:
    """The models of one split: the vectors to search, and the two trees."""

    sasrec: ModelNominator
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
) -> Result:
    """A split and its models per seed; indexes whose package is not installed are listed in the note."""
    began, cache = start(), AnswerCache.open(cache_file)
    missing = [kind for kind in kinds if not _is_installed(kind)]
    kinds = [kind for kind in kinds if kind not in missing]
    name = experiment_name("dtr-table2-indexes", where)
    (data_setup,) = data_setups([where], data, profile, name)
    values: dict[tuple[str, str, float], list[float]] = {}
    for seed in seeds:
        trial = Trial(data_setup, seed, cache, progress)
        for key, value in _measured(trial, trained_stages(trial), kinds, progress).items():
            values.setdefault(key, []).append(value)
    return result(
        name,
        profile,
        seeds,
        began,
        [_row(values, *key) for key in values],
        _claims(values, kinds),
        x="time of a whole request, over SASRec with exact search",
        path=True,
        note=f"Not installed, and so not measured: {', '.join(missing)}." if missing else "",
        settings=cache.settings,
        training=cache.training,
    )


def _is_installed(kind: str) -> bool:
    try:
        index_type(_kind(kind))
    except MissingExtraError:
        return False
    return True


def _kind(way: str) -> str:
    return way.removesuffix(CODES)


def trained_stages(trial: Trial) -> Stages:
    """The models of a trial, trained now or taken from the cache."""
    quick, key = trial.data_setup.quick, f"{trial.data_setup.name}/%s, all of it/{trial.seed}"
    small: dict[str, Any] = (
        {"width": 16, "heads": 1, "epochs": 2, "leaf": 20, "rounds": 1, "round_epochs": 1} if quick else {}
    )
    trainer = JTRTrainer(max_history=12 if quick else MAX_HISTORY, device=trial.device, **small)
    plan = trial.plan(TREE)

    def jtr() -> tuple[Tensor, dict[str, Any]]:
        encoder, index = trainer.learn(trial.split.train, trial.split.valid, trial.seed, trial.progress)
        history = history_of(encoder.validation, trainer.encoder.epochs, trainer.encoder.patience)
        return _bytes(JTRNominator(encoder.cpu(), index.to("cpu")).tensors()), {"history": history}

    def tree() -> tuple[Tensor, dict[str, Any]]:
        index, training = trial.train(plan)
        return _bytes(TreeNominator(index).tensors()), tree_facts(plan, training)

    def sasrec() -> tuple[Tensor, dict[str, Any]]:
        return _bytes(ModelNominator(trial.sasrec.cpu()).tensors()), {}

    jobs = {
        "sasrec": (sasrec, settings_without_device(trial.sasrec_trainer())),
        "jtr": (jtr, settings_without_device(trainer)),
        TREE: (tree, asdict(plan)),
    }
    blobs = {name: trial.cache.get(key % name, make, settings)[0] for name, (make, settings) in jobs.items()}
    tensors = {name: load(blob.numpy().tobytes()) for name, blob in blobs.items()}
    return Stages(
        ModelNominator.build({}, tensors["sasrec"]),
        JTRNominator.build({}, tensors["jtr"]),
        TreeNominator.build({}, tensors[TREE]),
    )


def _bytes(tensors: Mapping[str, Tensor]) -> Tensor:
    """Tensors as one tensor of bytes."""
    plain = {name: one.detach().cpu().contiguous().clone() for name, one in tensors.items()}
    return torch.frombuffer(bytearray(save(plain)), dtype=torch.uint8)


@torch.no_grad()
def _measured(
    trial: Trial, stages: Stages, kinds: Sequence[str], progress: Progress
) -> dict[tuple[str, str, float], float]:
    """(index, metric, knob) -> value, of all searches."""
    count = len(trial.split.test)
    with one_thread():
        searches = _searches(trial, stages, kinds)
        found = {setting: _answers(search, count) for setting, search in searches.items()}
        times = _times(searches | _encoders(trial, stages), count, progress)
    values: dict[tuple[str, str, float], float] = {}
    for (way, knob), items in found.items():
        scores = score_slates(items, trial.relevant, (TOP,))
        for metric in ("recall@20", "f1@20"):
            values[way, metric, knob] = float(scores[metric].nanmean())
        values[way, SHARE, knob] = _shared(items, found[EXACT, 0.0])
        if way == "jtr":
            values[way, OWN_SHARE, knob] = _shared(items, found[OWN, 0.0])
    return values | _ratios(times)


def _ratios(times: Mapping[Setting, float]) -> dict[tuple[str, str, float], float]:
    """Seconds of searches and encoders, as multiples of exact search and of a whole request with exact search."""
    exact = times[EXACT, 0.0]
    ratios: dict[tuple[str, str, float], float] = {}
    for (way, knob), seconds in times.items():
        ratios[way, TIME, knob] = seconds / exact
        if not way.startswith("encoder"):
            encoding = times.get((_encoder(way), 0.0), 0.0)
            ratios[way, WHOLE, knob] = (encoding + seconds) / (times[_encoder(EXACT), 0.0] + exact)
    return ratios


def _encoder(way: str) -> str:
    """The encoder of the user vectors of a search; the deep tree has none, and so no time."""
    return f"encoder of {way.partition(',')[0] if way in ('jtr', OWN, TREE) else 'sasrec'}"


def _encoders(trial: Trial, stages: Stages) -> dict[Setting, Search]:
    history = trial.split.test.query(width=MAX_HISTORY).history
    sasrec, jtr = _vector_model(stages.sasrec), stages.jtr.model
    return {
        (_encoder(EXACT), 0.0): lambda some: sasrec.users(history[some]),
        (_encoder("jtr"), 0.0): lambda some: jtr.users(history[some]),
    }


def _vector_model(nominator: ModelNominator) -> VectorModel:
    assert isinstance(nominator.model, VectorModel)
    return nominator.model


def _searches(trial: Trial, stages: Stages, kinds: Sequence[str]) -> dict[Setting, Search]:
    """Every search, by its name and the value of its knob."""
    query, seen = trial.split.test.query(width=MAX_HISTORY), full_histories(trial.split.test)
    model, jtr_users = _vector_model(stages.sasrec), stages.jtr.model.users(query.history)
    users, vectors, leaves = model.users(query.history), model.vectors(), stages.jtr.model.vectors()

    def with_index(index: VectorIndex, user_vectors: Tensor = users) -> Search:
        return lambda some: index.search(user_vectors[some], TOP, seen[some])[0]

    def jtr(beam: int) -> Search:
        return lambda some: jtr_search(stages.jtr.index, leaves, jtr_users[some], TOP, beam, seen[some]).items

    def tree(beam: int) -> Search:
        return lambda some: tree_search(stages.tree.index, query.history[some], TOP, beam, seen[some]).items

    searches: dict[Setting, Search] = {(EXACT, 0.0): with_index(make_index("exact", vectors))}
    for kind in kinds:
        indexes = _with_knobs(kind, vectors, trial.seed)
        searches |= {(kind, knob): with_index(index) for knob, index in indexes.items()}
    searches |= {("jtr", float(beam)): jtr(beam) for beam in BEAMS["jtr"]}
    searches |= {(OWN, 0.0): with_index(make_index("exact", leaves), jtr_users)}
    return searches | {(TREE, float(beam)): tree(beam) for beam in BEAMS[TREE]}


def _with_knobs(way: str, vectors: Tensor, seed: int) -> dict[float, VectorIndex]:
    """An index with every value of its knob."""
    knob, values = ANN[way]
    index = make_index(_kind(way), vectors, seed, **({"refine": 0} if way.endswith(CODES) else {}))
    return {float(value): index.tuned(**({knob: value} if knob else {})) for value in values}


def _answers(search: Search, count: int) -> Tensor:
    """The items of every user, one request at a time, as they are timed."""
    parts = [search(slice(at, at + 1)) for at in range(count)]
    return torch.cat([torch.nn.functional.pad(one, (0, TOP - one.shape[1]), value=-1) for one in parts])


def _times(
    searches: Mapping[Setting, Search], count: int, progress: Progress, requests: int = 150
) -> dict[Setting, float]:
    """The median seconds of one request, each right after another one, so that no search starts with cold caches.

    All searches alternate on every user in a random order, so that a slow moment of the machine hits all of them.
    """
    seconds: dict[Setting, list[float]] = {setting: [] for setting in searches}
    generator, settings = np.random.default_rng(0), list(searches)
    for at in tracked(range(min(requests, count)), "search", progress):
        for turn in generator.permutation(len(settings)):
            search = searches[settings[turn]]
            search(slice(at - 1 if at else count - 1, at or count))
            began = time.perf_counter()
            search(slice(at, at + 1))
            seconds[settings[turn]].append(time.perf_counter() - began)
    return {setting: statistics.median(times[len(times) // 10 :]) for setting, times in seconds.items()}


def _shared(items: Tensor, exact: Tensor) -> float:
    """The share of the exact items that are found."""
    hits = (items[:, :, None] == exact[:, None, :]) & (exact >= 0)[:, None, :]
    return float(hits.any(1).sum() / (exact >= 0).sum())


def _row(values: Values, way: str, metric: str, knob: float) -> Row:
    """recall@20 is a point of a curve over the time of a whole request; other metrics name the value of the knob."""
    if metric == "recall@20":
        x = statistics.fmean(values[way, WHOLE, knob])
        return row(way, metric, values[way, metric, knob], x=x, knob=knob)
    label = f", {ANN[way][0] if way in ANN else 'beam'} {knob:g}" if knob else ""
    return row(way + label, metric, values[way, metric, knob])


def _claims(values: Values, kinds: Sequence[str]) -> list[Claim]:
    """What each search finds at its widest setting, and its time."""
    claims = [_keeps(values, f"{kind} keeps what exact search finds", kind, SHARE) for kind in kinds]
    name = "jtr's beam keeps what exact search among its own vectors finds"
    claims.append(_keeps(values, name, "jtr", OWN_SHARE))
    exact = statistics.fmean(values[EXACT, "recall@20", 0.0])
    for way in ("jtr", TREE):
        ratio = statistics.fmean(values[way, "recall@20", _widest(values, way)]) / exact
        claims.append(at_least(f"{way}, recall@20 over SASRec with exact search", SOURCE, ratio, NEAR))
    return claims


def _keeps(values: Values, name: str, way: str, metric: str) -> Claim:
    widest = _widest(values, way)
    share, search, whole = (statistics.fmean(values[way, one, widest]) for one in (metric, TIME, WHOLE))
    note = (
        f"share at the widest search, at least {NEAR:g}; {search:.2f} times exact search's time for the search, "
        f"{whole:.2f} times for the whole request"
    )
    return claim(name, SOURCE, share >= NEAR, share, note)


def _widest(values: Values, way: str) -> float:
    return max(knob for name, _, knob in values if name == way)
