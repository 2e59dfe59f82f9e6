import json
import sys

from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.lab.bench import bench_pipeline


def test_a_benchmark_answers_in_the_shape_of_results(monkeypatch):
    quick = {"pipeline": lambda seed, progress: bench_pipeline(seed, requests=3, progress=progress)}
    monkeypatch.setattr(sys.modules["shortlist.cli.bench"], "BENCHES", quick)
    told = json.loads(CliRunner().invoke(app, ["bench", "pipeline", "--json"]).stdout)
    assert {"name", "machine", "commit", "package", "seeds", "seconds", "rows", "claims"} <= set(told)
    shown = CliRunner().invoke(app, ["bench", "pipeline"])
    assert "overhead_ms" in shown.stdout


def test_what_could_not_be_measured_is_said(monkeypatch):
    told = {"claims": [], "rows": [], "skipped": {"trees": "lightgbm is not here"}}
    quick = {"ranker": lambda seed, progress: told}
    monkeypatch.setattr(sys.modules["shortlist.cli.bench"], "BENCHES", quick)
    assert "skipped trees: lightgbm is not here" in CliRunner().invoke(app, ["bench", "ranker"]).stdout


def test_an_unknown_benchmark_is_refused():
    answer = CliRunner().invoke(app, ["bench", "speed"])
    assert answer.exit_code == 2
    assert "expected one of data, index, pipeline, ranker, startup, tree, got 'speed'" in answer.stderr
