from dataclasses import dataclass

import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.diagnose.nominators.costs import measure_costs
from shortlist.grammar import Nominator, as_pipeline
from shortlist.pipeline import Optional
from tests.evaluate.test_latency import FakeClock
from tests.worlds import query_of


@dataclass(frozen=True, eq=False, repr=False)
class Timed(Nominator):
    """2 ms for a call and 0.1 ms for each slot; 5 ms to score the pool."""

    clock: FakeClock

    def nominate(self, query: Query) -> Candidates:
        self.clock.now += 2e-3 + 1e-4 * self.limit
        items = torch.arange(self.limit).expand(len(query), -1)
        return Candidates.of(items, -items.float())

    def item_columns(self, query, items):
        self.clock.now += 5e-3
        return {"score": items.float()}


def timed(clock, **settings):
    return Timed(clock, name="a", limit=10, **settings)


def test_costs_are_a_line_through_the_limit_and_a_longer_list():
    clock = FakeClock()
    found = measure_costs(as_pipeline(timed(clock)), [query_of([1])], requests=4, clock=clock)
    (cost,) = found.costs
    assert (cost.ms, cost.call_ms, cost.slot_ms) == pytest.approx((3.0, 2.0, 0.1))
    assert cost.at(30) == pytest.approx(5.0)
    assert cost.at(0) == 0
    assert found.p95_ms is None
    assert found.nominators_ms == pytest.approx(3.0)


def test_scores_that_a_nominator_gives_to_the_pool_are_part_of_its_cost():
    clock = FakeClock()
    pool = as_pipeline(Optional(timed(clock, score_pool=True)))
    found = measure_costs(pool, [query_of([1])], whole=True, requests=4, clock=clock)
    assert found.costs[0].ms == pytest.approx(8.0)
    assert found.costs[0].call_ms == pytest.approx(7.0)
    assert found.p95_ms == pytest.approx(8.0)


def test_pipeline_in_the_pool_has_a_cost_that_does_not_depend_on_slots():
    clock = FakeClock()
    nested = as_pipeline(timed(clock))
    pool = as_pipeline(type(nested)(nested.stages, name="nested") + Timed(clock, name="b", limit=5))
    found = measure_costs(pool, [query_of([1])], requests=4, clock=clock)
    assert found.costs[0].slot_ms == 0
    assert found.costs[0].at(99) == pytest.approx(3.0)
    assert found.costs[1].ms == pytest.approx(2.5)


def test_one_request_is_timed_when_there_is_no_time():
    clock = FakeClock()
    found = measure_costs(as_pipeline(timed(clock)), [query_of([1])], seconds=0.0, clock=clock)
    assert found.costs[0].ms == pytest.approx(3.0)
