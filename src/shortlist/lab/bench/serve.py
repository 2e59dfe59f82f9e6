"""The HTTP service over kept-open connections: what a client waits, over the time inside the handler."""

import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, cycle, islice
from pathlib import Path
from urllib.parse import urlsplit

from shortlist.errors import ShortlistError
from shortlist.lab.bench.timing import estimates
from shortlist.lab.result import Result, at_most, result, row, start
from shortlist.progress import Progress, silent
from shortlist.simulate import embedded
from shortlist.train import train

SOURCE = "target of this project"
RECIPE = "classic"
REQUESTS = 2000
CONCURRENCY = 8
WARM_UP = 50
TIMEOUT = 60  # seconds
HEADERS = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Waits:
    """The requests of one connection or of several together."""

    client_ms: tuple[float, ...]  # from the first byte sent to the last byte read
    handler_ms: tuple[float, ...]  # as the service measured it for the same requests
    seconds: float

    @property
    def per_second(self) -> float:
        return len(self.client_ms) / self.seconds


def bench_serve(
    seed: int = 0, requests: int = REQUESTS, size: str = "demo", progress: Progress = silent
) -> Result:
    """A service in its own process, and clients that keep their connections open.

    `keepalive_over_handler`: median time that one client waits for a response, over the median time inside the handler,
    from the arrival of the request to the finished slate, which the service reports with every response.
    """
    began = start()
    with tempfile.TemporaryDirectory(prefix="shortlist-bench-") as folder:
        progress("bench serve: train", 0, 3)
        dataset = embedded(seed, size)
        train(RECIPE, dataset, Path(folder) / "bundle", seed=seed, refit=False)
        users = [dataset.users.id(at) for at in range(len(dataset.users))]
        with _service(Path(folder) / "bundle") as url:
            ask(url, users, WARM_UP)
            progress("bench serve: one connection", 1, 3)
            alone = ask(url, users, requests)
            progress(f"bench serve: {CONCURRENCY} connections", 2, 3)
            together = ask_together(url, users, requests)
    ratio = statistics.median(alone.client_ms) / statistics.median(alone.handler_ms)
    claims = [at_most("keepalive_over_handler", SOURCE, ratio, 2.0)]
    figures = estimates(claims) | _figures("one", alone) | _figures(f"of_{CONCURRENCY}", together)
    rows = [
        row("one connection", "client ms", alone.client_ms),
        row("one connection", "handler ms", alone.handler_ms),
        row(f"{CONCURRENCY} connections", "client ms", together.client_ms),
        row(f"{CONCURRENCY} connections", "handler ms", together.handler_ms),
    ]
    profile = f"bundle of the {size} embedded data, {requests} requests, {len(users)} users in turn"
    return result("serve", profile, [seed], began, rows, claims, figures=figures)


def ask(url: str, users: Sequence[int | str], requests: int) -> Waits:
    """Send requests one after the other on one kept-open connection, for the users in turn."""
    address = urlsplit(url)
    assert address.hostname is not None
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=TIMEOUT)
    connection.connect()
    began = time.perf_counter()
    waits = [_request(connection, user) for user in islice(cycle(users), requests)]
    seconds = time.perf_counter() - began
    connection.close()
    client, handler = zip(*waits, strict=True)
    return Waits(client, handler, seconds)


def ask_together(url: str, users: Sequence[int | str], requests: int) -> Waits:
    """The same number of requests, divided among several connections at once."""
    began = time.perf_counter()
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        share = -(-requests // CONCURRENCY)
        jobs = [pool.submit(ask, url, [*users[at:], *users[:at]], share) for at in range(CONCURRENCY)]
        parts = [job.result() for job in jobs]
    seconds = time.perf_counter() - began
    client, handler = (
        tuple(chain.from_iterable(getattr(part, name) for part in parts))
        for name in ("client_ms", "handler_ms")
    )
    return Waits(client, handler, seconds)


def _request(connection: http.client.HTTPConnection, user: int | str) -> tuple[float, float]:
    """Milliseconds that the client waited and that the service reports."""
    body = json.dumps({"user_id": user})
    began = time.perf_counter()
    connection.request("POST", "/v1/recommend", body, HEADERS)
    response = connection.getresponse()
    content = response.read()
    waited = (time.perf_counter() - began) * 1e3
    if response.status != 200:
        raise ShortlistError(f"bench serve: expected status 200, got {response.status}: {content[:400]!r}")
    return waited, json.loads(content)["took_ms"]


@contextmanager
def _service(bundle: Path) -> Iterator[str]:
    """The URL of `shortlist serve` in its own process."""
    command = [sys.executable, "-m", "shortlist", "serve", str(bundle), "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise ShortlistError("bench serve: the service did not start; try: shortlist serve BUNDLE")
        yield json.loads(line)["url"]
    finally:
        process.kill()
        process.communicate()


def _figures(name: str, waits: Waits) -> dict[str, float]:
    client = statistics.quantiles(waits.client_ms, n=100)
    return {
        f"{name}_client_p50_ms": client[49],
        f"{name}_client_p99_ms": client[98],
        f"{name}_handler_p50_ms": statistics.median(waits.handler_ms),
        f"{name}_per_second": waits.per_second,
    }
