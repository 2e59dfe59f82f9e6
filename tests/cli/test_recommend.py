"""shortlist recommend."""

import json
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from shortlist.artifact.as_json import as_json
from shortlist.cli import app
from shortlist.cli.recommend import slate_table
from shortlist.feedback.reader import LogReader
from shortlist.feedback.record import concat
from shortlist.pipeline.batch.parts import Parts
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


def test_all_users_are_written_to_a_file(bundle, recommender, tmp_path):
    out = tmp_path / "recs.parquet"
    payload = json.loads(run("recommend", bundle, "--all", "--out", out, "-k", 3, "--json").stdout)
    table = pq.read_table(out)
    assert payload["users"] == len(recommender.users)
    assert payload["rows"] == len(table)
    user = recommender.users.id(3)
    shown = table.filter(pc.equal(table["user"], user))["item"].to_pylist()
    slate = recommender.recommend(Request(user, k=3))
    assert shown == [one.item_id for one in recommender.recommendations(slate)]


def test_users_of_a_file_are_answered_with_counts_of_what_is_odd(bundle, recommender, tmp_path):
    user = recommender.users.id(3)
    (tmp_path / "users.txt").write_text(f"nobody\n{user}\n{user}\n")
    options = ("--users", tmp_path / "users.txt", "-k", 2)
    answer = run("recommend", bundle, *options, "--out", tmp_path / "recs.csv")
    assert answer.exit_code == 0
    assert "2 users, 4 rows written to" in answer.stdout
    assert "users who are not in the bundle and were answered as users without a history: 1" in answer.stderr
    assert "ids given more than once, answered once: 1" in answer.stderr
    skipped = run("recommend", bundle, *options, "--unknown", "skip", "--out", tmp_path / "known.csv")
    assert "were left out: 1" in skipped.stderr
    assert len((tmp_path / "known.csv").read_text().splitlines()) == 3


def test_users_come_from_standard_input(bundle, recommender, tmp_path):
    out, text = tmp_path / "recs.csv", f"{recommender.users.id(3)}\n{recommender.users.id(5)}\n"
    command = ["recommend", str(bundle), "--users", "-", "--out", str(out), "--json"]
    answer = CliRunner().invoke(app, command, input=text)
    assert json.loads(answer.stdout)["users"] == 2
    assert json.loads(answer.stdout)["unknown"] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--all",), "many users need --out FILE, which ends in .parquet, .csv, .jsonl"),
        (("--all", "--users", "u.txt", "--out", "r.csv"), "--all and --users exclude each other"),
        (("--out", "r.csv"), "--out needs --all, or --users FILE"),
        (("--all", "--user", "x", "--trace", "--out", "r.csv"), "--user, --trace is for one user"),
        (("--all", "--out", "r.xlsx"), "expected a file that ends in .parquet, .csv, .jsonl, got '.xlsx'"),
        (("--all", "--unknown", "drop", "--out", "r.csv"), "expected one of answer, skip, got 'drop'"),
        (("--users", "absent.txt", "--out", "r.csv"), "absent.txt: not found; expected a file"),
    ],
)
def test_options_for_many_users_that_do_not_fit_are_refused(bundle, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    answer = run("recommend", bundle, *options)
    assert answer.exit_code == 2
    assert message in " ".join(answer.stderr.split())
    assert not list(tmp_path.iterdir())


def test_killed_run_is_resumed_and_gives_the_same_file(bundle, tmp_path):
    whole, out = tmp_path / "whole.parquet", tmp_path / "recs.parquet"
    program = [sys.executable, "-m", "tests.cli.killed_recommend", str(bundle)]
    assert subprocess.run([*program, str(whole), "0"], check=False).returncode == 0
    assert subprocess.run([*program, str(out), "2"], check=False).returncode == -signal.SIGKILL
    assert not out.exists()
    done = subprocess.run([*program, str(out), "0"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["resumed"] > 0
    assert out.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["recs.parquet", "whole.parquet"]


def test_items_are_found_by_title(bundle, recommender):
    title, item = recommender.catalog.title(4), recommender.catalog.vocabulary.id(4)
    by_id = json.loads(run("recommend", bundle, "--history", item, "--json").stdout)["items"]
    for option in ("--history", "--like"):
        for text in (title, title.upper()):
            assert json.loads(run("recommend", bundle, option, text, "--json").stdout)["items"] == by_id
    both = ("--like", item, "--like", recommender.catalog.vocabulary.id(5), "--json")
    listed = ("--history", f"{item},{recommender.catalog.vocabulary.id(5)}", "--json")
    slates = [json.loads(run("recommend", bundle, *options).stdout)["items"] for options in (both, listed)]
    assert slates[0] == slates[1]


def test_item_to_start_from_must_exist(bundle):
    answer = run("recommend", bundle, "--like", "no such title at all")
    assert answer.exit_code == 2
    assert "item 'no such title at all' is not in the catalogue" in answer.stderr


def stop(*_: object) -> None:
    raise KeyboardInterrupt


def test_run_interrupted_before_its_first_part_promises_nothing(bundle, tmp_path, monkeypatch):
    monkeypatch.setattr(Parts, "open", stop)
    answer = run("recommend", bundle, "--all", "--out", tmp_path / "recs.csv")
    assert answer.exit_code == 130
    assert "nothing was saved yet" in answer.stderr
    assert not list(tmp_path.iterdir())


def test_columns_without_values_are_not_shown(recommender):
    slate = recommender.recommendations(recommender.recommend(Request(recommender.users.id(3), k=3)))
    bare = [replace(one, title=str(one.item_id), categories=()) for one in slate]
    assert [column.header for column in slate_table(recommender, bare).columns] == [
        "rank",
        "item",
        "score",
        "nominated by",
    ]
    assert "title" in [column.header for column in slate_table(recommender, slate).columns]


def test_interrupted_run_says_how_to_continue(bundle, tmp_path, monkeypatch):
    monkeypatch.setattr(Parts, "write", stop)
    answer = run("recommend", bundle, "--all", "--out", tmp_path / "recs.csv")
    assert answer.exit_code == 130
    assert ".recs.csv.parts with the same command" in " ".join(answer.stderr.split())


def read_log(root):
    return concat(list(LogReader(root, check=True).requests()))


def test_logged_request_is_the_one_that_was_answered(bundle, recommender, tmp_path):
    user, log = recommender.users.id(3), tmp_path / "log"
    first, second = (recommender.catalog.vocabulary.id(row) for row in (0, 1))
    payload = json.loads(run("recommend", bundle, "--user", user, "-k", 5, "--log", log, "--json").stdout)
    assert run("recommend", bundle, "--history", f"{first}, {second}", "--log", log).exit_code == 0
    found = read_log(log)
    assert str(found.request_id[0]) == payload["log_id"]
    assert found.user_id.astype(str).tolist()[0] == str(user)
    own = found.take(np.array([0]))
    served = own.item_id[np.argsort(np.where(own.position > 0, own.position, 9999), kind="stable")][:5]
    assert served.tolist() == [one["item_id"] for one in payload["items"]]
    contexts = [
        row["context"] for path in log.glob("table=requests/*/*/*") for row in pq.read_table(path).to_pylist()
    ]
    assert {"history": [first, second]} in contexts


def test_log_of_all_users_has_every_request_once(bundle, recommender, tmp_path):
    out, log = tmp_path / "recs.parquet", tmp_path / "log"
    payload = json.loads(
        run(
            "recommend",
            bundle,
            "--all",
            "--out",
            out,
            "-k",
            3,
            "--log",
            log,
            "--log-set",
            "sample.0=all",
            "--json",
        ).stdout
    )
    count = len(recommender.users)
    assert payload["log"]["written"] == count
    found = read_log(log)
    assert sorted(found.user_id.tolist()) == sorted(recommender.users.id(row) for row in range(count))
    assert len(set(found.request_id.tolist())) == count
    table = pq.read_table(out)
    slates = {}
    for user, item in zip(table["user"].to_pylist(), table["item"].to_pylist(), strict=True):
        slates.setdefault(user, []).append(item)
    for row in range(count):
        own = found.take(np.array([row]))
        served = np.flatnonzero(own.position > 0)
        items = own.item_id[served[np.argsort(own.position[served])]].tolist()
        assert items == slates.get(own.user_id[0], [])
    assert "requests logged; next: shortlist log inspect" in " ".join(
        run("recommend", bundle, "--all", "--out", out, "--force", "--log", log).stdout.split()
    )
    assert len(read_log(log)) == 2 * count


def test_log_settings_without_a_log_are_refused(bundle):
    answer = run("recommend", bundle, "--log-set", "queue=5")
    assert answer.exit_code == 2
    assert "add --log DIR" in answer.stderr
