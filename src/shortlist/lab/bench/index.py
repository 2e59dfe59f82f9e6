"""How fast indexes of item vectors are searched on one CPU core, and how much of what is there they find."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from shortlist.data.membership import is_in
from shortlist.errors import ShortlistError
from shortlist.index import INDEXES, VectorIndex, make_index
from shortlist.lab.bench.tree import taking_turns
from shortlist.lab.result import at_least, at_most, result, row, start
from shortlist.progress import Progress, silent

ITEMS, USERS, WIDTH = 100_000, 100_000, 64
BATCHES = (1, 64)
K, FEWER = 100, 10
ASKED = 256  # different queries
SOURCE = "issue 4"
GIB = 2**30

Rows = list[dict[str, Any]]
World = tuple[Tensor, Tensor]  # vectors of items, queries


def bench_index(
    seed: int = 0,
    items: int = ITEMS,
    users: int = USERS,
    repeats: int = 60,
    progress: Progress = silent,
) -> dict[str, Any]:
    """All on one thread, taking turns; a process of its own for the memory that ranking for everybody takes."""
    began, threads, kinds = start(), torch.get_num_threads(), _installed()
    torch.set_num_threads(1)
    try:
        world = grouped(items, WIDTH, seed)
        progress("bench index: exact and faiss", 0, len(kinds) + 2)
        rows, claims = against_faiss(world, repeats, seed)
        for step, kind in enumerate(kinds, start=1):
            progress(f"bench index: {kind}", step, len(kinds) + 2)
            rows += against_exact(kind, world, repeats, seed)
        progress("bench index: ranking for everybody", len(kinds) + 1, len(kinds) + 2)
        more_rows, more_claims = everybody(users, items, seed)
    finally:
        torch.set_num_threads(threads)
    profile = f"{items} items of width {WIDTH}, k {K}, one thread"
    told = result("index", profile, [seed], began, rows + more_rows, claims + more_claims)
    return {**told, **{one["id"]: one["estimate"] for one in told["claims"]}}


def grouped(items: int, width: int, seed: int) -> World:
    """Items around centres that lie around centres of their own, of unequal lengths, and users near some items.

    Vectors that models learn are like that; among vectors by chance alone nothing but exact search finds anything.
    """
    generator = torch.Generator().manual_seed(seed)

    def around(centres: Tensor, count: int, spread: float) -> Tensor:
        own = torch.randint(len(centres), (count,), generator=generator)
        return centres[own] + spread * torch.randn(count, width, generator=generator)

    themes = around(torch.zeros(1, width), max(items // 10_000, 4), 1.0)
    vectors = around(around(themes, max(items // 200, 8), 0.7), items, 0.7)
    lengths = 1 + 0.2 * torch.randn(items, 1, generator=generator)
    return vectors * lengths, around(vectors, ASKED, 0.5)


def against_faiss(world: World, repeats: int, seed: int) -> tuple[Rows, Rows]:
    """Exact search as the product asks it, against the bare search of faiss's flat index."""
    vectors, queries = world
    exact, flat = make_index("exact", vectors), make_index("flat", vectors, seed)
    rows, claims, worst, same = Rows(), Rows(), 0.0, 1.0
    for batch in BATCHES:
        for k in (K, FEWER):
            turns = max(repeats // batch, 10) if batch > 1 else repeats * 4
            times = taking_turns(
                {"exact": _asking(exact, queries, batch, k), "faiss": _bare(flat, queries, batch, k)}, turns
            )
            ratio = statistics.median(times["exact"]) / statistics.median(times["faiss"])
            rows += [
                row(name, f"ms, batch {batch}, k {k}", [1e3 * one for one in took])
                for name, took in times.items()
            ]
            rows.append(row("exact", f"exact_over_faiss, batch {batch}, k {k}", [ratio]))
            same = min(same, shared(exact, flat, queries, k))
            if k == K:
                worst = max(worst, ratio)
                claims.append(at_most(f"exact_over_faiss_batch_{batch}", SOURCE, ratio, 1.3))
    told = at_most("exact_over_faiss", SOURCE, worst, 1.3)
    return rows, [told, *claims, at_least("same_as_faiss", SOURCE, same, 0.999)]


def against_exact(kind: str, world: World, repeats: int, seed: int) -> Rows:
    """What a kind finds of what exact search finds, and how many queries it answers in the same time."""
    vectors, queries = world
    exact, began = make_index("exact", vectors), time.perf_counter()
    index = make_index(kind, vectors, seed)
    took = time.perf_counter() - began
    rows = [
        row(kind, f"recall@{K}", [shared(exact, index, queries, K)]),
        row(kind, "seconds to make", [took]),
        row(kind, "bytes per item", [sum(one.nbytes for one in index.tensors().values()) / len(vectors)]),
    ]
    for batch in BATCHES:
        works = {"exact": _asking(exact, queries, batch, K), kind: _asking(index, queries, batch, K)}
        times = taking_turns(works, max(repeats // batch, 5))
        ratio = statistics.median(times["exact"]) / statistics.median(times[kind])
        rows.append(row(kind, f"queries_per_second over exact, batch {batch}", [ratio]))
    return rows


def shared(exact: VectorIndex, other: VectorIndex, queries: Tensor, k: int) -> float:
    """The share of what exact search finds that the other finds too."""
    return float(is_in(exact.search(queries, k)[0], other.search(queries, k)[0]).float().mean())


def everybody(users: int, items: int, seed: int) -> tuple[Rows, Rows]:
    """All users' best items among all, what they met left out, in a process of its own."""
    told = _child(users, items, seed)
    rows = [row(f"{users} users, {items} items", name, [value]) for name, value in told.items()]
    return rows, [at_most("evaluation_peak_gib", SOURCE, told["peak_bytes"] / GIB, 4.0)]


def _installed() -> list[str]:
    """The kinds there is something to measure of; without faiss, making its first says what to do."""
    return [kind for kind in INDEXES if kind != "exact" and (kind != "scann" or find_spec("scann"))]


def _asking(index: VectorIndex, queries: Tensor, batch: int, k: int) -> Callable[[int], object]:
    """Other queries every turn."""
    return lambda turn: index.search(_turned(queries, turn, batch), k)


def _bare(flat: Any, queries: Tensor, batch: int, k: int) -> Callable[[int], object]:
    """The search of faiss alone, without our door before it."""
    asked = queries.numpy()
    return lambda turn: flat.inner.search(_turned(asked, turn, batch), k)


def _turned(queries: Any, turn: int, batch: int) -> Any:
    begin = turn * batch % len(queries)
    return queries[begin : begin + batch]


def _child(users: int, items: int, seed: int) -> dict[str, float]:
    command = [sys.executable, "-m", "shortlist.lab.bench.index_job", str(users), str(items), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ShortlistError(f"bench index: ranking for everybody failed: {done.stderr.strip()[-400:]}")
    told: dict[str, float] = json.loads(done.stdout)
    return told
