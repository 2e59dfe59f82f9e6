"""--events and --event: slates follow the new events of a session, without a training."""

import csv
import itertools
import json
import time
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from shortlist.artifact import Lineage
from shortlist.cli import app
from shortlist.pipeline import About, save_recommender
from tests.pipeline.live.live_users import recommender


@pytest.fixture(scope="module")
def live_bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live") / "bundle"
    save_recommender(recommender(), folder, Lineage())
    return folder


@pytest.fixture(scope="module")
def future_bundle(tmp_path_factory):
    """One time of its log was wrong."""
    folder = tmp_path_factory.mktemp("future") / "bundle"
    late = int(time.time() + 86_400) * 1000
    save_recommender(replace(recommender(), about=About(name="live", ends=late)), folder, Lineage())
    return folder


def run(*arguments, stdin=None):
    return CliRunner().invoke(app, [str(one) for one in arguments], input=stdin)


def answer(*arguments, stdin=None):
    found = run(*arguments, "--json", stdin=stdin)
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
    counts = dict.fromkeys(("duplicates", "late", "dropped"), 0)
    assert live["events"] == {"applied": 1, **counts, "rejected": [], "warnings": []}
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


EVENTS = ("user,item,time", "a,i20,1700000000", "a,i21,1700000002")


@pytest.mark.parametrize("mark", [",", "\t", ";"])
def test_stream_of_events(live_bundle, mark):
    text = "".join(line.replace(",", mark) + "\n" for line in EVENTS)
    by_stream = answer("recommend", live_bundle, "--user", "a", "--events", "-", stdin=text)
    by_item = answer("recommend", live_bundle, "--user", "a", "--event", "i20", "--event", "i21")
    assert slate(by_stream) == slate(by_item)
    lines = [
        json.dumps(dict(zip(("user", "item", "time"), line.split(","), strict=True))) for line in EVENTS[1:]
    ]
    text = "\n".join(lines).replace('"17', "17").replace('"}', "}")
    assert slate(answer("recommend", live_bundle, "--user", "a", "--events", "-", stdin=text)) == slate(
        by_item
    )


def test_rejections_of_a_file_say_what_came(live_bundle, tmp_path):
    file = events_file(tmp_path / "e.csv", "a,i20,1e300", "a,nothing,1700000001", "a,i20,2500000000")
    payload = answer("recommend", live_bundle, "--user", "a", "--events", file, "--event", "i21")
    assert payload["events"]["applied"] == 1
    found = [(one["where"][-7:], one["code"]) for one in payload["events"]["rejected"]]
    assert found == [("e.csv:2", "bad_times"), ("e.csv:3", "unknown_items"), ("e.csv:4", "from_the_future")]
    details = [one["detail"] for one in payload["events"]["rejected"]]
    assert "got 1e+300" in details[0]
    assert "got 'nothing'" in details[1]
    assert "got 2049-03-22T04:26:40.000Z of item 'i20'" in details[2]
    notes = " ".join(
        run("recommend", live_bundle, "--user", "a", "--events", file, "--event", "i21").stderr.split()
    )
    assert "events left out: 3 of 4, the first is" in notes
    assert "RuntimeWarning" not in notes


@pytest.mark.parametrize("verb", ["recommend", "explain"])
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_event_that_would_change_nothing_is_refused(future_bundle, tmp_path, verb, more):
    file = events_file(tmp_path / "one.csv", "a,i20,1700000000")
    item = ("--item", "i1") if verb == "explain" else ()
    for events in ((), ("--events", file)):
        given = (
            verb,
            future_bundle,
            "--user",
            "a",
            *events,
            "--event",
            "i21",
            "--event",
            "i22",
            *item,
            *more,
        )
        found = run(*given)
        message = " ".join(found.stderr.split())
        assert found.exit_code == 2
        assert not found.stdout
        assert "error: --event 1: expected a time after the end of the bundle's log, 20" in message
        assert "of item 'i21'; the bundle's log ends at" in message
        assert "correct the times of the data and train again" in message
    assert "--event 1: expected" in run(verb, future_bundle, "--user", "", "--event", "i1", *item).stderr


def test_bundle_that_ends_after_now_is_warned_of(future_bundle, tmp_path):
    file = events_file(tmp_path / "one.csv", "a,i20,1700000000")
    found = run("recommend", future_bundle, "--user", "a", "--events", file)
    notes = " ".join(found.stderr.split())
    assert found.exit_code == 0
    assert "which is after now" in notes
    assert "events left out: 1 of 1, the first is" in notes
    (warning,) = answer("recommend", future_bundle, "--user", "a", "--events", file)["events"]["warnings"]
    assert "live events before that time are left out" in warning


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
        (("--events", "-"), "--events needs --user ID; for a history without a user use --like ITEM"),
        (
            ("--user", "a", "--like", "i2", "--events", "-"),
            "--like replaces the history that --events continues",
        ),
        (("--users", "-", "--events", "-", "--out", "x.csv"), "--users and --events cannot both read stdin"),
    ],
)
def test_wrong_options_are_refused(live_bundle, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = run("recommend", live_bundle, *options)
    assert found.exit_code == 2
    assert message in " ".join(found.stderr.split())


def test_explain_names_its_own_option_for_a_history(live_bundle):
    found = run("explain", live_bundle, "--item", "i1", "--event", "i2")
    assert found.exit_code == 2
    assert "use --history IDS" in " ".join(found.stderr.split())
