import json
from importlib import import_module

from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.lab.bench import bench_pipeline
from shortlist.lab.processor import Processor
from shortlist.lab.result import result, start

bench = import_module("shortlist.cli.bench")


def test_a_benchmark_prints_a_result(monkeypatch):
    quick = {"pipeline": lambda seed, progress: bench_pipeline(seed, requests=3, progress=progress)}
    monkeypatch.setattr(bench, "BENCHES", quick)
    printed = json.loads(CliRunner().invoke(app, ["bench", "pipeline", "--json"]).stdout)
    assert {"name", "machine", "commit", "package", "seeds", "seconds", "rows", "claims"} <= set(printed)
    assert printed["overhead_ms"] > 0
    assert set(printed["processor"]) == {"name", "cores", "threads"}
    assert printed["processor"]["threads"] == 1
    table = CliRunner().invoke(app, ["bench", "pipeline"]).stdout
    assert "overhead_ms" in table
    assert table.startswith(f"processor: {Processor(**printed['processor'])}; ")


def test_skipped_parts_are_printed_with_the_reason(monkeypatch):
    skipped = result("ranker", "quick", [0], start(), [], [], skipped={"trees": "lightgbm is missing"})
    monkeypatch.setattr(bench, "BENCHES", {"ranker": lambda seed, progress: skipped})
    assert "skipped trees: lightgbm is missing" in CliRunner().invoke(app, ["bench", "ranker"]).stdout


def test_an_unknown_benchmark_is_refused():
    answer = CliRunner().invoke(app, ["bench", "speed"])
    assert answer.exit_code == 2
    names = (
        "bandit, batch, ccf, data, evaluate, index, log, log-training, pipeline, ranker, serve, "
        "softmax, startup, state, train, tree"
    )
    assert f"expected one of {names}, got 'speed'" in answer.stderr


def test_number_of_requests_of_another_benchmark_is_refused():
    answer = CliRunner().invoke(app, ["bench", "index", "--requests", "100"])
    assert answer.exit_code == 2
    assert "--requests is an option of log and log-training, got it for index" in answer.stderr


def test_budget_of_another_benchmark_is_refused():
    answer = CliRunner().invoke(app, ["bench", "index", "--minutes", "1"])
    assert answer.exit_code == 2
    assert "--minutes is an option of `shortlist bench train`" in answer.stderr
