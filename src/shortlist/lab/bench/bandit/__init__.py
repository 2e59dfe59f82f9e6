"""Batched simulation of two-stage bandits against a plain loop."""

from shortlist.lab.bench.bandit.speed import bench_bandit

__all__ = ["bench_bandit"]
