"""Time of beam search on one CPU core, its growth with the catalogue, of a training step, and a large tree's memory."""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from shortlist.errors import ShortlistError
from shortlist.evaluate.latency import one_thread
from shortlist.index.tree import TreeIndex, delete, exhaustive, insert, random_order, search
from shortlist.index.tree.local_search import improve
from shortlist.lab.bench.timing import Job, alternating, estimates
from shortlist.lab.bench.tree_job import large_index
from shortlist.lab.bench.tree_step import steps_compared
from shortlist.lab.result import Claim, Result, Row, at_least, at_most, result, row, start
from shortlist.models.nodes import NodeScorer, State
from shortlist.progress import Progress, silent

ITEMS = 10_677
SMALL, LARGE = 10_000, 1_000_000
BEAM, HISTORY, K = 150, 69, 20
BRANCHES = (2, 8)
CHANGES = 10_000
SAMPLE = 2000  # items of the tree that is searched with a full beam after updates
SOURCE = "target of this project"
GIB = 2**30

Rows = list[Row]
Claims = list[Claim]


class Naive(NodeScorer):
    """The same scorer by its plain formula; search uses its torch form with it."""

    def __init__(self, inner: NodeScorer) -> None:
        nn.Module.__init__(self)
        self.inner, self.config = inner, inner.config
        self.nodes, self.items = inner.nodes, inner.items

    def prepare(self, history: Tensor) -> State:
        return (history,)

    def score(self, state: State, rows: Tensor) -> Tensor:
        return self.inner.naive(state[0], rows)

    def score_all(self, state: State, rows: Tensor) -> Tensor:
        return self.inner.naive(state[0], rows.expand(len(state[0]), -1))

    def score_vectors(self, state: State, w: Tensor) -> Tensor:
        raise TypeError("the naive form scores rows, not vectors")

    def naive(self, history: Tensor, rows: Tensor) -> Tensor:
        return self.inner.naive(history, rows)


def bench_tree(
    seed: int = 0,
    items: int = ITEMS,
    sizes: tuple[int, int] = (SMALL, LARGE),
    changes: int = CHANGES,
    repeats: int = 30,
    progress: Progress = silent,
) -> Result:
    """Searches at batch 1 and training steps on one thread, alternating; the larger tree is a separate process."""
    began = start()
    with one_thread():
        progress("bench tree: naive form", 0, 6)
        rows, claims = against_naive(items, repeats, seed)
        progress("bench tree: training step", 1, 6)
        step_rows, step_claims = steps_compared(items, min(repeats, 3), seed)
        rows, claims = rows + step_rows, claims + step_claims
        for step, part in enumerate((_sizes_compared, _after_updates, _reassigned, _large_tree), start=2):
            progress(f"bench tree: {part.__name__.strip('_').replace('_', ' ')}", step, 6)
            more_rows, more_claims = part(sizes, changes, repeats, seed)
            rows, claims = rows + more_rows, claims + more_claims
        profile = f"batch 1, beam {BEAM}, history {HISTORY}, width 24, k {K}, one thread"
        return result("tree", profile, [seed], began, rows, claims, figures=estimates(claims))


def against_naive(items: int, repeats: int, seed: int) -> tuple[Rows, Claims]:
    """The compiled search over the same beam search with the plain formula of the scorer."""
    index = large_index(items, 2, seed)
    slow = TreeIndex(index.tree, Naive(index.scorer).eval(), index.leaf_vectors)
    users = _histories(items, seed)
    times = alternating({"fast": _search(index, users), "naive": _search(slow, users)}, repeats, {"fast": 10})
    scored = sum(int(beam.n_scored) for beam in search(index, users[:1], K, BEAM, trace=True).beams)
    rows = [row(name, f"ms per query, {items} items", _milli(seconds)) for name, seconds in times.items()]
    rows += [
        row(name, "microseconds per score", [1e6 * value / scored for value in seconds])
        for name, seconds in times.items()
    ]
    ratio = _median(times["naive"]) / _median(times["fast"])
    return rows, [at_least("cpu_fast_over_naive", SOURCE, ratio, 8.0)]


def _sizes_compared(sizes: tuple[int, int], changes: int, repeats: int, seed: int) -> tuple[Rows, Claims]:
    """Two sizes of tree by branch, then all leaves of the larger."""
    rows, claims = Rows(), Claims()
    for branch in BRANCHES:
        more_rows, more_claims = _grown(sizes, branch, repeats, seed)
        rows += more_rows
        claims += more_claims if branch == BRANCHES[0] else []
    return rows, claims


def _grown(sizes: tuple[int, int], branch: int, repeats: int, seed: int) -> tuple[Rows, Claims]:
    small, large = (large_index(size, branch, seed) for size in sizes)
    users = _histories(sizes[0], seed)
    far = users * (sizes[1] // sizes[0])  # as spread as among fewer items
    times = alternating(
        {"small": _search(small, users), "large": _search(large, far)}, repeats, {"small": 10, "large": 5}
    )
    growth = _median(times["large"]) / _median(times["small"])
    whole = alternating(
        {
            "beam": _search(large, far),
            "exhaustive": _over(far, lambda history: exhaustive(large, history, K)),
        },
        min(repeats, 5),
        {"beam": 50},
    )
    ratio = _median(whole["exhaustive"]) / _median(whole["beam"])
    name = f"branch {branch}"
    rows = [
        row(name, f"ms per query, {size} items", _milli(seconds))
        for size, seconds in zip(sizes, times.values(), strict=True)
    ]
    rows.append(row(name, f"ms exhaustive, {sizes[1]} items", _milli(whole["exhaustive"])))
    rows += [row(name, "growth", [growth]), row(name, "exhaustive_over_beam", [ratio])]
    rows += [row(name, metric, [value]) for metric, value in bytes_per_item(large).items()]
    claims = [
        at_most("growth", SOURCE, growth, 3.0),
        at_least("exhaustive_over_beam", SOURCE, ratio, 100.0),
    ]
    return rows, claims


def bytes_per_item(index: TreeIndex) -> dict[str, float]:
    """Memory of an index per item: the tree as stored, with all derived arrays, and with the vectors."""
    tree = index.tree
    derived = (tree.leaf_of_item, tree.all_reach, *tree.reach, index.leaf_rows)
    stored = tree.item_of_leaf.nbytes
    arrays = stored + sum(tensor.nbytes for tensor in derived)
    table = sum(tensor.nbytes for tensor in index.scorer.state_dict().values())
    sizes = {"tree, stored": stored, "tree, in memory": arrays, "tree and scorer, in memory": arrays + table}
    return {f"bytes per item, {name}": size / tree.n_items for name, size in sizes.items()}


def _after_updates(sizes: tuple[int, int], changes: int, repeats: int, seed: int) -> tuple[Rows, Claims]:
    """The share of items that a full-width beam finds for three users after a tenth of them changed."""
    old, some = random_order(SAMPLE, seed), SAMPLE // 10
    index = large_index(SAMPLE, 2, seed, spare=0.05)  # too few free slots: the tree is also rebalanced
    index = insert(index, SAMPLE + torch.arange(some), old[some : 2 * some])
    index = delete(index, old[:some])
    left = torch.cat([old[some:], SAMPLE + torch.arange(some)]).sort().values
    found = search(index, _histories(SAMPLE, seed)[:3], len(left) + 1, beam=index.tree.shape.n)
    shares = [float(torch.isin(left, items).float().mean()) for items in found.items]
    claims = [at_least("survivors_found_by_search", SOURCE, min(shares), 1.0)]
    return [row("full beam", f"survivors found, {SAMPLE} items", shares)], claims


def _reassigned(sizes: tuple[int, int], changes: int, repeats: int, seed: int) -> tuple[Rows, Claims]:
    """The last step of a tree update: items of 84 nodes are exchanged below them, by the slow and the fast form."""
    groups, each, width = 84, 100, 128
    random = np.random.default_rng(seed)
    scores = random.normal(size=(groups * each, width)).astype(np.float32)
    group, start = np.repeat(np.arange(groups), each), np.tile(np.arange(each), groups)
    room = np.ones((groups, width), np.int64)
    jobs: dict[str, Job] = {
        "slow": lambda _: improve(scores, start, room, group, slow=True),
        "fast": lambda _: improve(scores, start, room, group),
    }
    times = alternating(jobs, min(repeats, 5), {"fast": 5})
    ratio = _median(times["slow"]) / _median(times["fast"])
    rows = [
        row(name, f"ms, {len(scores)} items exchanged", _milli(seconds)) for name, seconds in times.items()
    ]
    return rows, [at_least("laid_fast_over_slow", SOURCE, ratio, 2.0)]


def _large_tree(sizes: tuple[int, int], changes: int, repeats: int, seed: int) -> tuple[Rows, Claims]:
    """Build, save, load, search, insert, delete the larger tree."""
    measured = _child(sizes[1], changes, seed)
    rows = [row(f"{sizes[1]} items", name, [value]) for name, value in measured.items()]
    claims = [
        at_most("peak_gib", SOURCE, measured["peak_bytes"] / GIB, 8.0),
        at_least("same_answer_after_loading", SOURCE, measured["same_answer"], 1.0),
        at_least("survivors_found", SOURCE, measured["survivors_found"], 1.0),
    ]
    return rows, claims


def _child(items: int, changes: int, seed: int) -> dict[str, float]:
    command = [sys.executable, "-m", "shortlist.lab.bench.tree_job", str(items), str(changes), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ShortlistError(f"bench tree: the large tree failed: {done.stderr.strip()[-400:]}")
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def _search(index: TreeIndex, users: Tensor) -> Job:
    return _over(users, lambda history: search(index, history, K, BEAM))


def _over(users: Tensor, ask: Callable[[Tensor], object]) -> Job:
    """A search for another user in every call."""
    return lambda call: ask(users[call % len(users)][None])


def _histories(items: int, seed: int, users: int = 8) -> Tensor:
    return torch.randint(items, (users, HISTORY), generator=torch.Generator().manual_seed(seed))


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


def _milli(seconds: Sequence[float]) -> list[float]:
    return [1e3 * value for value in seconds]
