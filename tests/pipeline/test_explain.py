"""Explanations equal a replay of the stages by hand, for every item of the catalogue."""

import json
import math

import pytest
from hypothesis import given, settings

from shortlist.artifact.as_json import as_json
from shortlist.data import Candidates
from shortlist.grammar import Filter, Selector, Top, as_pipeline
from shortlist.pipeline import explain
from tests.pipeline.strategies import pipelines, requests
from tests.worlds import N_ITEMS, Last, RandomFilter, RandomScorer, listed, query_of, run_checked, tiny


def number(value):
    return value if math.isfinite(value) else None


def alive(field, row=0):
    """The (item, score) of one request's candidates, in their order."""
    kept = field.valid[row]
    return list(zip(field.items[row][kept].tolist(), field.scores[row][kept].tolist(), strict=True))


def ranked(candidates):
    """Items by score, ties in their order, non-finite scores last."""
    low = (score if math.isfinite(score) else -math.inf for _, score in candidates)
    order = sorted(zip(low, range(len(candidates)), strict=True), key=lambda pair: (-pair[0], pair[1]))
    return [candidates[at][0] for _, at in order]


def replay(pipeline, query, item):
    """The outcome of one item, by calling the bare stages: (stage, verdict, rank, of, score, needed)."""
    field = Candidates.none(1)
    for stage in as_pipeline(pipeline).stages:
        inner = stage.inner if isinstance(stage, Top) else stage
        before = alive(field)
        uncut = inner(query, field)
        field = uncut.best(stage.k) if isinstance(stage, Top) else uncut
        selecting = isinstance(getattr(inner, "inner", inner), Selector)
        ranking = before if selecting else alive(uncut)
        if item in dict(alive(field)):
            continue
        if field is uncut and not isinstance(inner, Filter) and not before:
            return None
        if isinstance(inner, Filter) and item not in dict(ranking):
            return stage.title, "removed", 0, len(ranking), None, None
        if item not in dict(ranking):
            return None
        needed = None
        if not selecting and not isinstance(inner, Filter) and inner.kind != "hydrator":
            needed = number(min((s for _, s in alive(field)), default=math.inf))
        return (
            stage.title,
            "cut",
            ranked(ranking).index(item) + 1,
            len(ranking),
            number(dict(ranking)[item]),
            needed,
        )
    return "returned"


def agrees(pipeline, query):
    slate = run_checked(pipeline, query)
    for item in range(N_ITEMS):
        explained = explain(slate.trace, item)
        expected = replay(pipeline, query, item)
        if expected is None:
            assert (explained.verdict, explained.outcomes) == ("not nominated", ())
        elif expected == "returned":
            assert explained.verdict == "returned"
            assert slate.items[0, explained.position - 1].item() == item
            assert [outcome.verdict for outcome in explained.outcomes] == ["nominated"] + ["kept"] * (
                len(explained.outcomes) - 1
            )
        else:
            last = explained.outcomes[-1]
            got = (explained.dropped_at, explained.verdict, last.rank, last.of, last.score, last.threshold)
            assert got == pytest.approx(expected) if None not in got else got == expected
            assert explained.position == 0


@settings(max_examples=60, deadline=None)
@given(pipelines(), requests())
def test_explanation_of_every_item_equals_a_replay(pipeline, query):
    agrees(pipeline, query.take(slice(0, 1)))


@pytest.mark.parametrize("history", [[], [4], [1, 2, 3, 4, 5, 6, 7, 8]])
def test_explanations_of_the_tiny_pipeline_equal_a_replay(history):
    agrees(tiny(), query_of(history))


def test_item_is_explained_for_each_request_of_a_batch():
    pipeline, query = tiny(), query_of([], [4], [1, 2, 3])
    whole = run_checked(pipeline, query).trace
    for row in range(3):
        alone = run_checked(pipeline, query.take(slice(row, row + 1))).trace
        for item in range(N_ITEMS):
            one, other = explain(whole, item, row), explain(alone, item)
            assert (one.verdict, one.dropped_at, one.position) == (
                other.verdict,
                other.dropped_at,
                other.position,
            )


def test_position_counts_items_and_not_empty_places():
    slate = run_checked(listed("a", list(range(12))) >> Last() >> RandomFilter(salt=2), query_of())
    for position, item in enumerate(slate.items[0][slate.items[0] >= 0].tolist(), start=1):
        assert explain(slate.trace, item).position == position


def test_every_nomination_of_an_item_is_listed():
    pool = listed("a", [5, 6], [0.9, math.nan]) + listed("b", [7, 6], [3.0, 2.0])
    explained = explain(run_checked(pool, query_of()).trace, 6)
    assert [(one.nominator, one.score, one.rank, one.of) for one in explained.nominations] == [
        ("a", None, 2, 2),
        ("b", 2.0, 2, 2),
    ]


def test_sentence_names_the_stage_and_the_reason():
    pipeline = listed("a", list(range(20))) >> RandomFilter(salt=2) >> RandomScorer(salt=1) % 6 >> Last() % 2
    trace = run_checked(pipeline, query_of()).trace
    sentences = {explain(trace, item).sentence("It") for item in range(21)}
    assert "It was returned at position 1." in sentences
    assert "It was not nominated by any nominator." in sentences
    assert "It was removed by the filter 'randomfilter'." in sentences
    assert any(one.startswith("It was not selected by 'last'; its rank was ") for one in sentences)
    assert any(
        one.startswith("It was cut at 'randomscorer': rank ") and one.endswith(" was needed.")
        for one in sentences
    )


def test_explanation_can_be_written_as_json():
    trace = run_checked(listed("a", [1, 2]) >> RandomScorer(broken=True, sides=3), query_of()).trace
    for item in (1, 2, 3):
        explained = as_json(explain(trace, item))
        assert json.loads(json.dumps(explained, allow_nan=False))["item"] == item
