"""The trace: nominated = returned + cut + removed, always, and a sentence when a stage cheats."""

import math
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings

from shortlist.data import Candidates, Note
from shortlist.errors import ConservationError
from shortlist.grammar import Filter, Scorer
from shortlist.pipeline import Optional, run
from shortlist.pipeline.trace import NEVER, RETURNED
from tests.pipeline.chances import pipelines, requests
from tests.worlds import Dice, Last, asked, listed, run_checked, tiny


@settings(max_examples=150, deadline=None)
@given(pipelines(), requests())
def test_every_nominated_candidate_ends_in_exactly_one_bucket(pipeline, query):
    slate = run_checked(pipeline, query)
    trace = slate.trace
    for row in range(len(query)):
        named = set(trace.named.items[row][trace.named.valid[row]].tolist())
        returned = set(slate.items[row][slate.items[row] >= 0].tolist())
        ends = zip(trace.named.items[row].tolist(), trace.fate[row].tolist(), strict=True)
        fate = {item: end for item, end in ends if end != NEVER}
        assert set(fate) == named
        assert {item for item, end in fate.items() if end == RETURNED} == returned
        buckets = [
            {item for item, end in fate.items() if end == number} for number in range(len(trace.steps))
        ]
        assert sum(map(len, buckets)) + len(returned) == len(named)
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


def test_a_hand_worked_funnel():
    slate = run_checked(listed("a", [0, 1, 2]) + listed("b", [2, 3]) >> Seen0() >> Dice(salt=3) % 2, asked())
    counts = [
        {key: one[key] for key in ("name", "in", "out", "removed", "cut")} for one in slate.trace.counts()
    ]
    assert counts == [
        {"name": "pool", "in": 4, "out": 4, "removed": 0, "cut": 0},
        {"name": "seen0", "in": 4, "out": 3, "removed": 1, "cut": 0},
        {"name": "dice", "in": 3, "out": 2, "removed": 0, "cut": 1},
    ]
    assert [part.count.tolist() for part in slate.trace.steps[0].parts] == [[3], [2]]


@dataclass(frozen=True, eq=False, repr=False)
class Seen0(Filter):
    """Says no to item 0."""

    def keep(self, query, found):
        return found.items != 0


def test_what_a_guarded_selector_does_not_choose_counts_as_cut():
    pool = listed("a", [0, 1, 2])
    for last in (Last() % 1, Optional(Last()) % 1, Optional(Last() % 1)):
        step = run_checked(pool >> last, asked()).trace.steps[1]
        assert (step.kind, step.removed.item(), step.cut.item()) == ("selector", 0, 2)


def test_scores_and_ranks_are_told_by_nominated_place_and_ties_as_they_were_cut():
    # After `first`, 3 stands before 2; `second` ties them all, so 3 must have the better rank.
    @dataclass(frozen=True, eq=False, repr=False)
    class First(Scorer):
        def score(self, query, found):
            return torch.where(found.items == 3, 9.0, -found.items.float())

    @dataclass(frozen=True, eq=False, repr=False)
    class Second(Scorer):
        def score(self, query, found):
            return torch.zeros(found.shape)

    trace = run_checked(listed("a", [1, 2, 3]) >> First() % 3 >> Second() % 1, asked()).trace
    assert trace.scores(1).tolist() == [[-1.0, -2.0, 9.0]]
    assert trace.ranks(1).tolist() == [[2, 3, 1]]
    assert trace.ranks(2).tolist() == [[2, 3, 1]]
    assert trace.fate.tolist() == [[2, 2, RETURNED]]


def test_what_is_not_there_any_more_has_no_score_and_no_rank():
    trace = run_checked(listed("a", [0, 1]) >> Seen0() >> Dice(), asked()).trace
    assert math.isnan(trace.scores(2)[0, 0])
    assert trace.ranks(2)[0].tolist() == [0, 1]


def test_the_threshold_is_the_lowest_score_that_went_on_and_infinite_when_nothing_did():
    @dataclass(frozen=True, eq=False, repr=False)
    class Nobody(Filter):
        def keep(self, query, found):
            return torch.zeros_like(found.valid)

    slate = run_checked(listed("a", [0, 1, 2], [3.0, 2.0, 1.0]) >> Dice() % 2 >> Nobody(), asked())
    _, dice, nobody = slate.trace.steps
    assert dice.threshold.item() == dice.after.scores.min().item()
    assert nobody.threshold.item() == math.inf
    assert run_checked(listed("a", []), asked()).trace.steps[0].threshold.item() == math.inf


@dataclass(frozen=True, eq=False, repr=False)
class Cheat(Filter):
    """Overrides what it must not, in the way it is told."""

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
        ("doubles", "cheat: the same item stands twice in what it passed on"),
        ("invents", "cheat: passed on candidates it was not given"),
        ("brings back", "cheat: passed on candidates it was not given"),
        ("replaces", "cheat: passed on candidates it was not given"),
    ],
)
def test_a_stage_that_cheats_is_named(how, message):
    pipeline = listed("a", [0, 1, 2]) >> Seen0() >> Cheat(how)
    with pytest.raises(ConservationError, match=message):
        run(pipeline, asked()).trace.check()


def test_a_trace_whose_sums_do_not_match_is_refused():
    trace = run_checked(listed("a", [0, 1, 2]) >> Seen0(), asked()).trace
    lost = replace(trace.steps[1], before=trace.steps[1].after)
    with pytest.raises(ConservationError, match="nominated is not returned"):
        replace(trace, steps=(trace.steps[0], lost)).check()


def test_the_trace_prints_as_a_table_with_nominators_and_notes():
    @dataclass(frozen=True, eq=False, repr=False)
    class Broken(Scorer):
        def score(self, query, found):
            raise ValueError("no weights")

    text = str(run_checked(listed("a", [0, 1, 2]) >> Seen0() >> Optional(Broken()), asked([], [])).trace)
    lines = text.splitlines()
    assert lines[0].split() == ["stage", "kind", "in", "kept", "removed", "cut", "ms"]
    assert lines[1].split()[:6] == ["pool", "nominator", "3", "3", "0", "0"]
    assert lines[2].split() == ["a", "named", "3"], "per request, like the rest of the table"
    assert lines[3].split()[:6] == ["seen0", "filter", "3", "2", "1", "0"]
    assert lines[5] == "  broken: degraded: ValueError: no weights"


def test_counts_are_plain_values_and_name_only_the_notes_of_their_request():
    trace = run_checked(listed("a", [0, 1, 2]) >> Dice(broken=True, sides=3), asked([], seeds=[3])).trace
    step = trace.steps[1]
    noted = replace(step, notes=(Note("d", "nonfinite", "", torch.tensor([0])), Note("d", "degraded")))
    counts = replace(trace, steps=(trace.steps[0], noted)).counts()
    assert counts[1]["notes"] == ["degraded"]
    assert [type(value) for value in counts[0].values()] == [str, str, int, int, int, int, float, list]


def test_the_tiny_pipeline_balances_for_all_kinds_of_users():
    trace = run_checked(tiny(), asked([], [1], list(range(30)))).trace
    assert trace.degraded == ()
    assert trace.names == ("pool", "seen", "available", "prerank", "rank", "diverse")
