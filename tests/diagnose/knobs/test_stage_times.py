from dataclasses import dataclass

import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.diagnose.knobs.stage_times import TRIES, stage_times
from shortlist.diagnose.sample import panel
from shortlist.evaluate.latency import WARM
from shortlist.grammar import Scorer, as_pipeline
from tests.evaluate.test_latency import Slow, Watch


def queries(world):
    return [one.query for one in panel(world.split().test, len(world.items), batch=1).batches]


@dataclass(frozen=True, eq=False, repr=False)
class Pause(Scorer):
    """Takes so many seconds for every request, each time a little more."""

    watch: Watch
    seconds: float
    more: float = 0.0

    def score(self, query: Query, found: Candidates) -> torch.Tensor:
        self.watch.now += self.seconds
        object.__setattr__(self, "seconds", self.seconds + self.more)
        return found.scores


def test_every_stage_has_its_time_and_a_pool_holds_that_of_its_nominators(world):
    watch, said = Watch(), []
    pool = Slow(watch, 0.002, said, name="a") + Slow(watch, 0.003, said, name="b")
    pipelines = {"one": as_pipeline(pool >> Pause(watch, 0.004, name="rank") % 5)}
    found = stage_times(pipelines, queries(world), requests=5, clock=watch)["one"]
    assert (found.median_ms, found.p95_ms, found.requests) == (pytest.approx(9.0), pytest.approx(9.0), 5)
    assert [(s.name, s.kind, s.part_of) for s in found.stages] == [
        ("pool", "nominator", None),
        ("a", "nominator", "pool"),
        ("b", "nominator", "pool"),
        ("rank", "scorer", None),
    ]
    assert [s.median_ms for s in found.stages] == pytest.approx([5.0, 2.0, 3.0, 4.0])
    assert found.work_ms == pytest.approx(9.0)


def test_medians_and_late_requests_are_those_of_the_counted_turns(world):
    watch = Watch()
    pipeline = as_pipeline(Slow(watch, 0.0, [], name="a")) >> Pause(watch, 0.001, 0.001, name="rank")
    found = stage_times({"one": pipeline}, queries(world), requests=20, seconds=99, clock=watch)["one"]
    counted = [1.0 + TRIES * (WARM + turn) for turn in range(20)]  # the first of two tries is the faster one
    assert found.median_ms == pytest.approx((counted[9] + counted[10]) / 2)
    assert found.p95_ms == found.stages[-1].p95_ms == pytest.approx(counted[19])


def test_settings_take_turns_and_end_when_the_time_is_up(world):
    watch, said = Watch(), []
    pipelines = {name: as_pipeline(Slow(watch, 1.0, said, name=name)) for name in "ab"}
    found = stage_times(pipelines, queries(world), requests=50, seconds=24, clock=watch)
    names = [name for name, _, _ in said]
    assert {frozenset(pair) for pair in zip(names[::2], names[1::2], strict=True)} == {frozenset("ab")}
    assert names[:2] != names[2:4]
    assert 1 <= found["a"].requests == found["b"].requests < 10
    assert {threads for *_, threads in said} == {1}
