import json

from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.pipeline.recommender import Request


def run(*arguments: object):
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_every_item_of_the_catalogue_has_an_answer(bundle, recommender):
    user = recommender.users.id(3)
    slate = json.loads(run("recommend", bundle, "--user", user, "--json").stdout)
    first = json.loads(
        run("explain", bundle, "--user", user, "--item", slate["items"][0]["item_id"], "--json").stdout
    )
    assert (first["verdict"], first["position"]) == ("returned", 1)
    assert first["namings"]
    met = recommender.catalog.vocabulary.id(recommender.max_history.of(3)[-1])
    seen = json.loads(run("explain", bundle, "--user", user, "--item", met, "--json").stdout)
    assert (seen["verdict"], seen["dropped_at"]) in (("removed", "seen"), ("not nominated", "pool"))


def test_a_cut_item_is_told_with_rank_score_and_threshold(bundle, recommender):
    user = recommender.users.id(3)
    for row in range(len(recommender.catalog)):
        told = recommender.explain(Request(user), recommender.catalog.vocabulary.id(row))
        if told.verdict == "cut" and told.dropped_at == "rank":
            break
    answer = run("explain", bundle, "--user", user, "--item", recommender.catalog.vocabulary.id(row))
    assert answer.exit_code == 0
    assert "was cut at 'rank'" in answer.stdout
    assert "needed" in answer.stdout
    last = told.passages[-1]
    assert last.score <= last.threshold


def test_an_unknown_item_is_refused(bundle):
    answer = run("explain", bundle, "--user", "u", "--item", "gone")
    assert answer.exit_code == 2
    assert "item 'gone' is not in the catalogue" in answer.stderr
