import pytest

from shortlist.errors import ShortlistError
from shortlist.lab.bench import train
from shortlist.lab.bench.train_job import job


def test_benchmark_compares_a_training_with_its_budget_and_its_parts(monkeypatch):
    monkeypatch.setattr(train, "_child", job)
    made = train.bench_train(minutes=0.05, size="small")
    parts = sum(one.mean for one in made.rows if one.metric == "seconds" and one.method != "auto")
    whole = next(one.mean for one in made.rows if (one.method, one.metric) == ("auto", "seconds"))
    assert made.figures["auto_over_parts"] == pytest.approx(whole / parts)
    assert made.figures["seconds_over_budget"] == pytest.approx(whole / 3)
    assert made.figures["peak_mib"] > 0
    assert "2 cores" in made.profile


def test_failed_job_is_an_error():
    with pytest.raises(ShortlistError, match="bench train: the job failed"):
        train.bench_train(size="huge")
