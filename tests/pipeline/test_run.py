"""Slates do not depend on the rest of the batch, are best first, and every stage is timed."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings

from shortlist.data import Query
from shortlist.errors import GrammarError
from shortlist.pipeline import Optional, run
from tests.pipeline.strategies import pipelines, requests
from tests.worlds import Label, Last, RandomFilter, RandomScorer, listed, query_of, run_checked, tiny


def alone(pipeline, query, row):
    slate = run_checked(pipeline, query.take(slice(row, row + 1)))
    return shown(slate, 0)


def shown(slate, row):
    kept = slate.candidates.valid[row]
    return list(zip(slate.items[row][kept].tolist(), slate.scores[row][kept].tolist(), strict=True))


@settings(max_examples=80, deadline=None)
@given(pipelines(), requests())
def test_slate_does_not_depend_on_the_rest_of_the_batch(pipeline, query):
    slate = run_checked(pipeline, query)
    for row in range(len(query)):
        assert shown(slate, row) == alone(pipeline, query, row)


@settings(max_examples=80, deadline=None)
@given(pipelines(), requests())
def test_slate_has_no_repeats_and_its_empty_places_come_last(pipeline, query):
    slate = run_checked(pipeline, query)
    for items, scores in zip(slate.items.tolist(), slate.scores.tolist(), strict=True):
        kept = [item for item in items if item >= 0]
        assert len(set(kept)) == len(kept)
        assert items == kept + [-1] * (len(items) - len(kept))
        assert all(score == -math.inf for score in scores[len(kept) :])


def test_tiny_pipeline_gives_the_same_slate_alone_and_in_a_batch():
    pipeline = tiny()
    query = query_of([], [1], [5, 6, 7, 8, 9, 10, 11, 12], [2, 3])
    slate = run_checked(pipeline, query)
    assert slate.items.shape == (4, 5)
    for row in range(4):
        assert [item for item, _ in alone(pipeline, query, row)] == slate.items[row].tolist()


def test_slate_is_ordered_by_score_without_a_selector():
    slate = run_checked(listed("a", [1, 2, 3, 4]) + listed("b", [4]) >> RandomScorer(salt=2), query_of())
    assert slate.scores[0].tolist() == sorted(slate.scores[0].tolist(), reverse=True)
    pooled = run_checked(listed("a", [1, 2, 3]) + listed("b", [3]), query_of())
    assert pooled.items[0, :3].tolist() == [3, 1, 2], "nominated by two comes first"


def test_order_of_a_selector_survives_filters_and_guards():
    pool = listed("a", [1, 2, 3, 4])
    for last in (Last(), Optional(Last()), Last() >> Label()):
        assert run_checked(pool >> last, query_of()).items[0, :4].tolist() == [4, 3, 2, 1]
    chosen = run_checked(pool >> Last() >> RandomFilter(salt=1), query_of()).items[0]
    kept = chosen[chosen >= 0].tolist()
    assert 0 < len(kept) < 4
    assert kept == sorted(kept, reverse=True)
    assert run_checked(pool >> Last() >> RandomScorer(), query_of()).trace.names == (
        "pool",
        "last",
        "randomscorer",
    )


def test_stage_times_come_from_the_given_clock():
    ticks = itertools.count()
    slate = run(
        listed("a", [1]) + listed("b", [2]) >> RandomScorer(), query_of(), clock=lambda: next(ticks) / 1e3
    )
    pool, dice = slate.trace.steps
    assert [part.ms for part in pool.parts] == pytest.approx([1, 1])
    assert (pool.ms, dice.ms) == pytest.approx((5, 1))


def test_pipeline_without_nominators_is_refused():
    with pytest.raises(GrammarError, match="begin with a nominator"):
        run(RandomScorer() >> RandomFilter(), query_of())


def test_slate_is_empty_when_nothing_is_nominated():
    slate = run_checked(listed("a", []) >> RandomFilter() >> RandomScorer() % 3 >> Last(), query_of([1], []))
    assert slate.items.shape == (2, 0)
    assert slate.trace.fate.shape == (2, 0)


def test_empty_batch_gives_no_slates():
    assert run_checked(tiny(), Query.of([])).items.shape[0] == 0


def test_same_request_gives_the_same_slate():
    query = query_of([1, 2, 3], [4])
    one, two = run_checked(tiny(), query), run_checked(tiny(), query)
    assert torch.equal(one.items, two.items)
    assert torch.equal(one.scores, two.scores)
