"""Several processes on one port."""

import multiprocessing
import os
import signal
import sys
import time
from functools import partial

import httpx
import pytest

from shortlist.artifact.store import Lineage
from shortlist.errors import ShortlistError
from shortlist.pipeline import save_recommender
from shortlist.serve import app_of
from shortlist.serve.workers import _join, serve_workers

from .small_service import TIMEOUT, recommender_of

COUNTED = 'shortlist_requests_total{route="/v1/recommend",status="200"} 6.0'


def test_processes_count_together_and_a_killed_one_ends_the_service(tmp_path):
    save_recommender(recommender_of(), tmp_path / "model", Lineage())
    texts = []

    def use(url):
        for _ in range(6):
            assert httpx.post(f"{url}/v1/recommend", json={}, timeout=TIMEOUT).status_code == 200
        event = {"user_id": "u1", "item_id": "i1", "event": "click", "event_ts_ms": 2000}
        refused = httpx.post(f"{url}/v1/events", json={"events": [event]}, timeout=TIMEOUT)
        assert refused.json()["code"] == "no-live-users"  # each process would know other events
        texts.extend(httpx.get(f"{url}/metrics", timeout=TIMEOUT).text for _ in range(4))
        os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)

    with pytest.raises(ShortlistError, match="a worker ended with exit code -9; the cause is in the log"):
        serve_workers(partial(app_of, str(tmp_path / "model")), 2, "127.0.0.1", 0, use)
    assert len(texts) == 4  # whichever process answered
    assert all(COUNTED in text and "shortlist_in_flight 0.0" in text for text in texts)
    assert multiprocessing.active_children() == []


def broken():
    raise RuntimeError("no app")


def test_process_that_cannot_start_ends_the_service(capfd):
    announced = []
    with pytest.raises(ShortlistError, match="a worker ended with exit code 1; the cause is in the log"):
        serve_workers(broken, 1, "127.0.0.1", 0, announced.append)
    assert announced == []
    assert "RuntimeError: no app" in capfd.readouterr().err


def sleeping() -> None:
    time.sleep(TIMEOUT)


def exiting() -> None:
    sys.exit(3)


@pytest.mark.parametrize(("target", "number", "code"), [
    (sleeping, signal.SIGTERM, 0),
    (sleeping, signal.SIGKILL, -signal.SIGKILL),
    (exiting, None, 3),
])  # fmt: skip
def test_process_that_was_stopped_while_it_exits_is_no_error(target, number, code):
    processes = [multiprocessing.get_context("spawn").Process(target=target)]
    processes[0].start()
    if number is not None:
        os.kill(processes[0].pid, number)
    assert _join(processes) == code
