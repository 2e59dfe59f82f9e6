import json
import re
from collections import Counter

import pytest
from typer.testing import CliRunner

from shortlist.artifact import store
from shortlist.cli import app
from shortlist.data import save_dataset
from shortlist.simulate import embedded


def run(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def as_json(*arguments: object):
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def with_tree(tree_bundle, data_folder):
    return as_json("diagnose", tree_bundle, "--data", data_folder)


@pytest.fixture(scope="module")
def funnel(bundle, data_folder):
    return as_json("diagnose", bundle, "--data", data_folder)


def test_losses_of_a_tree_balance(with_tree):
    tree = with_tree["trees"]["tree"]
    losses = tree["losses"]
    assert (
        losses["relevant"] - losses["returned"] == losses["scorer"] + losses["beam"] - losses["only_by_beam"]
    )
    assert sum(level["beam_lost"] for level in tree["levels"]) == losses["beam"]
    assert (tree["beam"], tree["k"]) == (15, 30)  # a beam of 8 would not hold the parents of 30 leaves
    assert len(tree["levels"]) == tree["height"] == 8
    assert tree["findings"]


def test_terminal_shows_summary_knobs_levels_and_writes_a_page(tree_bundle, data_folder, tmp_path):
    page = tmp_path / "deep" / "tree.html"
    result = run(
        "diagnose", tree_bundle, "--data", data_folder, "--users", 20, "--on", "test", "--html", page
    )
    assert result.exit_code == 0, result.stderr
    for part in ("20 test users", "tree 'tree': 200 items", "1. ", "-> ", "level by level"):
        assert part in result.stdout
    assert page.read_text("utf-8").startswith("<!doctype html>")  # --html is the same as --report


def test_trees_can_be_asked_with_another_beam_and_k(tree_bundle, data_folder):
    tree = as_json("diagnose", tree_bundle, "--data", data_folder, "--beam", 200, "-k", 5)["trees"]["tree"]
    assert (tree["beam"], tree["k"]) == (200, 5)
    assert tree["regret"] == 0
    assert tree["losses"]["beam"] == 0


def test_same_seed_gives_the_same_json(with_tree, tree_bundle, funnel, bundle, data_folder):
    for found, folder in ((with_tree, tree_bundle), (funnel, bundle)):
        again = as_json("diagnose", folder, "--data", data_folder)
        assert without_times(again) == without_times(found)
        assert set(again["nomination"]["nominators"]) == set(again["nominators"])


def without_times(found):
    """Everything but measured times, also where sentences name them."""
    kept = json.loads(re.sub(r"[\d.]+ ms\b", "? ms", json.dumps({**found, "seconds": None})))
    for one in kept["nomination"]["nominators"].values():
        assert set(one.pop("cost")) == {"ms", "call_ms", "slot_ms"}
    for name in ("split", "same_slots"):
        kept["nomination"][name].pop("ms", None)
    return kept


def test_each_file_of_the_bundle_is_verified_once(bundle, data_folder, monkeypatch):
    counts, original = Counter(), store._hash
    monkeypatch.setattr(store, "_hash", lambda path: counts.update([path]) or original(path))
    as_json("diagnose", bundle, "--data", data_folder, "--users", 5)
    own = {path: count for path, count in counts.items() if bundle in path.parents}
    assert len(own) >= 5
    assert set(own.values()) == {1}


def test_json_says_which_users_were_measured(funnel):
    assert funnel["sample"]["on"] == "valid"
    assert funnel["sample"]["stages"] == funnel["users"] == funnel["sample"]["held_out"]
    assert funnel["sample"]["seed"] == 0


def test_account_of_any_bundle_is_exact(funnel):
    entered = funnel["relevant"]
    for stage in funnel["stages"]:
        assert stage["entered"] == entered == stage["survived"] + stage["lost"]
        entered = stage["survived"]
    assert entered == funnel["returned"]
    assert funnel["balance"]["exact"]
    assert funnel["trees"] == {}
    assert [stage["name"] for stage in funnel["stages"]] == ["pool", "seen", "prerank", "rank", "diverse"]


def test_first_finding_is_the_stage_that_decides_most_losses(funnel):
    decided = {stage["name"]: stage["avoidable"] - stage["by_order"] for stage in funnel["stages"]}
    for stage in funnel["stages"]:
        decided[stage["ordered_by"]] += stage["by_order"]
    first = funnel["findings"][0]
    assert first["stage"] == max(decided, key=decided.get)
    assert first["share"] == max(decided.values()) / funnel["relevant"]
    shares = [finding["share"] for finding in funnel["findings"]]
    assert shares == sorted(shares, reverse=True)
    assert all(finding["what"] and finding["why"] and finding["knob"] for finding in funnel["findings"])


def test_json_has_every_part(funnel):
    assert set(funnel["nominators"]) == {"popular", "covisit", "towers"}
    stages = {"popular", "covisit", "towers", "prerank", "rank", "diverse"}
    assert {knob["stage"] for knob in funnel["knobs"]} >= stages
    assert set(funnel["shift"]) == set(funnel["calibration"]) == {"prerank", "rank"}
    assert funnel["segments"]
    assert funnel["coverage"]["items"] == 200
    assert funnel["verdict"]["stage"] == "rank"
    assert funnel["pipeline"].startswith("popular % 40")
    assert funnel["about"]["training"]["rank"]["epochs"] >= 1


def test_no_bounds_are_printed(with_tree, tree_bundle, data_folder):
    assert "bound" not in json.dumps(with_tree).lower().replace("tv_lower_bound", "")
    assert "bounds:" not in run("diagnose", tree_bundle, "--data", data_folder, "--users", 20).stdout


def test_funnel_has_summary_table_and_page(bundle, data_folder, tmp_path):
    page = tmp_path / "deep" / "funnel.html"
    result = run("diagnose", bundle, "--data", data_folder, "--users", 40, "--report", page)
    assert result.exit_code == 0, result.stderr
    for part in ("recall@20 is", "which stage loses what: 30 validation users", "1. ", "-> ", "nominators"):
        assert part in result.stdout
    assert f"report: {page}" in result.stdout.replace("\n", "")
    assert "Where relevant items are lost" in page.read_text("utf-8")


def test_budget_is_in_terminal_page_and_json(bundle, data_folder, tmp_path, monkeypatch):
    monkeypatch.setattr("shortlist.diagnose.bundle.SECONDS", 1.0)
    page = tmp_path / "funnel.html"
    result = run("diagnose", bundle, "--data", data_folder, "--budget", "0.5s", "--report", page)
    assert result.exit_code == 0, result.stderr
    assert "budget 500 ms:" in result.stdout
    assert "The best sizes within 500 ms" in page.read_text("utf-8")
    assert as_json("diagnose", bundle, "--data", data_folder, "--budget", "500")["budget"]["budget_ms"] == 500


def test_one_user_has_values_without_intervals_and_a_warning(bundle, data_folder):
    found = as_json("diagnose", bundle, "--data", data_folder, "--users", 1)
    assert found["users"] == 1
    assert found["recall"]["low"] is None
    assert any("too few for intervals" in text for text in found["warnings"])
    plain = run("diagnose", bundle, "--data", data_folder, "--users", 1)
    assert plain.exit_code == 0, plain.stderr
    assert "warning: 1 user is too few" in plain.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--beam", 5], "beam can be set for trees only"),
        (["-k", 5, "--beam", 5], "k and beam can be set for trees only"),
        (["--on", "train"], "--on: expected test or valid, got 'train'"),
        (["--budget", "soon"], "budget: expected a time above 0 such as 30ms or 0.03s, got 'soon'"),
        (["--budget", "0ms"], "budget: expected a time above 0"),
        (["--budget", "-3ms"], "budget: expected a time above 0"),
        (["--report", "."], "--report: expected a file to write to, got the folder ."),
        (
            ["--set", "stages.rank.train.epochs=3"],
            "--set changes the recipe, which needs training; add --retrain",
        ),
        (["--retrain", "--set", "stages.rnk.train.epochs=3"], "no stage 'rnk'"),
        (["--retrain", "--minutes", -1], "--minutes"),
        (["--users", 0], "--users"),
        (["--users", "many"], "--users"),
        (["--seed", -1], "--seed"),
    ],
)
def test_wrong_options_are_refused_with_what_was_expected(bundle, data_folder, options, message):
    result = run("diagnose", bundle, "--data", data_folder, *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_wrong_folders_are_refused(bundle, data_folder, tmp_path):
    for arguments in (
        (tmp_path / "none", "--data", data_folder),
        (bundle, "--data", bundle),
        (data_folder, "--data", data_folder),
    ):
        result = run("diagnose", *arguments)
        assert result.exit_code == 2
        assert result.stderr.startswith("error: ")
        assert "Traceback" not in result.stderr


def test_retraining_measures_gains_and_announces_the_number_of_trainings(tree_bundle, data_folder):
    change = "stages.tree.train.branch=4"
    given = ("diagnose", tree_bundle, "--data", data_folder, "--retrain", "--users", 60)
    result = run(*given, "--set", change, "--json")
    assert result.exit_code == 0, result.stderr
    assert "--retrain: the recipe as it is, then 1 change as far as 10 minutes go" in result.stderr
    (knob,) = (knob for knob in json.loads(result.stdout)["knobs"] if knob["needs_training"])
    assert (knob["stage"], knob["setting"], knob["options"]) == ("tree", change, f"--set {change}")
    assert knob["gain"]["low"] <= knob["gain"]["mean"] <= knob["gain"]["high"]


def test_trainings_without_time_are_reported(tree_bundle, data_folder):
    result = run("diagnose", tree_bundle, "--data", data_folder, "--retrain", "--minutes", 0, "--users", 30)
    assert result.exit_code == 0, result.stderr
    assert "changes were not trained within --minutes 0" in " ".join(result.stdout.split())


def test_without_retraining_the_findings_say_what_could_be_trained(with_tree):
    waiting = [knob for knob in with_tree["knobs"] if knob["needs_training"]]
    assert {knob["setting"] for knob in waiting if knob["knob"] == "branch"} == {"4", "8"}
    assert all(knob["gain"] is None for knob in waiting)
    assert any("--retrain measures it" in finding["knob"] for finding in with_tree["findings"])


def test_other_data_is_refused(tree_bundle, tmp_path):
    save_dataset(embedded(seed=5, size="small"), tmp_path / "other", "test")
    other = run("diagnose", tree_bundle, "--data", tmp_path / "other")
    assert other.exit_code == 2
    assert "was trained on other data" in other.stderr
