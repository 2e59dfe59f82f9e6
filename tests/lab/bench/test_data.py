import numpy as np
import pyarrow.parquet as pq
import pytest

from shortlist.errors import ShortlistError
from shortlist.lab.bench.data import _child, bench_data, write_events


def test_the_benchmark_measures_both_jobs_on_the_same_file():
    told = bench_data(events=20_000, repeats=1)
    assert told["name"] == "data"
    assert told["ratio_to_scan"] > 0
    assert told["peak_over_columns"] > 0
    assert {one["id"] for one in told["claims"]} == {"ratio_to_scan", "peak_over_columns"}


def test_the_same_seed_writes_the_same_events(tmp_path):
    for name in ("a", "b"):
        write_events(tmp_path / name, 1000, 7)
    assert pq.read_table(tmp_path / "a").equals(pq.read_table(tmp_path / "b"))
    times = pq.read_table(tmp_path / "a")["time"].to_numpy()
    assert (np.diff(times) < 0).any()  # in no particular order


def test_a_job_that_fails_is_named(tmp_path):
    with pytest.raises(ShortlistError, match="the job 'ours' failed"):
        _child("ours", tmp_path / "gone.parquet")
