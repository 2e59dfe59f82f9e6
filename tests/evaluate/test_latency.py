from dataclasses import dataclass

import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.evaluate.latency import WARMUP, latencies, one_thread
from shortlist.grammar import Nominator, as_pipeline


class FakeClock:
    """A clock that only moves when a stage runs."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, eq=False, repr=False)
class Slow(Nominator):
    """Takes a fixed number of seconds per request and records every call."""

    clock: FakeClock
    seconds: float
    calls: list

    def nominate(self, query: Query) -> Candidates:
        self.clock.now += self.seconds * len(query)
        self.calls.append((self.name, len(query), torch.get_num_threads()))
        return Candidates.of(torch.zeros(len(query), 1, dtype=torch.int64), torch.zeros(len(query), 1))


@pytest.fixture
def timed():
    clock, calls = FakeClock(), []

    def made(**seconds):
        return clock, calls, {n: as_pipeline(Slow(clock, s, calls, name=n)) for n, s in seconds.items()}

    return made


def test_latency_is_in_milliseconds_and_throughput_in_requests_per_second(world, timed):
    clock, calls, pipelines = timed(fast=0.001, slow=0.01)
    found = latencies(pipelines, world.split().test, requests=10, batches=2, clock=clock)
    assert found["fast"].median_ms == pytest.approx(1.0)
    assert found["slow"].p95_ms == pytest.approx(10.0)
    assert found["fast"].per_second == pytest.approx(1000.0)
    assert found["slow"].per_second == pytest.approx(100.0)
    assert (found["slow"].requests, found["slow"].batches, found["slow"].batch) == (10, 2, 64)
    assert {count for _, count, _ in calls} == {1, 64}  # also where there are fewer held-out requests


def test_systems_alternate_with_a_rotating_first_on_one_thread(world, timed):
    clock, calls, pipelines = timed(a=0.001, b=0.001)
    latencies(pipelines, world.split().test, requests=4, batches=1, clock=clock)
    names = [name for name, count, _ in calls if count == 1]
    assert len(names) == 2 * (WARMUP + 4)
    pairs = list(zip(names[::2], names[1::2], strict=True))
    assert {frozenset(pair) for pair in pairs} == {frozenset("ab")}
    assert pairs[0] != pairs[1] == pairs[3]
    assert {threads for _, _, threads in calls} == {1}


def test_rounds_stop_at_the_time_limit_after_at_least_one(world, timed):
    clock, calls, pipelines = timed(slow=1.0)
    found = latencies(pipelines, world.split().test, requests=100, batches=10, seconds=10, clock=clock)
    assert 1 <= found["slow"].requests < 10
    assert found["slow"].batches == 1
    assert len(calls) < 20


def test_thread_count_is_restored():
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_trained_pipeline_has_positive_latency(world, recommender):
    found = latencies({"tiny": recommender.pipeline}, world.split().test, requests=5, batches=1)["tiny"]
    assert 0 < found.median_ms <= found.p95_ms
    assert found.per_second > 0
