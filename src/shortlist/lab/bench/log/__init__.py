"""Benchmarks of the full-stage log: what it adds to a request, and the way from the log to training batches."""

from shortlist.lab.bench.log.requests import bench_log
from shortlist.lab.bench.log.training import bench_log_training

__all__ = ["bench_log", "bench_log_training"]
