import json
import sys

import torch
from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.lab.experiments.cache import Kept
from shortlist.lab.result import claim, result, row, start


def fake(data, profile, seeds, progress):
    rows = [row("a", "recall@20", [0.1, 0.2]), row("b", "recall@20", [0.3])]
    return result(
        "x", profile, seeds, start(), rows, [claim("a > b", "here", False, -0.15, "no", [-0.2, -0.1])]
    )


def test_a_result_is_written_as_data_page_and_drawing(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["shortlist.cli.reproduce"], "EXPERIMENTS", {"x": fake})
    out = tmp_path / "results"
    answer = CliRunner().invoke(app, ["reproduce", "x", "--out", str(out), "--runs", "2", "--json"])
    assert answer.exit_code == 0, answer.output
    told = json.loads(answer.stdout)
    assert told == json.loads((out / "x-quick.json").read_text())
    assert told["seeds"] == [0, 1]
    assert "| a > b | **no** |" in (out / "x-quick.md").read_text()
    assert "[x-quick](x-quick.md)" in (out / "README.md").read_text()
    assert (out / "x-quick.svg").read_text().startswith("<svg")
    assert "FAILS  a > b" in CliRunner().invoke(app, ["reproduce", "x", "--out", str(out)]).stdout


def test_an_unknown_experiment_is_refused(tmp_path):
    answer = CliRunner().invoke(app, ["reproduce", "y", "--out", str(tmp_path / "results")])
    assert answer.exit_code == 2
    assert not (tmp_path / "results").exists()


def kept(data, profile, seeds, progress, keep=None):
    values = [float(Kept.at(keep).get(f"{seed}", lambda: (torch.ones(1), {}))[0]) for seed in seeds]
    return result("x", profile, seeds, start(), [row("a", "recall@20", values)], [])


def test_answers_of_runs_with_other_seeds_are_taken_in(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["shortlist.cli.reproduce"], "EXPERIMENTS", {"x": kept})
    for seed in (0, 1):
        Kept.at(tmp_path / f"{seed}").get(f"{seed}", lambda seed=seed: (torch.full((1,), 5.0 + seed), {}))
    common = ["reproduce", "x", "--out", str(tmp_path / "out"), "--runs", "2", "--json"]
    both = ["--take", str(tmp_path / "0"), "--take", str(tmp_path / "1")]
    answer = CliRunner().invoke(app, [*common, "--keep", str(tmp_path / "all"), *both])
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["rows"][0]["values"] == [5.0, 6.0]
    alone = CliRunner().invoke(app, [*common, *both])
    assert alone.exit_code == 2
    assert "--take needs --keep" in alone.stderr
    missing = CliRunner().invoke(app, [*common, "--keep", str(tmp_path / "all"), "--take", "nowhere"])
    assert missing.exit_code != 0
    assert "nowhere: expected a file of answers" in missing.stderr
