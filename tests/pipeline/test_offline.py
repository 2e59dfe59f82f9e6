import time
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.diagnose.sample import hits_per_request, sample_users
from shortlist.grammar import Scorer, as_pipeline
from shortlist.pipeline import Optional, Within, run
from shortlist.pipeline.offline import offline, time_limited
from tests.diagnose.test_follow_items import random_requests
from tests.pipeline.strategies import pipelines
from tests.worlds import N_ITEMS, Label, Last, RandomFilter, RandomNominator, RandomScorer


@dataclass(frozen=True, eq=False, repr=False)
class Slow(Scorer):
    """Sleeps for every request."""

    def score(self, query, found):
        time.sleep(0.002 * len(query))
        return found.items.float()


@dataclass(frozen=True, eq=False, repr=False)
class Failing(Scorer):
    """Always raises."""

    def score(self, query, found):
        raise ValueError("no")


@given(pipelines(), st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_offline_pipelines_return_the_same_slates(pipeline, seed):
    sample = sample_users(random_requests(5, seed), N_ITEMS)
    query = sample.batches[0].query
    assert torch.equal(run(pipeline, query).items, run(offline(pipeline), query).items)


@pytest.mark.parametrize("scorer", [RandomScorer(name="rank"), Failing(name="rank")])
def test_cut_inside_of_a_guard_moves_outside_and_keeps_the_same(scorer):
    pipeline = as_pipeline(
        RandomNominator(name="n0")
        >> Optional(Within(scorer % 4, ms=1e5)) % 7
        >> Label(name="label")
        >> RandomFilter(name="sieve")
    )
    without_limits = offline(pipeline)
    assert repr(without_limits.stages[1]) == "Optional(Optional(rank)) % 4"
    sample = sample_users(random_requests(8), N_ITEMS)
    query = sample.batches[0].query
    assert torch.equal(run(pipeline, query).items, run(without_limits, query).items)
    assert (
        run(without_limits, query).trace.steps[1].before_cut.shape
        == run(without_limits, query).trace.steps[1].before.shape
    )


def test_names_of_guards_selectors_and_nominators_stay():
    pipeline = as_pipeline(
        Optional(RandomNominator(name="n0") % 5) + RandomNominator(name="n1", salt=1)
        >> Within(RandomScorer(name="rank") % 4, ms=9, name="guard")
        >> Optional(Last(name="last", k=2))
    )
    without_limits = offline(pipeline)
    assert [stage.title for stage in without_limits.stages] == [stage.title for stage in pipeline.stages]
    assert [part.title for part in without_limits.nominators] == ["n0", "n1"]
    assert isinstance(without_limits.stages[2], Optional)


def test_batches_have_no_time_limit():
    pipeline = as_pipeline(RandomNominator(name="n0") >> Within(Slow(name="rank") % 4, ms=20))
    sample = sample_users(random_requests(60), N_ITEMS)
    slow = as_pipeline(RandomNominator(name="n0") >> Slow(name="rank") % 4)
    assert hits_per_request(offline(pipeline), sample).tolist() == hits_per_request(slow, sample).tolist()
    assert not run(offline(pipeline), sample.batches[0].query).trace.degraded
    assert (time_limited(pipeline), time_limited(offline(pipeline))) == (["rank"], [])
