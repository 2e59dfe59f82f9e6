"""kill -9 of a service with live users: no accepted event is lost."""

import json
import subprocess
import sys
from contextlib import contextmanager

import httpx
import pytest

from shortlist.artifact import Lineage
from shortlist.pipeline import save_recommender
from tests.pipeline.live.live_users import recommender

from .live_service import TAKEN, event
from .small_service import TIMEOUT

VERB = "import typer; from shortlist.cli.serve import serve; typer.run(serve)"


@contextmanager
def process_of(bundle, state):
    """A client of a service that is killed at the end of the block."""
    command = [sys.executable, "-c", VERB, str(bundle), "--port", "0", "--json", "--state", str(state)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        url = json.loads(process.stdout.readline())["url"]
        with httpx.Client(base_url=url, timeout=TIMEOUT) as http:
            yield http
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_killed_service_continues_with_every_accepted_event(tmp_path):
    save_recommender(recommender(), tmp_path / "bundle", Lineage())
    slates = []
    with process_of(tmp_path / "bundle", tmp_path / "state") as http:
        for at, item in enumerate(TAKEN):
            answer = http.post("/v1/events", json={"events": [event("new", item, at)]}).json()
            assert answer["live"]["applied"] == 1
        slates.append(http.post("/v1/recommend", json={"user_id": "new"}).json()["items"])
    with process_of(tmp_path / "bundle", tmp_path / "state") as http:
        slates.append(http.post("/v1/recommend", json={"user_id": "new"}).json()["items"])
        again = http.post("/v1/events", json={"events": [event("new", TAKEN[-1], len(TAKEN) - 1)]}).json()
    assert again["live"]["duplicates"] == 1
    first, second = ([one["item_id"] for one in slate] for slate in slates)
    assert first == second
