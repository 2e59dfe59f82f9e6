from dataclasses import dataclass

import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.diagnose.knobs.stage_times import TRIES, stage_times
from shortlist.diagnose.sample import sample_users
from shortlist.evaluate.latency import WARMUP
from shortlist.grammar import Scorer, as_pipeline
from tests.evaluate.test_latency import FakeClock, Slow


def queries(world):
    return [one.query for one in sample_users(world.split().test, len(world.items), batch=1).batches]


@dataclass(frozen=True, eq=False, repr=False)
class Pause(Scorer):
    """Takes `seconds` per request, each time `more` longer."""

    clock: FakeClock
    seconds: float
    more: float = 0.0

    def score(self, query: Query, found: Candidates) -> torch.Tensor:
        self.clock.now += self.seconds
        object.__setattr__(self, "seconds", self.seconds + self.more)
        return found.scores


def test_pool_time_includes_its_nominators(world):
    clock, calls = FakeClock(), []
    pool = Slow(clock, 0.002, calls, name="a") + Slow(clock, 0.003, calls, name="b")
    pipelines = {"one": as_pipeline(pool >> Pause(clock, 0.004, name="rank") % 5)}
    found = stage_times(pipelines, queries(world), requests=5, clock=clock)["one"]
    assert (found.median_ms, found.p95_ms, found.requests) == (pytest.approx(9.0), pytest.approx(9.0), 5)
    assert [(s.name, s.kind, s.part_of) for s in found.stages] == [
        ("pool", "nominator", None),
        ("a", "nominator", "pool"),
        ("b", "nominator", "pool"),
        ("rank", "scorer", None),
    ]
    assert [s.median_ms for s in found.stages] == pytest.approx([5.0, 2.0, 3.0, 4.0])
    assert found.work_ms == pytest.approx(9.0)


def test_median_and_p95_are_those_of_the_counted_turns(world):
    clock = FakeClock()
    pipeline = as_pipeline(Slow(clock, 0.0, [], name="a")) >> Pause(clock, 0.001, 0.001, name="rank")
    found = stage_times({"one": pipeline}, queries(world), requests=20, seconds=99, clock=clock)["one"]
    counted = [
        1.0 + TRIES * (WARMUP + turn) for turn in range(20)
    ]  # the first of two tries is the faster one
    assert found.median_ms == pytest.approx((counted[9] + counted[10]) / 2)
    assert found.p95_ms == found.stages[-1].p95_ms == pytest.approx(counted[19])


def test_pipelines_take_turns_and_end_when_time_is_up(world):
    clock, calls = FakeClock(), []
    pipelines = {name: as_pipeline(Slow(clock, 1.0, calls, name=name)) for name in "ab"}
    found = stage_times(pipelines, queries(world), requests=50, seconds=24, clock=clock)
    names = [name for name, _, _ in calls]
    assert {frozenset(pair) for pair in zip(names[::2], names[1::2], strict=True)} == {frozenset("ab")}
    assert names[:2] != names[2:4]
    assert 1 <= found["a"].requests == found["b"].requests < 10
    assert {threads for *_, threads in calls} == {1}
