import subprocess

import pytest

from shortlist.errors import ShortlistError
from shortlist.lab.bench.ccf import bench, job


def test_benchmark_reports_speed_and_memory(monkeypatch):
    seconds = {"ours": [0.01, 0.02], "adagrad": [0.1, 0.1], "adagrad-fused": [0.05, 0.05],
               "adam": [0.2, 0.2], "adam-fused": [0.1, 0.1]}  # fmt: skip
    measured = {
        "compare": {"seconds": seconds, "difference": 1e-7},
        "epoch": {"seconds": 10.0, "peak_bytes": 3 << 20, "log_peak_bytes": 2 << 20},
    }
    monkeypatch.setattr(bench, "_child", lambda name, size, seed: measured[name])
    made = bench.bench_ccf(size="quick")
    assert made.figures["speedup"] == pytest.approx(7.5)  # the median of 10 and 5
    assert made.figures["speedup_over_adam"] == pytest.approx(15)
    assert made.figures["speedup_over_adagrad_fused"] == pytest.approx(3.75)
    assert made.figures["examples_per_s"] == pytest.approx(128 / 0.015)
    assert made.figures["plain_examples_per_s"] == pytest.approx(1280)
    assert made.figures["epoch_examples_per_s"] == 500
    assert made.figures["peak_mib"] == 3
    assert [(one.id, one.holds) for one in made.claims] == [("speedup", True)]
    assert "5,000 events" in made.profile


def test_jobs_run_in_this_process_too(monkeypatch):
    jobs = {"compare": job.compare, "epoch": job.epoch}
    monkeypatch.setattr(bench, "_child", lambda name, size, seed: jobs[name](size, seed))
    made = bench.bench_ccf(size="quick")
    assert made.figures["speedup"] > 0
    assert {one.method for one in made.rows} >= {"ours", "adagrad", "adam", "epoch", "log"}


def test_failed_job_is_an_error(monkeypatch):
    failed = subprocess.CompletedProcess([], 1, "", "KeyError: 'huge'")
    monkeypatch.setattr(bench.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(ShortlistError, match="bench ccf: the job failed: KeyError"):
        bench.bench_ccf(size="huge")
