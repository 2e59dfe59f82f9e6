"""A whole evaluation and a comparison of two bundles, over scoring and top-k alone."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Dataset, HeldOut, Query
from shortlist.evaluate.compare import compare
from shortlist.evaluate.evaluation import evaluate
from shortlist.evaluate.measures import SLATE
from shortlist.grammar import as_pipeline
from shortlist.index import search
from shortlist.lab.bench.data_job import peak_bytes
from shortlist.lab.bench.timing import alternating
from shortlist.lab.result import Result, at_most, result, row, start
from shortlist.models.sequence.two_tower import TwoTower, TwoTowerConfig
from shortlist.nominate import ModelNominator
from shortlist.pipeline import About, Recommender
from shortlist.pipeline.batch.held_out import in_batches, in_order
from shortlist.pipeline.recommender import UserHistories
from shortlist.progress import Progress, silent
from shortlist.simulate import make_world, simulate_log
from shortlist.stages import Seen

USERS, ITEMS = 20_000, 12_000
EVENTS = 10  # per user
CANDIDATES = 200
PROTOCOL = "leave-last-out"
MIB = 1 << 20


def bench_evaluate(
    seed: int = 0, users: int = USERS, items: int = ITEMS, repeats: int = 3, progress: Progress = silent
) -> Result:
    """All in one process on all threads, alternating; the best of three runs of each.

    The bundle has a model with random weights, and slates of two stored baselines. Scoring alone computes the user
    vectors of the same batches and searches the same number of items, those of the history left out.
    """
    began = start()
    data = simulate_log(make_world(users, items, seed=seed), EVENTS * users, seed, progress)
    bundle, held_out = random_bundle(data, seed), data.split(protocol=PROTOCOL).test
    jobs = {
        "evaluate": lambda _: evaluate(bundle, data),
        "top-k": lambda _: top_k(bundle, held_out, CANDIDATES),
        "top-20": lambda _: top_k(bundle, held_out, SLATE),
        "compare": lambda _: compare({"one": bundle, "two": bundle}, data),
    }
    times = alternating(jobs, repeats)
    best = {name: min(own) for name, own in times.items()}
    rows = [row(name, "seconds", own) for name, own in times.items()]
    rows.append(row("all", "peak_mib", [peak_bytes() / MIB]))
    claims = [at_most("evaluate_over_topk", "target of this project", best["evaluate"] / best["top-k"], 3.0)]
    figures = {
        "evaluate_over_topk": claims[0].estimate,
        "evaluate_over_top20": best["evaluate"] / best["top-20"],
        "compare_two_over_topk": best["compare"] / best["top-k"],
        "peak_mib": peak_bytes() / MIB,
    }
    profile = f"{users} users, {items} items, {CANDIDATES} candidates, {torch.get_num_threads()} threads"
    return result("evaluate", profile, [seed], began, rows, claims, figures=figures)


def random_bundle(data: Dataset, seed: int) -> Recommender:
    """Two towers with random weights that nominate 200 items, then a filter of seen items."""
    torch.manual_seed(seed)
    towers = TwoTower(TwoTowerConfig(len(data.items))).eval()
    pipeline = as_pipeline(ModelNominator(towers, name="towers") % CANDIDATES >> Seen(name="seen"))
    split = {"protocol": PROTOCOL}
    about = replace(About(), name="bench", fingerprint=data.fingerprint, split=split)
    nothing = UserHistories(
        torch.zeros(len(data.users) + 1, dtype=torch.int64), torch.zeros(0, dtype=torch.int64)
    )
    requests = len(data.split(**split).test)
    stored = {
        name: _random_slates(requests, len(data.items), at) for at, name in enumerate(("ease", "item-knn"))
    }
    return Recommender(pipeline, data.catalog, data.users, nothing, about, baselines={"test": stored})


def _random_slates(requests: int, items: int, seed: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, items, (requests, SLATE)))


def top_k(bundle: Recommender, held_out: HeldOut, k: int) -> Tensor:
    """The k best items of every request, those of the history left out."""
    nominator = bundle.pipeline.nominators[0]
    assert isinstance(nominator, ModelNominator)
    assert isinstance(nominator.model, TwoTower)
    model, vectors = nominator.model, nominator.model.vectors()

    def best(_: HeldOut, query: Query) -> Tensor:
        return search(vectors, model.users(query.history, query.user), k, exclude=query.history)[0]

    return in_order(in_batches(best, held_out))
