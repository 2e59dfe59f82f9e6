"""Benchmark of the training of CCF: examples per second and memory on a long log."""

from shortlist.lab.bench.ccf.bench import bench_ccf

__all__ = ["bench_ccf"]
