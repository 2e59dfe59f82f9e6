from dataclasses import dataclass

import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.evaluate.latency import WARM, latencies, one_thread
from shortlist.grammar import Nominator, as_pipeline


class Watch:
    """A clock that only moves when a stage works."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, eq=False, repr=False)
class Slow(Nominator):
    """Takes so many seconds for every request, and writes down when it was asked how much."""

    watch: Watch
    seconds: float
    asked: list

    def nominate(self, query: Query) -> Candidates:
        self.watch.now += self.seconds * len(query)
        self.asked.append((self.name, len(query), torch.get_num_threads()))
        return Candidates.of(torch.zeros(len(query), 1, dtype=torch.int64), torch.zeros(len(query), 1))


@pytest.fixture
def timed():
    watch, asked = Watch(), []

    def made(**seconds):
        return watch, asked, {n: as_pipeline(Slow(watch, s, asked, name=n)) for n, s in seconds.items()}

    return made


def test_time_is_told_in_milliseconds_and_requests_per_second(world, timed):
    watch, asked, pipelines = timed(fast=0.001, slow=0.01)
    found = latencies(pipelines, world.split().test, requests=10, batches=2, clock=watch)
    assert found["fast"].median_ms == pytest.approx(1.0)
    assert found["slow"].p95_ms == pytest.approx(10.0)
    assert found["fast"].per_second == pytest.approx(1000.0)
    assert found["slow"].per_second == pytest.approx(100.0)
    assert (found["slow"].requests, found["slow"].batches, found["slow"].batch) == (10, 2, 64)
    assert {count for _, count, _ in asked} == {1, 64}  # also where there are fewer cases


def test_systems_take_turns_another_one_first_each_time_on_one_thread(world, timed):
    watch, asked, pipelines = timed(a=0.001, b=0.001)
    latencies(pipelines, world.split().test, requests=4, batches=1, clock=watch)
    names = [name for name, count, _ in asked if count == 1]
    assert len(names) == 2 * (WARM + 4)
    pairs = list(zip(names[::2], names[1::2], strict=True))
    assert {frozenset(pair) for pair in pairs} == {frozenset("ab")}
    assert pairs[0] != pairs[1] == pairs[3]
    assert {threads for _, _, threads in asked} == {1}


def test_turns_end_when_the_time_is_up_but_not_before_one_was_counted(world, timed):
    watch, asked, pipelines = timed(slow=1.0)
    found = latencies(pipelines, world.split().test, requests=100, batches=10, seconds=10, clock=watch)
    assert 1 <= found["slow"].requests < 10
    assert found["slow"].batches == 1
    assert len(asked) < 20


def test_threads_are_given_back():
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_a_real_pipeline_can_be_timed(world, recommender):
    found = latencies({"tiny": recommender.pipeline}, world.split().test, requests=5, batches=1)["tiny"]
    assert 0 < found.median_ms <= found.p95_ms
    assert found.per_second > 0
