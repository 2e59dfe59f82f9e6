import numpy as np
import pyarrow.parquet as pq
import pytest

from shortlist.errors import ShortlistError
from shortlist.lab.bench.data import _child, bench_data, write_events


def test_both_jobs_are_measured_on_the_same_file():
    result = bench_data(events=20_000, repeats=1)
    assert result.name == "data"
    assert result.figures["ratio_to_scan"] > 0
    assert result.figures["peak_over_columns"] > 0
    assert {claim.id for claim in result.claims} == {"ratio_to_scan", "peak_over_columns"}


def test_the_same_seed_writes_the_same_events(tmp_path):
    for name in ("a", "b"):
        write_events(tmp_path / name, 1000, 7)
    assert pq.read_table(tmp_path / "a").equals(pq.read_table(tmp_path / "b"))
    times = pq.read_table(tmp_path / "a")["time"].to_numpy()
    assert (np.diff(times) < 0).any()  # in random order


def test_a_job_that_fails_is_named(tmp_path):
    with pytest.raises(ShortlistError, match="the job 'ours' failed"):
        _child("ours", tmp_path / "gone.parquet")
