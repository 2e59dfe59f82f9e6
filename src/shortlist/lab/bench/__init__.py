"""Speed as ratios measured in one run."""

from collections.abc import Mapping
from typing import Any, Protocol

from shortlist.lab.bench.data import bench_data
from shortlist.lab.bench.index import bench_index
from shortlist.lab.bench.pipeline import bench_pipeline
from shortlist.lab.bench.ranker import bench_ranker
from shortlist.lab.bench.tree import bench_tree
from shortlist.progress import Progress


class Bench(Protocol):
    """Measures something and answers in the common shape of results."""

    def __call__(self, seed: int = ..., *, progress: Progress = ...) -> dict[str, Any]: ...


BENCHES: Mapping[str, Bench] = {
    "data": bench_data,
    "index": bench_index,
    "pipeline": bench_pipeline,
    "ranker": bench_ranker,
    "tree": bench_tree,
}

__all__ = ["BENCHES", "bench_data", "bench_index", "bench_pipeline", "bench_ranker", "bench_tree"]
