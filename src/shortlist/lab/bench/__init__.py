"""Benchmarks: ratios of times measured in one run."""

from collections.abc import Mapping
from typing import Protocol

from shortlist.lab.bench.bandit import bench_bandit
from shortlist.lab.bench.batch import bench_batch
from shortlist.lab.bench.ccf import bench_ccf
from shortlist.lab.bench.data import bench_data
from shortlist.lab.bench.evaluate import bench_evaluate
from shortlist.lab.bench.index import bench_index
from shortlist.lab.bench.log import bench_log, bench_log_training
from shortlist.lab.bench.pipeline import bench_pipeline
from shortlist.lab.bench.ranker import bench_ranker
from shortlist.lab.bench.serve import bench_serve
from shortlist.lab.bench.softmax import bench_softmax
from shortlist.lab.bench.startup import bench_startup
from shortlist.lab.bench.state import bench_state
from shortlist.lab.bench.train import bench_train
from shortlist.lab.bench.tree import bench_tree
from shortlist.lab.result import Result
from shortlist.progress import Progress


class Bench(Protocol):
    """A benchmark returns its rows, its claims and its figures."""

    def __call__(self, seed: int = ..., *, progress: Progress = ...) -> Result: ...


BENCHES: Mapping[str, Bench] = {
    "bandit": bench_bandit,
    "batch": bench_batch,
    "ccf": bench_ccf,
    "data": bench_data,
    "evaluate": bench_evaluate,
    "index": bench_index,
    "log": bench_log,
    "log-training": bench_log_training,
    "pipeline": bench_pipeline,
    "ranker": bench_ranker,
    "serve": bench_serve,
    "softmax": bench_softmax,
    "startup": bench_startup,
    "state": bench_state,
    "train": bench_train,
    "tree": bench_tree,
}

__all__ = [
    "BENCHES",
    "bench_bandit",
    "bench_batch",
    "bench_ccf",
    "bench_data",
    "bench_evaluate",
    "bench_index",
    "bench_log",
    "bench_log_training",
    "bench_pipeline",
    "bench_ranker",
    "bench_serve",
    "bench_softmax",
    "bench_startup",
    "bench_state",
    "bench_train",
    "bench_tree",
]
