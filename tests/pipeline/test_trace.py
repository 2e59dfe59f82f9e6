"""The trace: nominated = returned + cut + removed, and an error when a stage breaks its contract."""

import math
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings

from shortlist.data import Candidates, Note
from shortlist.errors import ConservationError
from shortlist.grammar import Filter, Scorer
from shortlist.pipeline import Optional, run
from shortlist.pipeline.trace import EMPTY, RETURNED, StageCounts
from tests.pipeline.strategies import pipelines, requests
from tests.worlds import Last, RandomScorer, listed, query_of, run_checked, tiny


@settings(max_examples=150, deadline=None)
@given(pipelines(), requests())
def test_every_nominated_candidate_ends_in_exactly_one_bucket(pipeline, query):
    slate = run_checked(pipeline, query)
    trace = slate.trace
    for row in range(len(query)):
        nominated = set(trace.nominated.items[row][trace.nominated.valid[row]].tolist())
        returned = set(slate.items[row][slate.items[row] >= 0].tolist())
        ends = zip(trace.nominated.items[row].tolist(), trace.fate[row].tolist(), strict=True)
        fate = {item: end for item, end in ends if end != EMPTY}
        assert set(fate) == nominated
        assert {item for item, end in fate.items() if end == RETURNED} == returned
        buckets = [
            {item for item, end in fate.items() if end == number} for number in range(len(trace.steps))
        ]
        assert sum(map(len, buckets)) + len(returned) == len(nominated)
        for bucket, step in zip(buckets, trace.steps, strict=True):
            assert len(bucket) == int(step.removed[row] + step.cut[row])
            assert int(step.removed[row]) >= 0
            assert int(step.cut[row]) >= 0


@settings(max_examples=60, deadline=None)
@given(pipelines(), requests())
def test_only_filters_remove_and_everything_else_cuts(pipeline, query):
    trace = run_checked(pipeline, query).trace
    for number, step in enumerate(trace.steps):
        gone = trace.fate == number
        if step.kind == "filter":
            assert int((gone & trace.removed_by_filter).sum()) == int(step.removed.sum())
        else:
            assert int(step.removed.sum()) == 0
            assert not bool((gone & trace.removed_by_filter).any())


def test_funnel_of_a_case_worked_out_by_hand():
    slate = run_checked(
        listed("a", [0, 1, 2]) + listed("b", [2, 3]) >> Seen0() >> RandomScorer(salt=3) % 2, query_of()
    )
    counts = tuple(replace(stage, ms=0.0) for stage in slate.trace.counts())
    assert counts == (
        StageCounts("pool", "nominator", entered=4, kept=4, removed=0, cut=0, ms=0.0),
        StageCounts("seen0", "filter", entered=4, kept=3, removed=1, cut=0, ms=0.0),
        StageCounts("randomscorer", "scorer", entered=3, kept=2, removed=0, cut=1, ms=0.0),
    )
    assert [part.count.tolist() for part in slate.trace.steps[0].parts] == [[3], [2]]


@dataclass(frozen=True, eq=False, repr=False)
class Seen0(Filter):
    """Removes item 0."""

    def keep(self, query, found):
        return found.items != 0


def test_candidates_a_guarded_selector_does_not_select_count_as_cut():
    pool = listed("a", [0, 1, 2])
    for last in (Last() % 1, Optional(Last()) % 1, Optional(Last() % 1)):
        step = run_checked(pool >> last, query_of()).trace.steps[1]
        assert (step.kind, step.removed.item(), step.cut.item()) == ("selector", 0, 2)


def test_scores_and_ranks_are_in_nominated_order_and_ties_in_cut_order():
    # After `first`, 3 is before 2; `second` ties them all, so 3 must have the better rank.
    @dataclass(frozen=True, eq=False, repr=False)
    class First(Scorer):
        def score(self, query, found):
            return torch.where(found.items == 3, 9.0, -found.items.float())

    @dataclass(frozen=True, eq=False, repr=False)
    class Second(Scorer):
        def score(self, query, found):
            return torch.zeros(found.shape)

    trace = run_checked(listed("a", [1, 2, 3]) >> First() % 3 >> Second() % 1, query_of()).trace
    assert trace.scores(1).tolist() == [[-1.0, -2.0, 9.0]]
    assert trace.ranks(1).tolist() == [[2, 3, 1]]
    assert trace.ranks(2).tolist() == [[2, 3, 1]]
    assert trace.fate.tolist() == [[2, 2, RETURNED]]


def test_removed_candidate_has_no_score_and_no_rank():
    trace = run_checked(listed("a", [0, 1]) >> Seen0() >> RandomScorer(), query_of()).trace
    assert math.isnan(trace.scores(2)[0, 0])
    assert trace.ranks(2)[0].tolist() == [0, 1]


def test_threshold_is_the_lowest_kept_score_and_infinite_when_nothing_is_kept():
    @dataclass(frozen=True, eq=False, repr=False)
    class RemoveAll(Filter):
        def keep(self, query, found):
            return torch.zeros_like(found.valid)

    slate = run_checked(
        listed("a", [0, 1, 2], [3.0, 2.0, 1.0]) >> RandomScorer() % 2 >> RemoveAll(), query_of()
    )
    _, dice, removed = slate.trace.steps
    assert dice.threshold.item() == dice.after.scores.min().item()
    assert removed.threshold.item() == math.inf
    assert run_checked(listed("a", []), query_of()).trace.steps[0].threshold.item() == math.inf


@dataclass(frozen=True, eq=False, repr=False)
class Cheat(Filter):
    """Breaks the contract of a filter in a given way."""

    how: str = ""

    def keep(self, query, found):
        return found.valid

    def __call__(self, query, found):
        if self.how == "doubles":
            return found.take(torch.tensor([[1, 1]]))
        if self.how == "invents":
            return replace(found, items=found.items + 50)
        if self.how == "brings back":
            return replace(found, valid=torch.ones_like(found.valid))
        return Candidates.of(torch.tensor([[7]]), torch.zeros(1, 1))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("doubles", "cheat: returned the same item twice"),
        ("invents", "cheat: returned candidates that it was not given"),
        ("brings back", "cheat: returned candidates that it was not given"),
        ("replaces", "cheat: returned candidates that it was not given"),
    ],
)
def test_stage_that_breaks_its_contract_is_reported_by_name(how, message):
    pipeline = listed("a", [0, 1, 2]) >> Seen0() >> Cheat(how)
    with pytest.raises(ConservationError, match=message):
        run(pipeline, query_of()).trace.check()


def test_trace_whose_sums_do_not_match_is_refused():
    trace = run_checked(listed("a", [0, 1, 2]) >> Seen0(), query_of()).trace
    lost = replace(trace.steps[1], before=trace.steps[1].after)
    with pytest.raises(ConservationError, match="nominated candidates are not returned"):
        replace(trace, steps=(trace.steps[0], lost)).check()


def test_trace_prints_as_a_table_with_nominators_and_notes():
    @dataclass(frozen=True, eq=False, repr=False)
    class Broken(Scorer):
        def score(self, query, found):
            raise ValueError("no weights")

    text = str(run_checked(listed("a", [0, 1, 2]) >> Seen0() >> Optional(Broken()), query_of([], [])).trace)
    lines = text.splitlines()
    assert lines[0].split() == ["stage", "kind", "in", "kept", "removed", "cut", "ms"]
    assert lines[1].split()[:6] == ["pool", "nominator", "3", "3", "0", "0"]
    assert lines[2].split() == ["a", "nominated", "3"], "per request, like the rest of the table"
    assert lines[3].split()[:6] == ["seen0", "filter", "3", "2", "1", "0"]
    assert lines[5] == "  broken: degraded: ValueError: no weights"


def test_counts_list_only_the_notes_of_their_request():
    trace = run_checked(
        listed("a", [0, 1, 2]) >> RandomScorer(broken=True, sides=3), query_of([], seeds=[3])
    ).trace
    step = trace.steps[1]
    noted = replace(step, notes=(Note("d", "nonfinite", "", torch.tensor([0])), Note("d", "degraded")))
    counts = replace(trace, steps=(trace.steps[0], noted)).counts()
    assert counts[1].notes == ("degraded",)
    assert [type(value) for value in vars(counts[0]).values()] == [str, str, int, int, int, int, float, tuple]


def test_tiny_pipeline_conserves_candidates_for_all_kinds_of_users():
    trace = run_checked(tiny(), query_of([], [1], list(range(30)))).trace
    assert trace.degraded == ()
    assert trace.names == ("pool", "seen", "available", "prerank", "rank", "diverse")
