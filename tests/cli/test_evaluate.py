import json

from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.data import save_dataset
from shortlist.simulate import embedded


def run(*arguments: object):
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_json_has_metrics_with_intervals_losses_and_the_report(bundle, data_folder, tmp_path):
    page = tmp_path / "deep" / "report.html"
    answer = run("evaluate", bundle, "--data", data_folder, "--report", page, "--json")
    assert answer.exit_code == 0, answer.stderr
    found = json.loads(answer.stdout)
    recall = found["metrics"]["pipeline"]["metrics"]["recall@20"]
    assert recall["low"] <= recall["mean"] <= recall["high"]
    assert found["differences"]["popularity"]["recall@20"]["low"] > 0
    assert found["losses"]["relevant"] > found["losses"]["returned"] > 0
    assert found["report"] == str(page)
    assert page.read_text().startswith("<!doctype html>")
    assert [path.name for path in page.parent.iterdir()] == ["report.html"]


def test_terminal_shows_tables_protocol_and_warnings(bundle, data_folder):
    answer = run("evaluate", bundle, "--data", data_folder, "--on", "valid")
    assert answer.exit_code == 0
    assert "which stage lost what" in answer.stdout
    text = " ".join(answer.stdout.split())
    assert ", the best baseline (" in text
    for rule in ("protocol: half-history: ", "seed 0", "ties: ", "duplicates: ", "seen items: left out"):
        assert rule in text


def test_other_data_and_other_parts_are_refused(bundle, tmp_path, data_folder):
    save_dataset(embedded(seed=5, size="small"), tmp_path / "other", "test")
    other = run("evaluate", bundle, "--data", tmp_path / "other")
    assert other.exit_code == 2
    assert "was trained on other data" in other.stderr
    part = run("evaluate", bundle, "--data", data_folder, "--on", "everything")
    assert part.exit_code == 2
    assert "test or valid" in part.stderr


def test_pipeline_with_empty_slates_is_reported(data_folder, tmp_path, world):
    top = world.items.id(int(world.split().train.popularity.argmax()))
    (tmp_path / "empty.toml").write_text(
        'pipeline = "popular % 1 >> available % 1"\n[stages.popular]\ntype = "popular"\n'
        f'[stages.available]\ntype = "available"\n[stages.available.train]\ndeny = ["{top}"]\n'
    )
    made = run("train", tmp_path / "empty.toml", "--data", data_folder, "--out", tmp_path / "bundle")
    assert made.exit_code == 0, made.output
    answer = run("evaluate", tmp_path / "bundle", "--data", data_folder, "--report", tmp_path / "r.html")
    assert answer.exit_code == 0, answer.output
    assert (tmp_path / "r.html").is_file()
