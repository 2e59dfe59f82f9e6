"""kill -9 of a service that logs, under requests: what the manifest has can be read, accepted events are never lost."""

import json
import random
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
import pyarrow.parquet as pq
import pytest

from shortlist.artifact.store import Lineage
from shortlist.feedback.events.writer import recover_events
from shortlist.feedback.manifest import read_manifest
from shortlist.feedback.reader import LogReader
from shortlist.feedback.record import concat
from shortlist.pipeline import save_recommender
from tests.serve.small_service import TIMEOUT, recommender_of

REPEATS = 3
CLIENTS = 3
VERB = "import typer; from shortlist.cli.serve import serve; typer.run(serve)"
FAST = ("--log-set", "rotate_seconds=0.05", "--log-set", "sample.1=all", "--log-set", "sample.filtered=all")
WRITTEN = re.compile(r'shortlist_log_requests_total\{outcome="written"\} (\S+)')
OF_A_TORN_LINE = {"bad_manifest_lines", "incomplete_parts"}


@dataclass
class Answers:
    """What the service said before it was killed."""

    slates: dict[int, list[str]] = field(default_factory=dict)  # by log_id
    events: set[tuple[int, str]] = field(default_factory=set)  # accepted
    written: int = 0  # requests of this process in the log, by its metrics


def killed_service(bundle: Path, root: Path, seconds: float) -> Answers:
    """Serve with a log, send requests and events for some seconds, and kill the process."""
    command = [sys.executable, "-c", VERB, str(bundle), "--port", "0", "--json", "--log", str(root), *FAST]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    answers = Answers()
    try:
        url = json.loads(process.stdout.readline())["url"]
        clients = [threading.Thread(target=_ask, args=(url, answers, number)) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        time.sleep(seconds)
    finally:
        process.kill()
        process.communicate()
    for client in clients:
        client.join()
    return answers


def _ask(url: str, answers: Answers, number: int) -> None:
    """Requests one after the other until the service is gone; the first client also reads the metrics."""
    with httpx.Client(base_url=url, timeout=TIMEOUT) as http:
        try:
            while True:
                answer = http.post("/v1/recommend", json={"user_id": f"u{number}", "k": 4}).json()
                log_id, items = int(answer["log_id"]), [one["item_id"] for one in answer["items"]]
                answers.slates[log_id] = items
                event = {"log_id": log_id, "item_id": items[0], "event": "play", "event_ts_ms": log_id >> 20}
                if http.post("/v1/events", json={"events": [event]}).json()["accepted"]:
                    answers.events.add((log_id, items[0]))
                if number == 0:
                    found = WRITTEN.search(http.get("/metrics").text)
                    answers.written = int(float(found[1])) if found else 0
        except (httpx.HTTPError, ValueError, KeyError):
            return  # killed


def check_log(root: Path, before: int, answers: Answers) -> int:
    """Check a log after a kill; `before` is the number of its requests before. Returns that number now."""
    reader = LogReader(root, check=True)
    record = concat(list(reader.requests()))
    assert not {*reader.problems.counts} - OF_A_TORN_LINE, reader.problems.examples
    assert len(record) == sum(pair.requests.rows for pair in reader.pairs)
    assert len(record) >= before + answers.written
    logged = {int(one): row for row, one in enumerate(record.request_id)}
    assert len(logged) == len(record)
    for log_id, items in answers.slates.items():
        if log_id in logged:
            own = record.take(np.array([logged[log_id]]))
            served = np.flatnonzero(own.position > 0)
            assert own.item_id[served[np.argsort(own.position[served])]].tolist() == items
    recover_events(root)
    assert answers.events <= events_of(root)
    return len(record)


def events_of(root: Path) -> set[tuple[int, str]]:
    parts = [part for name in ("feedback", "corrections") for part in read_manifest(root).of(name)]
    tables = [pq.read_table(root / part.path, columns=["request_id", "item_id"]) for part in parts]
    pairs = [zip(*(one.to_pylist() for one in table.columns), strict=True) for table in tables]
    return {pair for some in pairs for pair in some}


@pytest.mark.slow
def test_killed_service_leaves_a_log_that_can_be_read(tmp_path):
    save_recommender(recommender_of(), tmp_path / "model", Lineage())
    generator, count, answered = random.Random(0), 0, 0
    for _ in range(REPEATS):
        answers = killed_service(tmp_path / "model", tmp_path / "log", generator.uniform(0.3, 1.2))
        count, answered = check_log(tmp_path / "log", count, answers), answered + len(answers.slates)
    assert 0 < count <= answered + REPEATS * CLIENTS
