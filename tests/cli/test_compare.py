import json

import pytest
from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.data import save_dataset
from shortlist.pipeline import parse_recipe
from shortlist.simulate import embedded
from shortlist.train import train

COUNTED = """
name = "counted"
pipeline = "last % 60"
[stages.last]
type = "last-click"
exclude_seen = {exclude_seen}
"""


@pytest.fixture(scope="module")
def counted(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("counted") / "counted"
    train(parse_recipe(COUNTED.format(exclude_seen="true"), "counted.toml"), world, folder)
    return folder


@pytest.fixture(scope="module")
def repeating(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("repeating") / "repeating"
    train(parse_recipe(COUNTED.format(exclude_seen="false"), "repeating.toml"), world, folder, seed=7)
    return folder


def run(*arguments: object):
    return CliRunner().invoke(app, [str(one) for one in arguments])


def stderr(answer):
    return " ".join(answer.stderr.split())


@pytest.fixture(scope="module")
def found(bundle, counted, repeating, data_folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("compared")
    page, drawing = out / "deep" / "page.html", out / "drawing.svg"
    options = ("--data", data_folder, "--report", page, "--drawing", drawing, "--json")
    answer = run("compare", bundle, counted, repeating, *options)
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


def metrics(found):
    return {name: one["scores"]["metrics"] for name, one in found["systems"].items()} | {
        name: one["metrics"] for name, one in found["baselines"].items()
    }


def test_json_has_all_systems_and_baselines(found, world):
    assert list(found["systems"]) == ["bundle", "counted", "repeating"]
    counted = ["popularity", "popular in window", "last click"]
    assert list(found["baselines"]) == [*counted, "ease", "item-knn"]
    assert found["users"] == len(world.split().test)
    for own in metrics(found).values():
        for name in ("recall@10", "recall@20", "ndcg@20", "precision@20", "f1@20", "hit_rate@20", "mrr@10"):
            assert own[name]["low"] <= own[name]["mean"] <= own[name]["high"]


def test_json_has_t_tests_of_every_pair(found):
    for pair in found["pairs"]:
        own = pair["t_tests"]
        assert own["paired"]["difference"] == pytest.approx(pair["test"]["difference"])
        assert own["paired"]["low"] <= own["paired"]["difference"] <= own["paired"]["high"]
        assert set(own) == {"paired", "welch", "paired_holm", "welch_holm"}


def test_system_that_is_a_baseline_has_exactly_its_metrics(found):
    assert metrics(found)["counted"] == metrics(found)["last click"]


def test_pairs_are_against_the_first_and_the_best_baseline_with_adjusted_p_values(found):
    pairs = [(pair["system"], pair["against"]) for pair in found["pairs"]]
    best = found["best_baseline"]
    assert pairs == [
        ("counted", "bundle"),
        ("repeating", "bundle"),
        *((name, best) for name in found["systems"]),
    ]
    assert all(pair["test"]["p_value"] <= pair["p_holm"] <= 1 for pair in found["pairs"])
    assert found["findings"][0].startswith("counted is beaten by bundle: recall@20 -")


def test_every_system_has_a_latency(found):
    for system in found["systems"].values():
        assert 0 < system["latency"]["median_ms"] <= system["latency"]["p95_ms"]
        assert system["latency"]["requests"] > 0
        assert system["latency"]["batch"] == 64
        assert system["latency"]["per_second"] > 0


def test_warnings_name_training_and_seeds_and_the_protocol_names_seen_items(found):
    warnings = " | ".join(found["warnings"])
    assert "were trained with different seeds: bundle 0, counted 0, repeating 7" in warnings
    assert "bundle: stage 'prerank' did not converge" in warnings
    assert found["protocol"]["split"] == "half-history"
    seen = found["protocol"]["seen_items"]
    assert seen == "bundle: left out; counted: left out; repeating: can be returned"


def test_page_and_drawing_are_written(found):
    with open(found["report"]) as page, open(found["drawing"]) as drawing:
        assert page.read().startswith("<!doctype html>")
        assert drawing.read().startswith("<svg")


def test_terminal_shows_tables_protocol_and_warnings(bundle, data_folder):
    answer = run("compare", bundle, "--data", data_folder, "--on", "valid", "--metric", "ndcg@5")
    assert answer.exit_code == 0, answer.output
    text = " ".join(answer.stdout.split())
    for words in (
        "the same for all",
        "paired tests: ndcg@5",
        "t-tests: ndcg@5, Holm's p-values",
        "systems in alternation",
        "ties: ",
        "warning: bundle",
    ):
        assert words in text


def test_same_seed_gives_the_same_numbers(found, bundle, counted, repeating, data_folder):
    again = json.loads(run("compare", bundle, counted, repeating, "--data", data_folder, "--json").stdout)
    for name in ("metric", "pairs", "baselines", "findings", "warnings", "protocol"):
        assert again[name] == found[name]


def test_bundle_against_itself_is_warned_of_and_has_no_difference(bundle, data_folder):
    answer = json.loads(run("compare", bundle, bundle, "--data", data_folder, "--json").stdout)
    assert len(answer["systems"]) == 2
    assert answer["pairs"][0]["test"]["difference"] == 0
    assert any("are the same model" in text for text in answer["warnings"])


def test_another_split_is_refused_with_the_difference(bundle, data_folder, world, tmp_path):
    recipe = parse_recipe(COUNTED.format(exclude_seen="true"), "counted.toml")
    train(recipe, world, tmp_path / "late", protocol="global-time")
    answer = run("compare", bundle, tmp_path / "late", "--data", data_folder)
    assert answer.exit_code == 2
    assert "late: was trained with another split than bundle" in stderr(answer)
    assert "protocol 'global-time' instead of 'half-history'; train both" in stderr(answer)


def test_other_data_missing_folders_and_other_artifacts_are_refused(bundle, data_folder, tmp_path):
    save_dataset(embedded(seed=5, size="small"), tmp_path / "other", "test")
    assert "was trained on other data" in stderr(run("compare", bundle, "--data", tmp_path / "other"))
    gone = run("compare", bundle, tmp_path / "gone", "--data", data_folder)
    assert gone.exit_code == 2
    assert "gone/manifest.json: not found" in stderr(gone)
    wrong = run("compare", bundle, data_folder, "--data", data_folder)
    assert wrong.exit_code == 2
    assert "expected kind 'recommender', got 'dataset'" in stderr(wrong)
    assert run("compare", "--data", data_folder).exit_code == 2


def test_other_parts_and_other_metrics_are_refused(bundle, data_folder):
    answer = run("compare", bundle, "--data", data_folder, "--on", "everything")
    assert answer.exit_code == 2
    assert "test or valid" in stderr(answer)
    answer = run("compare", bundle, "--data", data_folder, "--metric", "luck@20")
    assert answer.exit_code == 2
    assert "like recall@20; got 'luck@20'" in stderr(answer)
