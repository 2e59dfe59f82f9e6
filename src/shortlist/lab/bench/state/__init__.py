"""Benchmark of user states: events per second, bytes per user, and the replay of a shuffled log."""

from shortlist.lab.bench.state.speed import bench_state

__all__ = ["bench_state"]
