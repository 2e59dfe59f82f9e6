import json

from typer.testing import CliRunner

from shortlist.artifact.store import load
from shortlist.cli import app
from tests.conftest import TINY


def test_quickstart_trains_evaluates_and_explains(tmp_path, monkeypatch):
    recipe = tmp_path / "tiny.toml"
    recipe.write_text(TINY)
    monkeypatch.setattr("shortlist.cli.quickstart.RECIPE", recipe)
    out = tmp_path / "run"
    shown = CliRunner().invoke(app, ["quickstart", "--out", str(out), "--size", "small"])
    assert shown.exit_code == 0, shown.output
    assert "which stage lost what" in shown.stdout
    assert f" explain {out / 'bundle'}" in shown.stdout
    version = load(out / "bundle").version

    again = CliRunner().invoke(app, ["quickstart", "--out", str(out), "--size", "small", "--json"])
    printed = json.loads(again.stdout)
    assert set(printed) == {"seconds", "evaluation", "report"}
    assert load(out / "bundle").version == version  # the same seed gives the same bytes
    assert (out / "report.html").is_file()


def test_unknown_size_is_refused_and_nothing_is_written(tmp_path):
    answer = CliRunner().invoke(app, ["quickstart", "--out", str(tmp_path / "run"), "--size", "huge"])
    assert answer.exit_code == 2
    assert not (tmp_path / "run").exists()
