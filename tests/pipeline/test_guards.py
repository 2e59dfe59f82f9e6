"""Guards: a guarded stage may fail or be late and the trace records it; a filter may not be guarded."""

import threading
from concurrent.futures import Future
from dataclasses import dataclass, field

import pytest
import torch

from shortlist.errors import GrammarError
from shortlist.grammar import Nominator, Scorer, Selector
from shortlist.pipeline import Optional, Within
from tests.worlds import Label, Last, RandomFilter, RandomScorer, listed, query_of, run_checked


@dataclass(frozen=True, eq=False, repr=False)
class BadNominator(Nominator):
    def nominate(self, query):
        raise ConnectionError("index is away")


@dataclass(frozen=True, eq=False, repr=False)
class BadScorer(Scorer):
    def score(self, query, found):
        raise ValueError("no weights")


@dataclass(frozen=True, eq=False, repr=False)
class BadSelector(Selector):
    def select(self, query, found):
        raise ZeroDivisionError("oops")


@dataclass(frozen=True, eq=False, repr=False)
class Slow(Scorer):
    """A scorer that waits for an event."""

    gate: threading.Event = field(default_factory=threading.Event)
    begun: threading.Event = field(default_factory=threading.Event)

    def score(self, query, found):
        self.begun.set()
        assert self.gate.wait(30)
        return -found.items.float()


@pytest.fixture
def slow():
    stage = Slow(name="slow")
    yield stage
    stage.gate.set()  # release any call that still waits


POOL = listed("a", [4, 5, 6, 7])


def test_failed_nominator_nominates_nothing_and_the_others_fill_the_slate():
    slate = run_checked(POOL + Optional(BadNominator(name="bad")) >> RandomScorer() % 3, query_of([], []))
    assert (slate.items >= 0).sum(1).tolist() == [3, 3]
    (note,) = slate.trace.degraded
    assert (note.stage, note.what, note.detail) == ("bad", "degraded", "ConnectionError: index is away")
    assert slate.trace.steps[0].parts[1].count.tolist() == [0, 0]


def test_failed_scorer_keeps_the_order():
    slate = run_checked(POOL >> Optional(BadScorer()), query_of())
    assert slate.items[0].tolist() == [4, 5, 6, 7]
    assert slate.trace.degraded[0].detail == "ValueError: no weights"
    assert slate.trace.steps[1].kind == "scorer"


def test_failed_selector_is_replaced_by_the_best_by_score():
    slate = run_checked(POOL >> Optional(BadSelector() % 2), query_of())
    assert slate.items[0].tolist() == [4, 5]
    assert slate.trace.steps[1].cut.tolist() == [2]


@pytest.mark.parametrize(
    "guarded",
    [
        Optional(BadScorer()) % 2,
        Optional(BadScorer() % 2),
        Optional(Within(BadSelector() % 2, ms=60_000)),
        Optional(Label() >> BadScorer() % 3 >> Last() % 2),
    ],
    ids=repr,
)
def test_cut_is_applied_when_its_stage_failed(guarded):
    slate = run_checked(POOL >> guarded, query_of())
    assert slate.items[0].tolist() == [4, 5]
    assert len(slate.trace.degraded) == 1


def test_failure_without_a_guard_fails_the_request():
    with pytest.raises(ValueError, match="no weights"):
        run_checked(POOL >> BadScorer(), query_of())


def test_slate_is_empty_when_all_nominators_fail():
    slate = run_checked(
        Optional(BadNominator()) >> RandomFilter() >> RandomScorer() % 2 >> Last(), query_of([], [])
    )
    assert slate.items.shape == (2, 0)
    assert len(slate.trace.degraded) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: Optional(RandomFilter()),
        lambda: Optional(RandomFilter() % 3),
        lambda: Within(RandomFilter(), ms=5),
        lambda: Optional(Optional(RandomScorer()) >> RandomFilter()),
        lambda: Within(RandomScorer() >> RandomFilter(), ms=5),
    ],
)
def test_guarded_filter_is_refused(make):
    with pytest.raises(GrammarError, match="a skipped filter would let every candidate pass"):
        make()


def test_filter_inside_a_guarded_nominator_is_allowed():
    inner = BadNominator(name="bad") >> RandomFilter()
    assert run_checked(POOL + Optional(inner), query_of()).items[0, :4].tolist() == [4, 5, 6, 7]


def test_guard_has_the_kind_of_its_stage_and_is_part_of_the_expression():
    assert Optional(Last()).kind == "selector"
    pipeline = (
        Optional(POOL % 3) + Within(listed("b", [1]), ms=7.5) >> Optional(RandomScorer(name="dice")) % 4
    )
    assert repr(pipeline) == "Optional(a % 3) + Within(b % 100, ms=7.5) >> Optional(dice) % 4"
    assert repr(Optional(listed("b", [1])) % 9) == "Optional(b % 9)"
    assert Optional(RandomScorer(), name="x").title == "x"


@pytest.mark.parametrize("ms", [0, -1, float("nan"), float("inf")])
def test_time_limit_must_be_positive_and_finite(ms):
    with pytest.raises(GrammarError, match="ms must be positive"):
        Within(RandomScorer(), ms=ms)


def test_stage_within_its_time_limit_gives_the_same_slate_as_without_a_guard():
    query = query_of([1], [2])
    guarded, bare = (
        run_checked(POOL >> Within(RandomScorer(), ms=60_000) % 2, query),
        run_checked(POOL >> RandomScorer() % 2, query),
    )
    assert torch.equal(guarded.items, bare.items)
    assert guarded.trace.degraded == ()


def test_late_stage_is_skipped_until_its_call_has_ended(slow):
    guard = Within(slow, ms=1)
    late = run_checked(POOL >> guard % 2, query_of())
    assert late.items[0].tolist() == [4, 5], "the order so far"
    assert [note.detail for note in late.trace.degraded] == ["timeout: not done within 1 ms"]
    assert slow.begun.wait(30)
    busy = run_checked(POOL >> guard % 2, query_of())
    assert [note.detail for note in busy.trace.degraded] == ["busy: an earlier call is still running"]
    (work,) = guard._late
    slow.gate.set()
    work.result(30)
    patient = guard.renewed(ms=60_000)
    assert run_checked(POOL >> patient % 2, query_of()).trace.degraded == ()


def test_guard_calls_its_stage_again_after_the_late_call_has_ended(slow):
    guard = Within(slow, ms=1)
    run_checked(POOL >> guard, query_of())
    (work,) = guard._late
    slow.gate.set()
    work.result(30)
    again = run_checked(POOL >> guard, query_of())
    assert "busy" not in "".join(note.detail for note in again.trace.degraded)


def test_calls_behind_a_late_call_are_cancelled(slow):
    calls = []

    @dataclass(frozen=True, eq=False, repr=False)
    class Counted(Scorer):
        def score(self, query, found):
            calls.append(1)
            return slow.score(query, found)

    guard = Within(Counted(), ms=100)
    first = threading.Thread(target=run_checked, args=(POOL >> guard, query_of()))
    first.start()
    assert slow.begun.wait(30)
    assert len(run_checked(POOL >> guard, query_of()).trace.degraded) == 1
    first.join(30)
    slow.gate.set()
    guard._worker.submit(int).result(30)  # calls that were submitted before have ended
    assert calls == [1]


def test_exception_passes_through_a_time_limit():
    with pytest.raises(ValueError, match="no weights"):
        run_checked(POOL >> Within(BadScorer(), ms=60_000), query_of())
    (note,) = run_checked(POOL >> Optional(Within(BadScorer(), ms=60_000)), query_of()).trace.degraded
    assert note.detail == "ValueError: no weights"


def test_timeout_error_of_the_stage_itself_is_a_failure():
    @dataclass(frozen=True, eq=False, repr=False)
    class Remote(Scorer):
        def score(self, query, found):
            raise TimeoutError("no answer from the remote side")

    with pytest.raises(TimeoutError, match="no answer from the remote side"):
        run_checked(POOL >> Within(Remote(), ms=60_000), query_of())


def test_stage_that_ends_exactly_at_its_time_limit_is_in_time():
    class JustDone(Future):
        def result(self, timeout=None):
            if timeout is not None:
                raise TimeoutError
            return super().result()

    class Worker:
        def submit(self, call, *arguments):
            work = JustDone()
            work.set_result(call(*arguments))
            return work

    guard = Within(RandomScorer(), ms=1)
    guard.__dict__["_worker"] = Worker()
    assert run_checked(POOL >> guard, query_of()).trace.degraded == ()


def test_late_nominator_nominates_nothing_and_late_selector_is_replaced_by_the_best(slow):
    @dataclass(frozen=True, eq=False, repr=False)
    class SlowSelector(Selector):
        def select(self, query, found):
            assert slow.gate.wait(30)
            return found.items

    @dataclass(frozen=True, eq=False, repr=False)
    class SlowNominator(Nominator):
        def nominate(self, query):
            assert slow.gate.wait(30)

    pool = POOL + Within(SlowNominator(), ms=1)
    slate = run_checked(pool >> Within(SlowSelector(), ms=1) % 2, query_of())
    assert slate.items[0].tolist() == [4, 5]
    assert [note.stage for note in slate.trace.degraded] == ["slownominator", "slowselector"]
