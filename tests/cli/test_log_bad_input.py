"""Bad input of a log through the command line: each kind is counted and explained, none is fatal, none is used.

One log has all kinds at once, so that no kind hides another.
"""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.data import save_dataset
from shortlist.feedback import FullStageLogger, LogReader, RequestMeta, concat, labelled, request_id
from shortlist.feedback.manifest import MANIFEST, read_manifest
from shortlist.pipeline import parse_recipe, run
from shortlist.train.pipeline import train_pipeline
from tests.train.logged.served import MINUTE, RECIPE, queries, serve

NEVER, TWICE, EARLY = 3, 4, 2  # events of requests never logged, sent twice, before their request
WATERMARK = 1 << 41


def invoke(*arguments):
    done = CliRunner().invoke(app, [str(one) for one in arguments])
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def answer(*arguments):
    return json.loads(CliRunner().invoke(app, [str(one) for one in (*arguments, "--json")]).stdout)


@pytest.fixture(scope="module")
def log(world, tmp_path_factory):
    """A log with every kind of bad input, and the data set of its pipeline."""
    folder = tmp_path_factory.mktemp("bad")
    pipeline = train_pipeline(parse_recipe(RECIPE), world).recommender.pipeline
    root = serve(folder / "log", world, pipeline, join=False)
    good = concat(list(LogReader(root).requests()))
    _backwards(root, world, pipeline)
    _without_a_stage(root)
    _of_another_version(root)
    save_dataset(world, folder / "data", "test")
    (folder / "recipe.toml").write_text(RECIPE)
    pq.write_table(_events(good), folder / "events.parquet")
    return folder, good


def _backwards(root, world, pipeline):
    """Three requests, each ten minutes before the one before it."""
    trace = run(pipeline, queries(world, range(3), 0)).trace
    times = [int(world.events.times.max()) + 1000 * MINUTE - 10 * MINUTE * row for row in range(3)]
    users = [world.users.id(row) for row in range(3)]
    with FullStageLogger(root, world.items, world.users) as log:
        log.offer(trace, RequestMeta([request_id(ts, 7, row) for row, ts in enumerate(times)], times, users))


def _without_a_stage(root):
    """The candidates that the last stage dropped are missing in two requests of the first part."""
    requests, candidates = (read_manifest(root).of(name)[0].path for name in ("requests", "candidates"))
    rows, found = pq.read_table(root / candidates), pq.read_table(root / requests)
    damaged = found["request_id"][:2]
    gone = pa.compute.and_(
        pa.compute.is_in(rows["request_id"], damaged.combine_chunks()), pa.compute.equal(rows["S"], 3)
    )
    counts = found["n_logged"].to_numpy().copy()
    for row in range(2):
        own = pa.compute.equal(rows["request_id"], damaged[row])
        counts[row] -= pa.compute.sum(pa.compute.and_(gone, own)).as_py()
    place = found.column_names.index("n_logged")
    pq.write_table(found.set_column(place, "n_logged", pa.array(counts)), root / requests)
    pq.write_table(rows.filter(pa.compute.invert(gone)), root / candidates)


def _of_another_version(root):
    """The second pair of parts was written by a later program."""
    keys = {read_manifest(root).of("requests")[1].key}
    lines = [json.loads(line) for line in (root / MANIFEST).read_text().splitlines()]
    parts = {part.path: part.key for part in read_manifest(root).parts}
    changed = [line | {"schema_version": 99} if parts[line["path"]] in keys else line for line in lines]
    (root / MANIFEST).write_text("".join(json.dumps(line) + "\n" for line in changed))


def _events(good):
    """Plays of the last, usable requests: sent twice, before the request, or of requests that nobody logged."""
    served = np.flatnonzero((good.position > 0) & (good.request > len(good) - 40))
    ids, items, times = (
        good.request_id[good.request[served]],
        good.item_id[served],
        good.ts_ms[good.request[served]],
    )
    rows = [(ids[at], items[at], "play", times[at] + 5) for at in range(TWICE) for _ in range(2)]
    rows += [(ids[at], items[at], "like", times[at] - 60_000) for at in range(EARLY)]
    rows += [(17 + at, items[at], "play", times[at]) for at in range(NEVER)]
    names = ("request_id", "item_id", "event", "event_ts_ms")
    return pa.table({name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)})


@pytest.fixture(scope="module")
def joined(log):
    folder, _ = log
    text = invoke(
        "log", "join", folder / "log", "--events", folder / "events.parquet", "--watermark", WATERMARK
    )
    return text, answer("log", "join", folder / "log", "--watermark", WATERMARK)["join"]


@pytest.fixture(scope="module")
def texts(log, joined):
    """What every command prints about the log."""
    folder, _ = log
    root, data, recipe = folder / "log", folder / "data", folder / "recipe.toml"
    export = (
        "log",
        "export",
        root,
        folder / "out",
        "--levels",
        "0,1,2,3",
        "--rule",
        joined[1]["rule_version"],
    )
    train = ("train", recipe, "--data", data, "--out", folder / "bundle", "--from-log", root)
    return {
        "inspect": invoke("log", "inspect", root),
        "join": joined[0],
        "export": invoke(*export),
        "train": invoke(*train),
    }


def used(log, joined):
    folder, _ = log
    return concat(list(labelled(LogReader(folder / "log"), joined[1]["rule_version"])))


def test_requests_with_missing_stages_are_counted_and_left_out(log, texts, joined):
    for name, text in texts.items():
        assert "2 requests whose candidates do not add up to the counts of their stages" in text, name
    assert not np.isin(log[1].request_id[:2], used(log, joined).request_id).any()


def test_parts_of_an_unknown_schema_version_are_counted_and_left_out(log, texts, joined):
    for name, text in texts.items():
        assert "2 parts of a schema version that this program does not read; they are not used" in text, name
    for name in ("inspect", "join", "export"):
        assert (
            "expected schema version 1, got 99; read it with the version of shortlist that wrote it"
            in texts[name]
        )
    assert len(used(log, joined)) < len(log[1]) - 30


def test_feedback_for_requests_never_logged_is_counted_and_not_used(joined):
    text, report = joined
    unreadable = report["counts"]["never_logged"] - NEVER  # events of requests in the unknown parts
    assert unreadable >= 0
    assert (
        f"{report['counts']['never_logged']} events of requests that are not in the log, or are left out"
        in text
    )


def test_clock_that_went_backwards_is_counted_and_its_events_are_not_used(log, texts, joined):
    assert "the clock went backwards before 2 requests" in texts["inspect"]
    assert joined[1]["counts"]["before_the_request"] == EARLY
    assert (
        "events with an earlier time than their request: a clock went backwards; they are not used"
        in texts["join"]
    )
    record = used(log, joined)
    assert ((record.request_id >> 12) & 0xFF == 7).sum() == 3  # the requests themselves are used


def test_duplicate_events_are_counted_and_used_once(joined):
    text, report = joined
    assert report["counts"]["duplicate_events"] == TWICE
    assert "events with the request, item, kind and time of another one; each is used once" in text


def test_training_uses_what_is_left_and_says_so(texts):
    assert "log: trained on" in texts["train"]
    assert "error" not in texts["train"]


def test_log_of_which_nothing_can_be_used_says_why(log, tmp_path):
    folder, _ = log
    copy = tmp_path / "log"
    copy.mkdir()
    lines = [json.loads(line) for line in (folder / "log" / MANIFEST).read_text().splitlines()]
    (copy / MANIFEST).write_text("".join(json.dumps(one | {"schema_version": 99}) + "\n" for one in lines))
    assert "0 requests, 0 candidates" in invoke("log", "inspect", copy)
    invoke("log", "join", copy)
    options = ("--data", folder / "data", "--out", tmp_path / "b", "--from-log", copy)
    done = CliRunner().invoke(app, [str(one) for one in ("train", folder / "recipe.toml", *options)])
    assert done.exit_code == 2
    assert "parts of a schema version that this program does not read" in " ".join(done.stderr.split())
