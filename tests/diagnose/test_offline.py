import time
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.diagnose.offline import hurried, offline
from shortlist.diagnose.sample import panel, returned
from shortlist.grammar import Scorer, as_pipeline
from shortlist.pipeline import Optional, Within, run
from tests.diagnose.test_follow_items import wants
from tests.pipeline.chances import pipelines
from tests.worlds import N_ITEMS, Label, Last, RandomFilter, RandomNominator, RandomScorer


@dataclass(frozen=True, eq=False, repr=False)
class Slow(Scorer):
    """Takes a while for every request."""

    def score(self, query, found):
        time.sleep(0.002 * len(query))
        return found.items.float()


@dataclass(frozen=True, eq=False, repr=False)
class Failing(Scorer):
    """Never scores anything."""

    def score(self, query, found):
        raise ValueError("no")


@given(pipelines(), st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_the_same_slates_come_back(pipeline, seed):
    one = panel(wants(5, seed), N_ITEMS)
    query = one.batches[0].query
    assert torch.equal(run(pipeline, query).items, run(offline(pipeline), query).items)


@pytest.mark.parametrize("scorer", [RandomScorer(name="rank"), Failing(name="rank")])
def test_a_cut_inside_of_a_guard_stands_outside_and_lets_the_same_through(scorer):
    pipeline = as_pipeline(
        RandomNominator(name="n0")
        >> Optional(Within(scorer % 4, ms=1e5)) % 7
        >> Label(name="label")
        >> RandomFilter(name="sieve")
    )
    calm = offline(pipeline)
    assert repr(calm.stages[1]) == "Optional(Optional(rank)) % 4"
    one = panel(wants(8), N_ITEMS)
    query = one.batches[0].query
    assert torch.equal(run(pipeline, query).items, run(calm, query).items)
    assert run(calm, query).trace.steps[1].before_cut.shape == run(calm, query).trace.steps[1].before.shape


def test_names_of_guards_guarded_selectors_and_nominators_stay():
    pipeline = as_pipeline(
        Optional(RandomNominator(name="n0") % 5) + RandomNominator(name="n1", salt=1)
        >> Within(RandomScorer(name="rank") % 4, ms=9, name="guard")
        >> Optional(Last(name="last", k=2))
    )
    calm = offline(pipeline)
    assert [stage.title for stage in calm.stages] == [stage.title for stage in pipeline.stages]
    assert [part.title for part in calm.nominators] == ["n0", "n1"]
    assert isinstance(calm.stages[2], Optional)


def test_a_batch_of_requests_is_not_late():
    pipeline = as_pipeline(RandomNominator(name="n0") >> Within(Slow(name="rank") % 4, ms=20))
    one = panel(wants(60), N_ITEMS)
    slow = as_pipeline(RandomNominator(name="n0") >> Slow(name="rank") % 4)
    assert returned(offline(pipeline), one).tolist() == returned(slow, one).tolist()
    assert not run(offline(pipeline), one.batches[0].query).trace.degraded
    assert (hurried(pipeline), hurried(offline(pipeline))) == (["rank"], [])
