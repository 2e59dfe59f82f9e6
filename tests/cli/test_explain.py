"""shortlist explain."""

import json

from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.pipeline.recommender import Request


def run(*arguments: object):
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_returned_and_seen_items_are_explained(bundle, recommender):
    user = recommender.users.id(3)
    slate = json.loads(run("recommend", bundle, "--user", user, "--json").stdout)
    first = json.loads(
        run("explain", bundle, "--user", user, "--item", slate["items"][0]["item_id"], "--json").stdout
    )
    assert (first["verdict"], first["position"]) == ("returned", 1)
    assert first["nominations"]
    last = recommender.catalog.vocabulary.id(recommender.histories.of(3)[-1])
    seen = json.loads(run("explain", bundle, "--user", user, "--item", last, "--json").stdout)
    assert (seen["verdict"], seen["dropped_at"]) in (("removed", "seen"), ("not nominated", "pool"))


def test_cut_item_is_explained_with_rank_score_and_threshold(bundle, recommender):
    user = recommender.users.id(3)
    for row in range(len(recommender.catalog)):
        explanation = recommender.explain(Request(user), recommender.catalog.vocabulary.id(row))
        if explanation.verdict == "cut" and explanation.dropped_at == "rank":
            break
    answer = run("explain", bundle, "--user", user, "--item", recommender.catalog.vocabulary.id(row))
    assert answer.exit_code == 0
    assert "was cut at 'rank'" in answer.stdout
    assert "needed" in answer.stdout
    last = explanation.outcomes[-1]
    assert last.score <= last.threshold


def test_unknown_item_is_refused(bundle):
    answer = run("explain", bundle, "--user", "u", "--item", "gone")
    assert answer.exit_code == 2
    assert "item 'gone' is not in the catalogue" in answer.stderr


def test_item_is_found_by_its_title(bundle, recommender):
    user, title = recommender.users.id(3), recommender.catalog.title(4)
    by_title = json.loads(run("explain", bundle, "--user", user, "--item", title.lower(), "--json").stdout)
    assert by_title["item_id"] == recommender.catalog.vocabulary.id(4)


def test_unknown_user_and_history_are_noted_as_in_recommend(bundle, recommender):
    item = recommender.catalog.vocabulary.id(4)
    request = ("--user", "nobody", "--history", f"gone,{item}")
    notes = run("recommend", bundle, *request).stderr
    assert "user 'nobody' is unknown" in notes
    assert (
        "1 of 2 items of the history are not in the catalogue and were ignored, the first is 'gone'" in notes
    )
    assert run("explain", bundle, *request, "--item", item).stderr == notes
    shared = ("user", "known_user", "ignored", "model")
    slate = json.loads(run("recommend", bundle, *request, "--json").stdout)
    found = json.loads(run("explain", bundle, *request, "--item", item, "--json").stdout)
    assert [found[name] for name in shared] == [slate[name] for name in shared]
    assert (found["known_user"], found["ignored"]) == (False, 1)
