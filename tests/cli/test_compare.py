import dataclasses
import json

import pytest
from typer.testing import CliRunner

from shortlist.artifact.store import Lineage
from shortlist.cli import app
from shortlist.cli.compare import cuts_for, facts_of, named, same_split
from shortlist.data import save_dataset
from shortlist.errors import ConfigError
from shortlist.pipeline import parse_recipe
from shortlist.progress import silent
from shortlist.simulate import embedded
from shortlist.train.bundle import train_bundle

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
    train_bundle(parse_recipe(COUNTED.format(exclude_seen="true"), "counted.toml"), world, folder, 0, silent)
    return folder


@pytest.fixture(scope="module")
def repeating(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("repeating") / "repeating"
    train_bundle(
        parse_recipe(COUNTED.format(exclude_seen="false"), "repeating.toml"), world, folder, 7, silent
    )
    return folder


def run(*arguments: object):
    return CliRunner().invoke(app, [str(one) for one in arguments])


def said(answer):
    return " ".join(answer.stderr.split())


@pytest.fixture(scope="module")
def told(bundle, counted, repeating, data_folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("told")
    page, drawing = out / "deep" / "page.html", out / "drawing.svg"
    asked = ("--data", data_folder, "--report", page, "--drawing", drawing, "--json")
    answer = run("compare", bundle, counted, repeating, *asked)
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


def test_all_systems_and_yardsticks_stand_in_one_answer(told, world):
    assert list(told["systems"]) == ["bundle", "counted", "repeating"]
    assert list(told["yardsticks"]) == ["popularity", "popular in window", "last click"]
    assert told["users"] == len(world.split().test)
    for one in (*told["systems"].values(), *told["yardsticks"].values()):
        for name in ("recall@10", "recall@20", "ndcg@20", "precision@20", "f1@20", "hit_rate@20", "mrr@10"):
            assert one["metrics"][name]["low"] <= one["metrics"][name]["mean"] <= one["metrics"][name]["high"]


def test_a_system_that_is_a_yardstick_equals_it_to_the_last_bit(told):
    assert told["systems"]["counted"]["metrics"] == told["yardsticks"]["last click"]["metrics"]


def test_the_first_and_the_best_yardstick_are_met_with_corrected_p_values(told):
    pairs = [(one["system"], one["against"]) for one in told["comparisons"]]
    best = told["best yardstick"]
    assert pairs == [
        ("counted", "bundle"),
        ("repeating", "bundle"),
        *((name, best) for name in told["systems"]),
    ]
    assert all(one["p_value"] <= one["p_holm"] <= 1 for one in told["comparisons"])
    assert told["findings"][0].startswith("counted is beaten by bundle: recall@20 -")


def test_every_system_was_timed_and_says_how_often(told):
    for one in told["systems"].values():
        assert 0 < one["latency"]["median_ms"] <= one["latency"]["p95_ms"]
        assert one["latency"]["requests"] > 0
        assert one["latency"]["batch"] == 64
        assert one["latency"]["per_second"] > 0


def test_warnings_tell_of_trainings_seeds_and_seen_items(told):
    warnings = " | ".join(told["warnings"])
    assert "were trained with different seeds: bundle 0, counted 0, repeating 7" in warnings
    assert "bundle: its stage 'prerank' did not converge" in warnings
    assert told["protocol"]["protocol"].startswith("half-history: ")
    assert told["protocol"]["seen items"] == "bundle: left out; counted: left out; repeating: can come back"


def test_page_and_drawing_are_written(told):
    with open(told["report"]) as page, open(told["drawing"]) as drawing:
        assert page.read().startswith("<!doctype html>")
        assert drawing.read().startswith("<svg")


def test_people_get_tables_rules_and_warnings(bundle, data_folder):
    answer = run("compare", bundle, "--data", data_folder, "--on", "valid", "--metric", "ndcg@5")
    assert answer.exit_code == 0, answer.output
    text = " ".join(answer.stdout.split())
    for words in (
        "the same for all",
        "user by user: ndcg@5",
        "systems in turns",
        "ties: ",
        "warning: bundle",
    ):
        assert words in text


def test_the_same_seed_gives_the_same_numbers(told, bundle, counted, repeating, data_folder):
    again = json.loads(run("compare", bundle, counted, repeating, "--data", data_folder, "--json").stdout)
    for name in ("metric", "comparisons", "yardsticks", "findings", "warnings", "protocol"):
        assert again[name] == told[name]


def test_the_same_bundle_twice_is_told_and_no_difference(bundle, data_folder):
    answer = json.loads(run("compare", bundle, bundle, "--data", data_folder, "--json").stdout)
    assert len(answer["systems"]) == 2
    assert answer["comparisons"][0]["difference"] == 0
    assert any("are the same model" in one for one in answer["warnings"])


def test_another_split_is_refused_with_what_differs(bundle, data_folder, world, tmp_path):
    recipe = parse_recipe(COUNTED.format(exclude_seen="true"), "counted.toml")
    train_bundle(recipe, world, tmp_path / "late", 0, silent, protocol="global-time")
    answer = run("compare", bundle, tmp_path / "late", "--data", data_folder)
    assert answer.exit_code == 2
    assert "late: was held out by another split than" in said(answer)
    assert "protocol 'global-time' where it has 'half-history'; train both" in said(answer)


def test_other_data_missing_folders_and_other_artifacts_are_refused(bundle, data_folder, tmp_path):
    save_dataset(embedded(seed=5, size="small"), tmp_path / "other", "test")
    assert "was trained on other data" in said(run("compare", bundle, "--data", tmp_path / "other"))
    gone = run("compare", bundle, tmp_path / "gone", "--data", data_folder)
    assert gone.exit_code == 2
    assert "gone/manifest.json: not found" in said(gone)
    wrong = run("compare", bundle, data_folder, "--data", data_folder)
    assert wrong.exit_code == 2
    assert "expected kind 'recommender', got 'dataset'" in said(wrong)
    assert run("compare", "--data", data_folder).exit_code == 2


def test_a_part_that_does_not_exist_is_refused(bundle, data_folder):
    answer = run("compare", bundle, "--data", data_folder, "--on", "everything")
    assert answer.exit_code == 2
    assert "test or valid" in said(answer)


@pytest.mark.parametrize("metric", ["luck@20", "recall", "recall@", "recall@0", "recall@x", "novelty@20"])
def test_a_metric_that_does_not_exist_is_refused_before_the_work(metric):
    with pytest.raises(ConfigError, match="like recall@20; got"):
        cuts_for(metric)


def test_the_cut_of_the_metric_is_measured_beside_the_usual_ones():
    assert cuts_for("recall@20") == (10, 20)
    assert cuts_for("ndcg@50") == (10, 20, 50)


def test_names_tell_folders_apart(tmp_path):
    asked = [tmp_path / "a" / "bundle", tmp_path / "b" / "bundle", tmp_path / "tree", tmp_path / "popularity"]
    assert list(named(asked)) == ["a/bundle", "b/bundle", "tree", "popularity (2)"]
    assert list(named([tmp_path / "tree"] * 3)) == [
        f"{tmp_path.name}/tree",
        f"{tmp_path.name}/tree (2)",
        f"{tmp_path.name}/tree (3)",
    ]


def test_a_bundle_that_says_nothing_of_its_training_is_taken_as_it_is(recommender):
    about = {name: value for name, value in recommender.about.items() if name != "training"}
    old = dataclasses.replace(recommender, about=about)
    assert facts_of(old, Lineage(seed=3, package="0.1"))["training"] == {}


def test_another_setting_of_the_same_protocol_is_refused_too(bundle, recommender):
    split = {**recommender.about["split"], "seed": 9}
    other = dataclasses.replace(recommender, about={**recommender.about, "split": split})
    systems = {"one": (recommender, Lineage()), "two": (other, Lineage())}
    with pytest.raises(ConfigError, match="seed 9 where it has 0; train both"):
        same_split([bundle, bundle / "two"], systems)
