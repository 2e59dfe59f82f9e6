"""A whole evaluation and a comparison of two bundles, over scoring and top-k alone."""

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Dataset, HeldOut, Query
from shortlist.evaluate.compare import compare
from shortlist.evaluate.evaluation import evaluate
from shortlist.evaluate.protocol.measures import SLATE
from shortlist.grammar import as_pipeline
from shortlist.index import search
from shortlist.lab.bench.data_job import peak_bytes
from shortlist.lab.bench.timing import Job, alternating
from shortlist.lab.result import Result, at_most, result, row, start
from shortlist.models.sequence.two_tower import TwoTower, TwoTowerConfig
from shortlist.nominate import ModelNominator
from shortlist.pipeline import About, Recommender
from shortlist.pipeline.batch.held_out import in_batches, in_order
from shortlist.progress import Progress, silent
from shortlist.simulate import make_world, simulate_log
from shortlist.stages import Seen
from shortlist.state.histories import UserHistories

USERS, ITEMS = 20_000, 12_000
EVENTS = 10  # per user
CANDIDATES = 200
PROTOCOL = "leave-last-out"
MIB = 1 << 20


def bench_evaluate(
    seed: int = 0, users: int = USERS, items: int = ITEMS, repeats: int = 3, progress: Progress = silent
) -> Result:
    """All in one process on all threads, alternating; the best of three runs of each.

    The bundles have a model with random weights, and slates of two stored baselines. Scoring alone computes the user
    vectors of the same batches and searches as many items as the pipeline nominates, those of the history left out:
    the `k` of a ratio is that number. Ratios of processor time are stated too: a busy machine changes them less.
    """
    began = start()
    data = simulate_log(make_world(users, items, seed=seed), EVENTS * users, seed, progress)
    held_out = data.split(protocol=PROTOCOL).test
    bundles = {k: random_bundle(data, seed, k) for k in (CANDIDATES, SLATE)}
    jobs = {name: job for k, one in bundles.items() for name, job in _jobs(one, data, held_out, k).items()}
    wide = bundles[CANDIDATES]
    jobs["compare"] = lambda _: compare({"one": wide, "two": wide}, data)
    clocks = {"seconds": time.perf_counter, "cpu_seconds": time.process_time}
    times = {name: alternating(jobs, repeats, clock=clock) for name, clock in clocks.items()}
    rows = [row(job, name, own) for name, found in times.items() for job, own in found.items()]
    rows.append(row("all", "peak_mib", [peak_bytes() / MIB]))
    ratios = {name: _ratios({job: min(own) for job, own in found.items()}) for name, found in times.items()}
    claims = [at_most("evaluate_over_topk", "issue 15", ratios["seconds"]["evaluate_over_topk"], 3.0)]
    figures = {
        "k": CANDIDATES,
        **ratios["seconds"],
        **{f"{name}_cpu": value for name, value in ratios["cpu_seconds"].items()},
        "peak_mib": peak_bytes() / MIB,
    }
    profile = f"{users} users, {items} items, {CANDIDATES} candidates, {torch.get_num_threads()} threads"
    return result("evaluate", profile, [seed], began, rows, claims, figures=figures)


def _jobs(bundle: Recommender, data: Dataset, held_out: HeldOut, k: int) -> dict[str, Job]:
    return {
        f"evaluate, k = {k}": lambda _: evaluate(bundle, data),
        f"top-{k}": lambda _: top_k(bundle, held_out, k),
    }


def _ratios(best: Mapping[str, float]) -> dict[str, float]:
    """Evaluation over the search that its own pipeline does, for both numbers of candidates."""
    wide = best[f"top-{CANDIDATES}"]
    return {
        "evaluate_over_topk": best[f"evaluate, k = {CANDIDATES}"] / wide,
        f"evaluate_over_top{SLATE}": best[f"evaluate, k = {SLATE}"] / best[f"top-{SLATE}"],
        "compare_two_over_topk": best["compare"] / wide,
    }


def random_bundle(data: Dataset, seed: int, k: int = CANDIDATES) -> Recommender:
    """Two towers with random weights that nominate k items, none of them seen."""
    torch.manual_seed(seed)
    towers = TwoTower(TwoTowerConfig(len(data.items))).eval()
    pipeline = as_pipeline(ModelNominator(towers, name="towers", exclude_seen=True) % k >> Seen(name="seen"))
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
