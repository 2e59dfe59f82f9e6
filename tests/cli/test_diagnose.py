import json
import sys

import pytest
from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.data import save_dataset
from shortlist.diagnose.tree.bundle import affordable, trees_of
from shortlist.pipeline import load_recommender
from shortlist.simulate import embedded


def run(*arguments: object):
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.fixture(scope="module")
def told(tree_bundle, data_folder):
    answer = run("diagnose", tree_bundle, "--data", data_folder, "--json")
    assert answer.exit_code == 0, answer.stderr
    return json.loads(answer.stdout)


def test_the_account_of_a_trained_tree_balances(told):
    tree = told["trees"]["tree"]
    account = tree["account"]
    assert account["wanted"] - account["found"] == account["model"] + account["search"] - account["lucky"]
    assert sum(level["search_lost"] for level in tree["levels"]) == account["search"]
    assert (tree["beam"], tree["k"]) == (15, 30)  # a beam of 8 would not hold the parents of 30 leaves
    assert len(tree["levels"]) == tree["height"] == 8
    assert tree["findings"]


def test_the_walk_is_told_in_titles_and_ids(told, world):
    walk = told["trees"]["tree"]["walk"]
    assert world.users.row(walk["user"]) >= 0
    for trail in walk["trails"]:
        assert trail["title"] == world.catalog.title(trail["item"])


def test_people_get_the_verdict_with_knobs_a_table_and_a_page(tree_bundle, data_folder, tmp_path):
    page = tmp_path / "deep" / "tree.html"
    answer = run(
        "diagnose", tree_bundle, "--data", data_folder, "--users", 20, "--on", "valid", "--html", page
    )
    assert answer.exit_code == 0, answer.stderr
    assert "tree 'tree': 200 items" in answer.stdout
    assert "1. " in answer.stdout
    assert "-> " in answer.stdout
    assert "level by level" in answer.stdout
    assert page.read_text("utf-8").startswith("<!doctype html>")


def test_another_beam_and_another_k_can_be_tried(tree_bundle, data_folder):
    answer = run("diagnose", tree_bundle, "--data", data_folder, "--beam", 200, "-k", 5, "--json")
    tree = json.loads(answer.stdout)["trees"]["tree"]
    assert (tree["beam"], tree["k"]) == (200, 5)
    assert tree["regret"] == 0
    assert tree["account"]["search"] == 0


def test_the_same_seed_gives_the_same_answer(told, tree_bundle, data_folder):
    again = json.loads(run("diagnose", tree_bundle, "--data", data_folder, "--json").stdout)
    assert {**again, "seconds": 0} == {**told, "seconds": 0}


@pytest.fixture(scope="module")
def funnel(bundle, data_folder):
    answer = run("diagnose", bundle, "--data", data_folder, "--json")
    assert answer.exit_code == 0, answer.stderr
    return json.loads(answer.stdout)


def test_any_bundle_is_diagnosed_and_its_account_is_exact(funnel):
    entered = funnel["wanted"]
    for stage in funnel["stages"]:
        assert stage["entered"] == entered == stage["survived"] + stage["lost"]
        entered = stage["survived"]
    assert entered == funnel["returned"]
    assert funnel["identity"]["exact"]
    assert funnel["trees"] == {}
    assert [one["name"] for one in funnel["stages"]] == ["pool", "seen", "prerank", "rank", "diverse"]


def test_the_first_finding_is_the_biggest_avoidable_loss(funnel):
    avoidable = {one["name"]: one["lost"] - one["no_room"] for one in funnel["stages"]}
    first = funnel["findings"][0]
    assert first["stage"] == max(avoidable, key=avoidable.get)
    assert first["share"] == max(avoidable.values()) / funnel["wanted"]
    shares = [one["share"] for one in funnel["findings"]]
    assert shares == sorted(shares, reverse=True)
    assert all(one["what"] and one["why"] and one["knob"] for one in funnel["findings"])


def test_every_part_is_in_the_answer(funnel):
    assert set(funnel["nominators"]) == {"popular", "covisit", "towers"}
    assert {one["stage"] for one in funnel["knobs"]} >= {
        "popular",
        "covisit",
        "towers",
        "prerank",
        "rank",
        "diverse",
    }
    assert set(funnel["shift"]) == set(funnel["calibration"]) == {"prerank", "rank"}
    assert funnel["segments"]
    assert funnel["coverage"]["items"] == 200
    assert funnel["verdict"]["stage"] == "rank"
    assert funnel["about"]["pipeline"].startswith("popular % 40")


def test_a_funnel_has_words_a_table_and_a_page(bundle, data_folder, tmp_path):
    page = tmp_path / "deep" / "funnel.html"
    answer = run("diagnose", bundle, "--data", data_folder, "--users", 40, "--html", page)
    assert answer.exit_code == 0, answer.stderr
    for part in ("the funnel returned", "which stage loses what: 30 users", "1. ", "-> ", "who finds it"):
        assert part in answer.stdout
    assert f"the page: {page}" in answer.stdout.replace("\n", "")
    assert "Where wanted items are lost" in page.read_text("utf-8")


def test_a_budget_adds_its_advice_to_words_values_and_page(bundle, data_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["shortlist.cli.diagnose"], "SECONDS", 1.0)
    page = tmp_path / "funnel.html"
    answer = run("diagnose", bundle, "--data", data_folder, "--budget", "0.5s", "--html", page)
    assert answer.exit_code == 0, answer.stderr
    assert "budget 500 ms:" in answer.stdout
    assert "What can be had within 500 ms?" in page.read_text("utf-8")
    told = json.loads(run("diagnose", bundle, "--data", data_folder, "--budget", "500", "--json").stdout)
    assert told["budget"]["budget_ms"] == 500


def test_one_user_gives_values_without_intervals_and_says_so(bundle, data_folder):
    told = json.loads(run("diagnose", bundle, "--data", data_folder, "--users", 1, "--json").stdout)
    assert told["users"] == 1
    assert told["recall"]["low"] is None
    assert any("too few for intervals" in one for one in told["warnings"])
    plain = run("diagnose", bundle, "--data", data_folder, "--users", 1)
    assert plain.exit_code == 0, plain.stderr
    assert "mind: 1 user is too few" in plain.stdout


def test_a_funnel_is_diagnosed_alike_twice(funnel, bundle, data_folder):
    again = json.loads(run("diagnose", bundle, "--data", data_folder, "--json").stdout)
    assert {**again, "seconds": 0} == {**funnel, "seconds": 0}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--beam", 5], "--beam asks a tree, and there is none"),
        (["-k", 5, "--beam", 5], "-k and --beam asks a tree"),
        (["--on", "train"], "--on must be test or valid, got 'train'"),
        (["--retrain"], "--retrain needs a ranker with training modes (din-ranker, "),
        (["--budget", "soon"], "--budget: expected a time above 0 such as 30ms or 0.03s, got 'soon'"),
        (["--budget", "0ms"], "--budget: expected a time above 0"),
        (["--budget", "-3ms"], "--budget: expected a time above 0"),
        (["--html", "."], "--html: expected a file to write the page to, got the folder ."),
        (["--users", 0], "--users"),
        (["--users", "many"], "--users"),
        (["--seed", -1], "--seed"),
    ],
)
def test_wrong_use_is_refused_with_what_was_expected(bundle, data_folder, options, said):
    answer = run("diagnose", bundle, "--data", data_folder, *options)
    assert answer.exit_code == 2
    assert said in answer.stderr


def test_folders_that_are_not_what_they_should_be_are_refused(bundle, data_folder, tmp_path):
    for arguments in (
        (tmp_path / "none", "--data", data_folder),
        (bundle, "--data", bundle),
        (data_folder, "--data", data_folder),
    ):
        answer = run("diagnose", *arguments)
        assert answer.exit_code == 2
        assert answer.stderr.startswith("error: ")
        assert "Traceback" not in answer.stderr


def test_trained_again_a_knob_has_its_gain_and_the_number_of_trainings_is_told(tree_bundle, data_folder):
    answer = run("diagnose", tree_bundle, "--data", data_folder, "--retrain", "--users", 60, "--json")
    assert answer.exit_code == 0, answer.stderr
    assert "--retrain: 2 trainings" in answer.stderr
    told = json.loads(answer.stdout)
    branches = [one for one in told["knobs"] if one["needs_training"]]
    assert {(one["stage"], one["label"]) for one in branches} == {("tree", "branch")}
    assert all(one["gain"]["low"] <= one["gain"]["mean"] <= one["gain"]["high"] for one in branches)


def test_without_training_again_it_says_what_could_be_trained(told):
    waiting = [one for one in told["knobs"] if one["needs_training"]]
    assert {one["setting"] for one in waiting} == {"4", "8"}
    assert all(one["gain"] is None for one in waiting)
    assert any("add --retrain" in one["knob"] for one in told["findings"])


def test_other_data_and_other_words_are_refused(tree_bundle, data_folder, tmp_path):
    save_dataset(embedded(seed=5, size="small"), tmp_path / "other", "test")
    other = run("diagnose", tree_bundle, "--data", tmp_path / "other")
    assert other.exit_code == 2
    assert "was trained on other data" in other.stderr
    word = run("diagnose", tree_bundle, "--data", data_folder, "--on", "everything")
    assert word.exit_code == 2
    assert "test or valid" in word.stderr


def test_the_report_of_a_run_has_a_section_for_the_tree(tree_bundle, data_folder, tmp_path):
    answer = run("evaluate", tree_bundle, "--data", data_folder, "--report", tmp_path / "r.html", "--json")
    assert answer.exit_code == 0, answer.stderr
    told = json.loads(answer.stdout)
    assert list(told["trees"]) == ["tree"]
    assert told["stages"]["nominators"]["tree"]["named"] == told["trees"]["tree"]["account"]["found"]
    assert "The tree &#x27;tree&#x27;" in (tmp_path / "r.html").read_text("utf-8")


def test_huge_trees_are_looked_at_through_fewer_users():
    assert affordable(2_000) == 200
    assert affordable(1_000_000) == 20
    assert affordable(10**9) == 10


def test_trees_are_found_by_their_names(tree_bundle, bundle):
    assert list(trees_of(load_recommender(tree_bundle))) == ["tree"]
    assert trees_of(load_recommender(bundle)) == {}


def test_a_tree_is_told_with_the_price_of_its_negatives_and_with_bounds(
    told, tree_bundle, data_folder, tmp_path
):
    theory = told["trees"]["tree"]["theory"]
    assert theory["sampler"] == "uniform"
    assert theory["bounds"]["headline"].startswith("All ")
    page = tmp_path / "tree.html"
    answer = run("diagnose", tree_bundle, "--data", data_folder, "--users", 20, "--html", page)
    assert "sampler: Drawn " in answer.stdout
    assert "bounds: All " in answer.stdout
    assert "what theorems promise" in page.read_text("utf-8")
