"""Speed as ratios measured in one run."""

from shortlist.bench.data import bench_data
from shortlist.bench.pipeline import bench_pipeline

BENCHES = {"data": bench_data, "pipeline": bench_pipeline}

__all__ = ["BENCHES", "bench_data", "bench_pipeline"]
