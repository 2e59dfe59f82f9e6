import json
from importlib import import_module

import torch
from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.result import claim, result, row, start


def example(data, profile, seeds, progress):
    rows = [row("a", "recall@20", [0.1, 0.2]), row("b", "recall@20", [0.3])]
    claims = [claim("a > b", "here", False, -0.15, "no", [-0.2, -0.1])]
    skipped = {"c/0": "no memory", "c/1": "no memory", "d/0": "not run"}
    return result("x", profile, seeds, start(), rows, claims, skipped=skipped)


def replace_experiments(monkeypatch, **experiments):
    monkeypatch.setattr(import_module("shortlist.cli.reproduce"), "EXPERIMENTS", experiments)


def test_a_result_is_written_as_json_page_and_drawing(tmp_path, monkeypatch):
    replace_experiments(monkeypatch, x=example)
    out = tmp_path / "results"
    answer = CliRunner().invoke(app, ["reproduce", "x", "--out", str(out), "--runs", "2", "--json"])
    assert answer.exit_code == 0, answer.output
    printed = json.loads(answer.stdout)
    assert printed == json.loads((out / "x-quick.json").read_text())
    assert printed["seeds"] == [0, 1]
    assert isinstance(printed["dirty"], bool)
    assert "| a > b | **no** |" in (out / "x-quick.md").read_text()
    assert "[x-quick](x-quick.md)" in (out / "README.md").read_text()
    assert (out / "x-quick.svg").read_text().startswith("<svg")
    text = CliRunner().invoke(app, ["reproduce", "x", "--out", str(out)]).stdout
    assert "FAILS  a > b" in text
    assert "missing: c/0 and 1 more: no memory\nmissing: d/0: not run\n" in text


def test_an_unknown_experiment_is_refused(tmp_path):
    answer = CliRunner().invoke(app, ["reproduce", "y", "--out", str(tmp_path / "results")])
    assert answer.exit_code == 2
    assert not (tmp_path / "results").exists()


def cached(data, profile, seeds, progress, cache_file=None):
    cache = AnswerCache.open(cache_file)
    values = [float(cache.get(f"{seed}", lambda: (torch.ones(1), {}))[0]) for seed in seeds]
    return result("x", profile, seeds, start(), [row("a", "recall@20", values)], [])


def test_caches_of_runs_with_other_seeds_are_merged(tmp_path, monkeypatch):
    replace_experiments(monkeypatch, x=cached)
    for seed in (0, 1):
        AnswerCache.open(tmp_path / f"{seed}").get(
            f"{seed}", lambda seed=seed: (torch.full((1,), 5.0 + seed), {})
        )
    common = ["reproduce", "x", "--out", str(tmp_path / "out"), "--runs", "2", "--json"]
    both = ["--merge", str(tmp_path / "0"), "--merge", str(tmp_path / "1")]
    answer = CliRunner().invoke(app, [*common, "--cache", str(tmp_path / "all"), *both])
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["rows"][0]["values"] == [5.0, 6.0]
    alone = CliRunner().invoke(app, [*common, *both])
    assert alone.exit_code == 2
    assert "--merge needs --cache" in alone.stderr
    missing = CliRunner().invoke(app, [*common, "--cache", str(tmp_path / "all"), "--merge", "nowhere"])
    assert missing.exit_code != 0
    assert "nowhere: expected a cache file of results" in missing.stderr


def test_a_short_experiment_refuses_a_cache(tmp_path, monkeypatch):
    replace_experiments(monkeypatch, x=example)
    answer = CliRunner().invoke(app, ["reproduce", "x", "--cache", str(tmp_path / "all")])
    assert answer.exit_code == 2
    assert "has no cache; leave --cache out" in answer.stderr


def with_cells(data, profile, seeds, progress, only=(), jobs=1):
    return result("x", profile, seeds, start(), [row(" ".join(only), "jobs", [float(jobs)])], [])


def test_cells_and_processes_are_passed_to_an_experiment_that_has_them(tmp_path, monkeypatch):
    replace_experiments(monkeypatch, x=with_cells, y=example)
    options = ["--only", "a/*", "--only", "b/*", "--jobs", "3", "--json", "--out", str(tmp_path)]
    answer = CliRunner().invoke(app, ["reproduce", "x", *options])
    assert answer.exit_code == 0, answer.output
    (found,) = json.loads(answer.stdout)["rows"]
    assert (found["method"], found["mean"]) == ("a/* b/*", 3.0)
    for option in (["--only", "a/*"], ["--jobs", "3"]):
        refused = CliRunner().invoke(app, ["reproduce", "y", *option])
        assert refused.exit_code == 2
        assert f"this experiment has no option {option[0]}; leave {option[0]} out" in refused.stderr
