import json

import pytest
from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.cli.trees import affordable, trees_of
from shortlist.data import save_dataset
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


def test_a_bundle_without_a_tree_is_told_so(bundle, data_folder):
    answer = run("diagnose", bundle, "--data", data_folder)
    assert answer.exit_code == 2
    assert "has no tree to diagnose" in answer.stderr
    assert "shortlist evaluate" in answer.stderr


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
