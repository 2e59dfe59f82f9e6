import json
import sys

from typer.testing import CliRunner

from shortlist.artifact.store import load
from shortlist.cli import app
from shortlist.pipeline import read_recipe
from tests.conftest import TINY


def test_from_nothing_to_an_explained_slate(tmp_path, monkeypatch):
    recipe = tmp_path / "tiny.toml"
    recipe.write_text(TINY)
    monkeypatch.setattr(
        sys.modules["shortlist.cli.quickstart"], "shipped_recipe", lambda _: read_recipe(recipe)
    )
    out = tmp_path / "run"
    shown = CliRunner().invoke(app, ["quickstart", "--out", str(out), "--size", "small"])
    assert shown.exit_code == 0, shown.output
    assert "which stage lost what" in shown.stdout
    assert f" explain {out / 'bundle'}" in shown.stdout
    version = load(out / "bundle").version

    again = CliRunner().invoke(app, ["quickstart", "--out", str(out), "--size", "small", "--json"])
    told = json.loads(again.stdout)
    assert set(told) == {"seconds", "metrics", "stages", "report"}
    ours, popular = (told["metrics"][who]["recall@20"] for who in ("pipeline", "popularity"))
    assert ours["mean"] > popular["mean"]
    assert all(stage["entered"] == stage["survived"] + stage["lost"] for stage in told["stages"])
    assert load(out / "bundle").version == version  # the same seed gives the same bytes
    assert (out / "report.html").is_file()


def test_a_size_nobody_knows_is_refused_and_nothing_is_written(tmp_path):
    answer = CliRunner().invoke(app, ["quickstart", "--out", str(tmp_path / "run"), "--size", "huge"])
    assert answer.exit_code == 2
    assert not (tmp_path / "run").exists()
