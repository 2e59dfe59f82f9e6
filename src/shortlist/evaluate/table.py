"""Metrics of several systems as an Arrow table, which data frames read without copies."""

from collections.abc import Iterator, Mapping

import pyarrow as pa

from shortlist.evaluate.scores import SystemMetrics

SCHEMA = pa.schema(
    {
        "system": pa.string(),
        "metric": pa.string(),  # like "recall@20"
        "users": pa.int64(),
        "mean": pa.float64(),
        "low": pa.float64(),  # null for a metric of the whole catalogue, which has no interval
        "high": pa.float64(),
    }
)


def metrics_to_arrow(systems: Mapping[str, SystemMetrics]) -> pa.Table:
    """One row per system and metric: mean and 95 % interval."""
    rows = [row for name, system in systems.items() for row in _rows(name, system)]
    return pa.Table.from_pylist(rows, SCHEMA)


def _rows(name: str, system: SystemMetrics) -> Iterator[dict[str, object]]:
    shared = {"system": name, "users": system.users}
    for metric, one in system.metrics.items():
        yield shared | {"metric": metric, "mean": one.mean, "low": one.low, "high": one.high}
    for metric, value in system.catalog.items():
        yield shared | {"metric": metric, "mean": value}
