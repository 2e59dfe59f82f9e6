"""A small hand-made recommender, and a client of the app in this process."""

import http.client
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread

import anyio.from_thread
import httpx
import pyarrow as pa
import torch

from shortlist.data import Candidates, Catalog, Vocabulary
from shortlist.grammar import Nominator, Scorer, as_pipeline
from shortlist.models.sequence.two_tower import TwoTower, TwoTowerConfig
from shortlist.nominate import CoVisit, Popular
from shortlist.pipeline import About, Recommender
from shortlist.serve import Limits, make_app
from shortlist.serve.server import Server, listening
from shortlist.stages import Diverse, Seen, TowerScorer
from shortlist.state.histories import UserHistories

ITEMS, USERS = 60, 8
TIMEOUT = 60  # seconds


def towers():
    torch.manual_seed(0)
    return TwoTower(TwoTowerConfig(ITEMS, 10, 3, 8, 16)).with_categories(torch.arange(ITEMS) % 3).eval()


def stages():
    generator = torch.Generator().manual_seed(1)
    neighbour = torch.stack([torch.randperm(ITEMS, generator=generator)[:5] for _ in range(ITEMS)])
    tower = towers()
    return {
        "popular": Popular(torch.arange(ITEMS), torch.linspace(1, 0.1, ITEMS), name="popular", limit=40),
        "covisit": CoVisit(
            neighbour, torch.rand(ITEMS, 5, generator=generator) + 0.1, name="covisit", limit=20
        ),
        "seen": Seen(name="seen"),
        "rank": TowerScorer(tower, name="rank"),
        "diverse": Diverse(tower.items().detach(), name="diverse", k=10),
    }


def pipeline_of(**other):
    """The usual five stages, some of them replaced."""
    use = stages() | other
    return as_pipeline(
        use["popular"] + use["covisit"] >> use["seen"] >> use["rank"] % 30 >> use["diverse"],
    )


def recommender_of(pipeline=None, ids=None):
    """Eight users u0..u7 with three history items each; items i0..i59 with titles."""
    names = [f"i{row}" for row in range(ITEMS)] if ids is None else ids
    table = pa.table(
        {"title": [f"Item {row}" for row in range(ITEMS)], "category": ["abc"[r % 3] for r in range(ITEMS)]}
    )
    histories = UserHistories(torch.arange(0, 3 * USERS + 1, 3), torch.arange(3 * USERS, dtype=torch.int32))
    users = Vocabulary.of([f"u{row}" for row in range(USERS)])
    about = About(name="tiny")
    return Recommender(
        pipeline or pipeline_of(), Catalog(Vocabulary.of(names), table), users, histories, about
    )


@dataclass(frozen=True, eq=False, repr=False)
class Gate(Nominator):
    """Nominates item 0 after `go` is set; requests with a history do not wait."""

    entered: Event
    go: Event

    def nominate(self, query):
        if not bool((query.history >= 0).any()):
            self.entered.set()
            assert self.go.wait(30)
        return Candidates.of(torch.zeros((len(query), 1), dtype=torch.int64), torch.ones(len(query), 1))


@dataclass(frozen=True, eq=False, repr=False)
class Broken(Scorer):
    """Raises once `on` is set, with a message that must not be exposed."""

    on: Event

    def score(self, query, found):
        if self.on.is_set():
            raise RuntimeError("secret message")
        return found.scores


@dataclass(frozen=True, eq=False, repr=False)
class Odd(Scorer):
    """Scores the first candidate NaN and the second infinity."""

    def score(self, query, found):
        scores = found.scores.clone()
        scores[:, 0], scores[:, 1] = torch.nan, torch.inf
        return scores


class Client:
    """Calls the app without a network; the app runs in its own thread, as under a server."""

    def __init__(self, portal, http):
        self.portal, self.http = portal, http

    def request(self, method, path, **options):
        return self.portal.call(lambda: self.http.request(method, path, **options))

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, **options):
        return self.request("POST", path, **options)

    def recommend(self, headers=None, **body):
        return self.post("/v1/recommend", json=body, headers=headers)

    def explain(self, **body):
        return self.post("/v1/explain", json=body)

    def raw(self, content, path="/v1/recommend", **headers):
        return self.post(path, content=content, headers={"Content-Type": "application/json"} | headers)


@contextmanager
def client_of(app, lifespan=True) -> Iterator[Client]:
    """A client of the app, which is started and stopped around the block."""
    transport = httpx.ASGITransport(app)
    with anyio.from_thread.start_blocking_portal() as portal:
        http = httpx.AsyncClient(transport=transport, base_url="http://shortlist")
        with portal.wrap_async_context_manager(http):
            if not lifespan:
                yield Client(portal, http)
                return
            with portal.wrap_async_context_manager(app.router.lifespan_context(app)):
                yield Client(portal, http)


@contextmanager
def served(recommender=None, limits=None) -> Iterator[Client]:
    with client_of(make_app(recommender or recommender_of(), limits or Limits())) as client:
        yield client


@contextmanager
def listening_service(app) -> Iterator[tuple[Server, str]]:
    """The app on a real port, in a thread; yields the server and its URL."""
    urls, ready = [], Event()
    server = Server(app, lambda url: (urls.append(url), ready.set()), None)
    with listening("127.0.0.1", 0) as listener:
        thread = Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            assert ready.wait(TIMEOUT)
            yield server, urls[0]
        finally:
            server.handle_exit(signal.SIGINT, None)
            thread.join(TIMEOUT)
            assert not thread.is_alive()


def connected(url):
    """A plain connection to the service, for bytes that no client library would send."""
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), TIMEOUT)


def response_on(wire):
    """The next response on a connection: status, headers and body."""
    response = http.client.HTTPResponse(wire)
    response.begin()
    return response.status, response.headers, response.read()


PROBLEM_KEYS = {"type", "title", "status", "detail", "instance", "code", "errors"}


def check_problem(answer, status, code):
    """Assert that the response is a problem of this kind, in the declared schema."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert set(problem) == PROBLEM_KEYS
    assert (problem["status"], problem["code"]) == (status, code)
    assert problem["instance"] == answer.headers["x-request-id"]
    assert all(set(one) == {"pointer", "message"} for one in problem["errors"])
    return problem
