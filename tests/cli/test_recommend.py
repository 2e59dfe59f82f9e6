"""shortlist recommend."""

import json

from typer.testing import CliRunner

from shortlist.artifact.as_json import as_json
from shortlist.cli import app
from shortlist.pipeline.recommender import Request


def run(*arguments: object):
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_json_has_the_slate_of_the_library(bundle, recommender):
    user = recommender.users.id(3)
    payload = json.loads(run("recommend", bundle, "--user", user, "-k", 5, "--json").stdout)
    assert payload["known_user"]
    assert payload["items"] == as_json(recommender.recommendations(recommender.recommend(Request(user, k=5))))
    assert [one["rank"] for one in payload["items"]] == [1, 2, 3, 4, 5]


def test_unknown_user_is_answered_with_a_note_on_stderr(bundle):
    answer = run("recommend", bundle, "--user", "nobody")
    assert answer.exit_code == 0
    assert "'nobody' is unknown" in answer.stderr
    assert "popular" in answer.stdout


def test_history_of_ids_is_enough(bundle, recommender):
    first = recommender.catalog.vocabulary.id(0)
    answer = run("recommend", bundle, "--history", f"{first}, not-an-item", "--trace")
    assert answer.exit_code == 0
    assert "pool" in answer.stdout


def test_unknown_history_items_are_counted(bundle, recommender):
    first = recommender.catalog.vocabulary.id(0)
    answer = run("recommend", bundle, "--history", f"{first}, not-an-item")
    assert "1 of 2 items of the history are not in the catalogue" in answer.stderr
    assert "'not-an-item'" in answer.stderr
    payload = json.loads(run("recommend", bundle, "--history", f"{first}, not-an-item", "--json").stdout)
    assert payload["ignored"] == 1


def test_k_of_zero_is_refused(bundle):
    assert run("recommend", bundle, "-k", 0).exit_code == 2


def test_folder_that_is_no_bundle_is_refused(tmp_path, data_folder):
    assert "manifest.json: not found" in run("recommend", tmp_path).stderr
    assert "expected kind 'recommender', got 'dataset'" in " ".join(
        run("recommend", data_folder).stderr.split()
    )
