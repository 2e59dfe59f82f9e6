"""Metrics as Arrow tables."""

import math

import pyarrow as pa

from shortlist.evaluate.scores import SystemMetrics
from shortlist.evaluate.table import metrics_to_arrow
from shortlist.metrics.significance import Interval


def test_every_metric_of_every_system_is_a_row():
    one = SystemMetrics(7, {"recall@20": Interval(0.3, 0.2, 0.4)}, {"coverage@20": 0.5})
    other = SystemMetrics(7, {"recall@20": Interval(0.1, 0.0, 0.2)}, {})
    table = metrics_to_arrow({"pipeline": one, "popularity": other})
    assert table["system"].to_pylist() == ["pipeline", "pipeline", "popularity"]
    assert table["metric"].to_pylist() == ["recall@20", "coverage@20", "recall@20"]
    assert table["mean"].to_pylist() == [0.3, 0.5, 0.1]
    assert table["low"].to_pylist() == [0.2, None, 0.0]
    assert hasattr(table, "__arrow_c_stream__")


def test_metric_without_users_stays_nan():
    nothing = SystemMetrics(0, {"recall@20": Interval(*[math.nan] * 3)}, {})
    assert math.isnan(metrics_to_arrow({"pipeline": nothing})["mean"][0].as_py())
    assert isinstance(metrics_to_arrow({}), pa.Table)
