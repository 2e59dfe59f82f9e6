"""Search time and recall of vector indexes on one CPU core."""

import json
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from shortlist.data.membership import is_in
from shortlist.errors import ShortlistError
from shortlist.evaluate.latency import one_thread
from shortlist.index import INDEXES, VectorIndex, make_index
from shortlist.lab.bench.timing import Job, alternating, estimates
from shortlist.lab.result import Claim, Result, Row, at_least, at_most, result, row, start
from shortlist.progress import Progress, silent

ITEMS, USERS, WIDTH = 100_000, 100_000, 64
BATCHES = (1, 64)
K, SMALL_K = 100, 10
QUERIES = 256  # distinct queries
SOURCE = "target of this project"
GIB = 2**30

Rows = list[Row]
Claims = list[Claim]
World = tuple[Tensor, Tensor]  # item vectors, queries


def bench_index(
    seed: int = 0,
    items: int = ITEMS,
    users: int = USERS,
    repeats: int = 60,
    progress: Progress = silent,
) -> Result:
    """All on one thread, alternating; ranking for all users runs in a separate process to measure its memory."""
    began, kinds = start(), _installed()
    with one_thread():
        world = grouped(items, WIDTH, seed)
        progress("bench index: exact and faiss", 0, len(kinds) + 2)
        rows, claims = against_faiss(world, repeats, seed)
        for step, kind in enumerate(kinds, start=1):
            progress(f"bench index: {kind}", step, len(kinds) + 2)
            rows += against_exact(kind, world, repeats, seed)
        progress("bench index: ranking for all users", len(kinds) + 1, len(kinds) + 2)
        more_rows, more_claims = all_users(users, items, seed)
        profile = f"{items} items of width {WIDTH}, k {K}, one thread"
        claims += more_claims
        return result("index", profile, [seed], began, rows + more_rows, claims, figures=estimates(claims))


def grouped(items: int, width: int, seed: int) -> World:
    """Hierarchically clustered items of different norms, and queries near some items.

    Trained vectors are like that; among independent random vectors only exact search has any recall.
    """
    generator = torch.Generator().manual_seed(seed)

    def around(centres: Tensor, count: int, spread: float) -> Tensor:
        own = torch.randint(len(centres), (count,), generator=generator)
        return centres[own] + spread * torch.randn(count, width, generator=generator)

    themes = around(torch.zeros(1, width), max(items // 10_000, 4), 1.0)
    vectors = around(around(themes, max(items // 200, 8), 0.7), items, 0.7)
    lengths = 1 + 0.2 * torch.randn(items, 1, generator=generator)
    return vectors * lengths, around(vectors, QUERIES, 0.5)


def against_faiss(world: World, repeats: int, seed: int) -> tuple[Rows, Claims]:
    """Exact search through our interface, over the bare search of the FAISS flat index."""
    vectors, queries = world
    exact, flat = make_index("exact", vectors), make_index("flat", vectors, seed)
    rows, claims, worst, same = Rows(), Claims(), 0.0, 1.0
    for batch in BATCHES:
        for k in (K, SMALL_K):
            rounds = max(repeats // batch, 10) if batch > 1 else repeats * 4
            times = alternating(
                {"exact": _search(exact, queries, batch, k), "faiss": _bare(flat, queries, batch, k)}, rounds
            )
            ratio = statistics.median(times["exact"]) / statistics.median(times["faiss"])
            rows += [
                row(name, f"ms, batch {batch}, k {k}", [1e3 * seconds for seconds in own])
                for name, own in times.items()
            ]
            rows.append(row("exact", f"exact_over_faiss, batch {batch}, k {k}", [ratio]))
            same = min(same, shared(exact, flat, queries, k))
            if k == K:
                worst = max(worst, ratio)
                claims.append(at_most(f"exact_over_faiss_batch_{batch}", SOURCE, ratio, 1.3))
    overall = at_most("exact_over_faiss", SOURCE, worst, 1.3)
    return rows, [overall, *claims, at_least("same_as_faiss", SOURCE, same, 0.999)]


def against_exact(kind: str, world: World, repeats: int, seed: int) -> Rows:
    """Recall of a kind with respect to exact search, and its queries per second over those of exact search."""
    vectors, queries = world
    exact, began = make_index("exact", vectors), time.perf_counter()
    index = make_index(kind, vectors, seed)
    seconds = time.perf_counter() - began
    rows = [
        row(kind, f"recall@{K}", [shared(exact, index, queries, K)]),
        row(kind, "seconds to build", [seconds]),
        row(
            kind, "bytes per item", [sum(tensor.nbytes for tensor in index.tensors().values()) / len(vectors)]
        ),
    ]
    for batch in BATCHES:
        jobs = {"exact": _search(exact, queries, batch, K), kind: _search(index, queries, batch, K)}
        times = alternating(jobs, max(repeats // batch, 5))
        ratio = statistics.median(times["exact"]) / statistics.median(times[kind])
        rows.append(row(kind, f"queries_per_second over exact, batch {batch}", [ratio]))
    return rows


def shared(exact: VectorIndex, other: VectorIndex, queries: Tensor, k: int) -> float:
    """Recall of `other` with respect to exact search."""
    return float(is_in(exact.search(queries, k)[0], other.search(queries, k)[0]).float().mean())


def all_users(users: int, items: int, seed: int) -> tuple[Rows, Claims]:
    """The whole catalogue ranked for all users without their histories, in a separate process."""
    measured = _child(users, items, seed)
    rows = [row(f"{users} users, {items} items", name, [value]) for name, value in measured.items()]
    return rows, [at_most("evaluation_peak_gib", SOURCE, measured["peak_bytes"] / GIB, 4.0)]


def _installed() -> list[str]:
    """The kinds to measure; without FAISS, building the first one raises with the install command."""
    return [kind for kind in INDEXES if kind != "exact" and (kind != "scann" or find_spec("scann"))]


def _search(index: VectorIndex, queries: Tensor, batch: int, k: int) -> Job:
    """A search with other queries in every round."""
    batches = _batches(queries, batch)
    return lambda number: index.search(batches[number % len(batches)], k)


def _bare(flat: Any, queries: Tensor, batch: int, k: int) -> Job:
    """The search of FAISS alone, without our interface."""
    batches = _batches(queries.numpy(), batch)
    return lambda number: flat.inner.search(batches[number % len(batches)], k)


def _batches(queries: Any, batch: int) -> list[Any]:
    """All queries in batches, before the clock starts: slicing them is the caller's work."""
    return [queries[begin : begin + batch] for begin in range(0, len(queries), batch)]


def _child(users: int, items: int, seed: int) -> dict[str, float]:
    command = [sys.executable, "-m", "shortlist.lab.bench.index_job", str(users), str(items), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ShortlistError(f"bench index: ranking for all users failed: {done.stderr.strip()[-400:]}")
    measured: dict[str, float] = json.loads(done.stdout)
    return measured
