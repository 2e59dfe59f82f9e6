"""--events and --event: slates follow the new events of a session, without a training."""

import csv
import itertools
import json

import pytest
from typer.testing import CliRunner

from shortlist.artifact import Lineage
from shortlist.cli import app
from shortlist.pipeline import save_recommender
from tests.pipeline.live.live_users import recommender


@pytest.fixture(scope="module")
def live_bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live") / "bundle"
    save_recommender(recommender(), folder, Lineage())
    return folder


def run(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments])


def answer(*arguments):
    found = run(*arguments, "--json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def slate(payload):
    return [(one["item_id"], one["score"]) for one in payload["items"]]


def events_file(path, *rows):
    path.write_text("user,item,time\n" + "".join(f"{row}\n" for row in rows))
    return path


def test_slate_of_a_new_user_changes_after_1_3_and_10_events(live_bundle):
    slates = []
    for count in (0, 1, 3, 10):
        events = [part for at in range(count) for part in ("--event", f"i{3 * at + 1}")]
        payload = answer("recommend", live_bundle, "--user", "new", *events)
        assert payload["known_user"] == (count > 0)
        slates.append(slate(payload))
        items = {item for item, _ in slates[-1]}
        assert not items & set(events)  # seen at once
    assert all(one != other for one, other in itertools.pairwise(slates))


def test_known_user_continues_from_the_own_history(live_bundle):
    plain, live = (
        answer("recommend", live_bundle, "--user", "a", *more) for more in ((), ("--event", "i20"))
    )
    assert slate(plain) != slate(live)
    assert live["events"] == {"applied": 1, "duplicates": 0, "late": 0, "rejected": []}
    assert "events" not in plain


def test_file_of_events_gives_the_slate_of_single_events(live_bundle, tmp_path):
    file = events_file(tmp_path / "e.csv", "a,i20,1700000000", "b,i1,1700000001", "a,i21,1700000002")
    by_file = answer("recommend", live_bundle, "--user", "a", "--events", file)
    by_item = answer("recommend", live_bundle, "--user", "a", "--event", "i20", "--event", "i21")
    assert slate(by_file) == slate(by_item)
    assert by_file["events"]["applied"] == 3


def test_left_out_events_are_named_with_their_line(live_bundle, tmp_path):
    file = events_file(tmp_path / "e.csv", "a,i20,1700000000", "a,nothing,1700000001", "a,i20,1700000000")
    found = run("recommend", live_bundle, "--user", "a", "--events", file)
    notes = " ".join(found.stderr.split())
    assert found.exit_code == 0
    assert "new events applied: 1" in notes
    assert "events that were there already: 1" in notes
    assert "events left out: 1 of 3, the first is" in notes
    assert "e.csv:3: expected an item of the catalogue" in notes
    payload = answer("recommend", live_bundle, "--user", "a", "--events", file)
    (rejected,) = payload["events"]["rejected"]
    assert (rejected["index"], rejected["code"]) == (1, "unknown_items")
    assert rejected["where"].endswith("e.csv:3")


def test_batch_answers_from_events(live_bundle, tmp_path):
    file = events_file(tmp_path / "e.csv", "new,i20,1700000000", "a,i21,1700000001")
    out = tmp_path / "out.csv"
    payload = answer("recommend", live_bundle, "--all", "--events", file, "--out", out)
    assert payload["events"]["applied"] == 2
    assert payload["users"] == 4
    with out.open() as stream:
        lines = list(csv.reader(stream))[1:]
    alone = answer("recommend", live_bundle, "--user", "new", "--event", "i20")
    assert [line[1] for line in lines if line[0] == "new"] == [one["item_id"] for one in alone["items"]]


def test_explain_follows_events(live_bundle):
    found = answer("explain", live_bundle, "--user", "new", "--event", "i0", "--item", "i0")
    assert found["dropped_at"] in ("seen", "")
    assert "i0" not in [
        item for item, _ in slate(answer("recommend", live_bundle, "--user", "new", "--event", "i0"))
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--event", "i1"), "--event needs --user ID"),
        (
            ("--user", "a", "--history", "i2", "--event", "i1"),
            "--history replaces the history that --event continues",
        ),
        (("--user", "a", "--like", "i2", "--event", "i1"), "--like replaces the history"),
        (("--user", "a", "--event", "nothing"), "item 'nothing' is not in the catalogue"),
        (("--user", "a", "--events", "missing.csv"), "missing.csv"),
        (("--all", "--out", "x.csv", "--event", "i1"), "--event is for one user"),
    ],
)
def test_wrong_options_are_refused(live_bundle, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = run("recommend", live_bundle, *options)
    assert found.exit_code == 2
    assert message in " ".join(found.stderr.split())
