"""The way from a log to training batches: every job goes through all requests of the same log."""

import json

import numpy as np
import pytest

from shortlist.errors import ShortlistError
from shortlist.feedback.inspection import inspect_log
from shortlist.feedback.reader import LogReader
from shortlist.feedback.record import concat
from shortlist.lab.bench.log import training
from shortlist.lab.bench.log.simulated import CUTS, write_simulated
from shortlist.lab.bench.log.training_job import JOBS, main

REQUESTS = 40


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    root = tmp_path_factory.mktemp("log")
    write_simulated(root, REQUESTS)
    return root


def test_simulated_log_has_the_cuts_of_the_funnel_and_feedback_of_all_served_items(log):
    found = inspect_log(log, check=True)
    assert (found.requests, found.dropped_requests, found.problems.counts) == (REQUESTS, 0, {})
    record = concat(list(LogReader(log).requests()))
    assert record.n_out[:, 1:].tolist() == [list(CUTS)] * REQUESTS
    assert found.events > REQUESTS * CUTS[-1]


def test_every_job_goes_through_all_requests(log):
    done = {name: job(log) for name, job in JOBS.items()}
    rows = inspect_log(log).rows
    assert {(one.requests, one.rows) for one in done.values()} == {(REQUESTS, rows)}
    assert done["join"].made == REQUESTS * CUTS[-1]
    assert 0 < done["batches"].made < done["join"].made  # one instance per positive
    assert done["labels"].made == rows


def test_result_has_rates_and_the_peak_of_every_job(log, monkeypatch):
    measured = {"seconds": 2.0, "cpu_seconds": 1.0, "peak_bytes": 3 << 20}
    runs = {name: {**vars(job(log)), **measured} for name, job in JOBS.items()}
    monkeypatch.setattr(training, "_child", lambda job, root: runs[job])
    found = training.bench_log_training(root=log)
    assert found.figures["join_requests_per_s"] == REQUESTS / 2
    assert found.figures["batches_over_scan"] == 1
    assert found.figures["peak_mib"] == 3
    assert np.isfinite(list(found.figures.values())).all()
    assert [claim.id for claim in found.claims] == ["peak_mib"]


def test_job_prints_what_it_measured(log, capsys):
    main("scan", str(log))
    measured = json.loads(capsys.readouterr().out)
    assert measured["requests"] == REQUESTS
    assert measured["seconds"] > 0


def test_failure_of_a_job_is_explained(tmp_path):
    with pytest.raises(ShortlistError, match="the job 'labels' failed: "):
        training._child("labels", tmp_path / "none")
