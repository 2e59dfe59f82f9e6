import json

import pytest

from shortlist.errors import ShortlistError
from shortlist.lab.bench.ccf import job
from shortlist.lab.bench.ccf.plain import OPTIMIZERS


def test_jobs_print_their_measurements(capsys):
    job.main("epoch", "quick", "1")
    measured = json.loads(capsys.readouterr().out)
    assert measured["seconds"] > 0
    assert measured["peak_bytes"] >= measured["log_peak_bytes"] >= 0
    job.main("compare", "quick", "1")
    measured = json.loads(capsys.readouterr().out)
    assert set(measured["seconds"]) == {"ours", *OPTIMIZERS}
    assert all(len(times) == 2 for times in measured["seconds"].values())
    assert measured["difference"] < 1e-4


def test_different_gradients_are_not_compared(monkeypatch):
    monkeypatch.setattr(job, "difference", lambda *_: float("nan"))
    with pytest.raises(
        ShortlistError, match="bench ccf: gradients of ours and of the plain loop differ by nan"
    ):
        job.compare("quick", 0)
