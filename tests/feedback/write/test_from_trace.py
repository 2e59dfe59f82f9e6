"""From a trace to logged requests: S, masks, ranks and positions against sets and loops."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from shortlist.data import Query, Vocabulary
from shortlist.errors import DataError
from shortlist.feedback.write.from_trace import RequestMeta, from_trace, request_id
from shortlist.grammar import Scorer
from shortlist.pipeline import Optional, run
from tests.feedback.logs import funnel, meta_of, traces
from tests.pipeline.strategies import pipelines, requests
from tests.worlds import Last, RandomFilter, listed, query_of, run_checked


def kept(step, row):
    return step.after.items[row][step.after.valid[row]].tolist()


@settings(max_examples=120, deadline=None)
@given(pipelines(), requests())
def test_stage_is_the_last_one_that_kept_the_candidate(pipeline, query):
    """Spec 22: I^i within I^{i-1}; #{S >= i} = |I^i|; dropped by stage k <=> S = k - 1."""
    slate = run_checked(pipeline, query)
    trace = slate.trace
    record = from_trace(trace, meta_of(trace))
    for row in range(len(query)):
        rows = slice(record.offsets[row], record.offsets[row + 1])
        items, reached = record.item_id[rows].tolist(), record.stage[rows].tolist()
        sets = [set(kept(step, row)) for step in trace.steps]
        assert dict(zip(items, reached, strict=True)) == {
            item: max((i for i, one in enumerate(sets, start=1) if item in one), default=0)
            for item in trace.nominated.items[row][trace.nominated.valid[row]].tolist()
        }
        for i, one in enumerate(sets, start=1):
            assert sum(s >= i for s in reached) == len(one) == record.n_out[row, i - 1]
            assert i == 1 or one <= sets[i - 2]
        slot = {
            item: place for item, place in zip(items, record.position[rows].tolist(), strict=True) if place
        }
        returned = [item for item in slate.items[row].tolist() if item >= 0]
        assert slot == {item: place for place, item in enumerate(returned, start=1)}
    removed = [step.entered - step.before_cut.valid.sum(1) for step in trace.steps]
    filters = [step.kind == "filter" for step in trace.steps]
    expected = [gone * flag for gone, flag in zip(removed, filters, strict=True)]
    assert np.array_equal(record.n_filtered, torch.stack(expected, dim=1))
    assert record.filtered.sum() == record.n_filtered.sum()
    assert np.array_equal(
        record.strata(),
        [
            np.bincount(record.stage[record.request == r], minlength=record.depth + 1)
            for r in range(len(record))
        ],
    )


@settings(max_examples=60, deadline=None)
@given(pipelines(), requests())
def test_mask_has_the_bit_of_every_nominator_that_returned_the_item(pipeline, query):
    trace = run(pipeline, query).trace
    record = from_trace(trace, meta_of(trace))
    for row in range(len(query)):
        rows = slice(record.offsets[row], record.offsets[row + 1])
        returned = [
            set(part.nominated.items[row][part.nominated.valid[row]].tolist())
            for part in trace.steps[0].parts
        ]
        for item, mask in zip(record.item_id[rows].tolist(), record.channel_mask[rows].tolist(), strict=True):
            assert mask == sum(1 << k for k, items in enumerate(returned) if item in items)


@settings(max_examples=60, deadline=None)
@given(pipelines(), requests())
def test_rank_is_the_place_in_the_list_of_each_nominator(pipeline, query):
    trace = run(pipeline, query).trace
    record = from_trace(trace, meta_of(trace))
    parts = [part.nominated for part in trace.steps[0].parts]
    for at, item in enumerate(record.item_id.tolist()):
        row = int(record.request[at])
        for number, part in enumerate(parts):
            places = [place for place, one in enumerate(part.items[row].tolist(), 1) if one == item]
            places = [place for place in places if part.valid[row, place - 1]]
            assert record.nominator_ranks[at, number] == (places[0] if places else 0)
    assert np.array_equal(
        record.nominator_ranks > 0, (record.channel_mask[:, None] >> np.arange(len(parts))) & 1
    )


@pytest.mark.parametrize("capacities", [(100, 40, 10), (60, 30, 20, 6), (30, 80, 8), (20, 10, 5, 3, 2)])
def test_funnel_sizes_are_capacities(capacities):
    """Spec 22: |I^i| = min(c_i, |I^{i-1}|)."""
    trace = traces(funnel(*capacities), 1, 4)[0]
    record = from_trace(trace, meta_of(trace))
    sizes = np.minimum.accumulate(capacities)
    assert (record.n_out == sizes).all()
    for i, size in enumerate(sizes, start=1):
        assert (np.bincount(record.request[record.stage >= i], minlength=4) == size).all()


def test_order_of_nominations_changes_neither_stages_nor_ranks_of_scorers():
    """Spec 22: permuting the input changes nothing; scores are distinct."""
    pipeline = funnel(30, 12, 5)
    rest = pipeline.stages[1:]
    shuffled = listed("all", np.random.default_rng(0).permutation(30).tolist())
    other = shuffled >> rest[0] >> rest[1]
    query = Query.of([[], []], seeds=[3, 4])
    one, two = (from_trace(t, meta_of(t)) for t in (run(pipeline, query).trace, run(other, query).trace))
    for row in range(2):
        first, second = (np.argsort(r.item_id[r.request == row]) for r in (one, two))
        for name in ("item_id", "stage", "position"):
            a, b = (getattr(r, name)[r.request == row][o] for r, o in ((one, first), (two, second)))
            assert np.array_equal(a, b)
        a, b = (r.ranks[r.request == row][o][:, 1:] for r, o in ((one, first), (two, second)))
        assert np.array_equal(a, b)


def test_ranks_and_scores_are_those_of_a_stages_input():
    trace = traces(funnel(30, 12, 5), 1)[0]
    record = from_trace(trace, meta_of(trace))
    for number, step in enumerate(trace.steps):
        found = step.before_cut
        pairs = list(
            zip(
                found.items[0][found.valid[0]].tolist(), found.scores[0][found.valid[0]].tolist(), strict=True
            )
        )
        ranked = sorted(pairs, key=lambda pair: -pair[1])
        expected = {item: (rank, score) for rank, (item, score) in enumerate(ranked, start=1)}
        for item, rank, score in zip(
            record.item_id, record.ranks[:, number], record.scores[:, number], strict=True
        ):
            assert (
                (int(rank), float(score)) == expected[item]
                if item in expected
                else rank == 0 and np.isnan(score)
            )


def test_stages_that_do_not_score_have_neither_scores_nor_ranks_and_selectors_have_places():
    trace = run(
        listed("a", range(9)) >> RandomFilter(name="some") >> Last(name="last", k=3), query_of()
    ).trace
    record = from_trace(trace, meta_of(trace))
    assert np.isnan(record.scores[:, 1:]).all()
    assert (record.ranks[:, 1] == 0).all()
    assert np.array_equal(record.ranks[:, 2], record.position)
    assert record.filtered[record.stage == 1].all()
    assert not record.filtered[record.stage != 1].any()


class Broken(Scorer):
    def score(self, query, found):
        raise ValueError("broken")


def test_policy_of_a_skipped_stage_is_missing():
    trace = run(listed("a", range(4)) >> Optional(Broken(name="rank")) % 2, query_of()).trace
    record = from_trace(trace, meta_of(trace, policy_version=(7, 8), capacities=(None, 2)))
    assert record.policy_version.tolist() == [[7, -1]]
    assert record.capacities.tolist() == [[-1, 2]]


def test_ids_of_the_catalogue_replace_rows():
    trace = run(listed("a", [2, 0]), query_of()).trace
    record = from_trace(trace, meta_of(trace), Vocabulary.of(["x", "y", "z"]))
    assert record.item_id.tolist() == ["z", "x"]


def test_request_ids_increase_with_time_and_fit_64_bits():
    ids = [
        request_id(ts, writer, 5) for ts in (0, 1, 1_700_000_000_000, (1 << 42) - 1) for writer in (0, 255)
    ]
    assert ids == sorted({*ids})
    assert ids[-1] < 1 << 63


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        (RequestMeta([1, 2], [1]), "each of 1 requests, got 2, 1 and 0"),
        (RequestMeta([1], [1], policy_version=[1, 2]), "one number for each of 1 stages, got 2"),
    ],
)
def test_meta_of_another_number_of_requests_or_stages_is_refused(meta, message):
    trace = run(listed("a", range(4)), query_of()).trace
    with pytest.raises(DataError, match=message):
        from_trace(trace, meta)


def test_request_without_candidates_is_logged():
    trace = run(listed("a", [-1, -1]) >> Last(name="last", k=2), Query.of([[], []])).trace
    record = from_trace(trace, meta_of(trace))
    assert len(record) == 2
    assert record.n_candidates == 0
    assert torch.equal(trace.nominated.valid.sum(1), torch.tensor([0, 0]))
