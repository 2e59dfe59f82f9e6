from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.data import Query
from shortlist.data.membership import is_in
from shortlist.diagnose.follow_items import follow_relevant_items
from shortlist.diagnose.sample import count_hits, sample_users
from shortlist.diagnose.what_if import WhatIf, by_arithmetic, oracle, replay_oracles, what_if
from shortlist.evaluate.losses import decompose
from shortlist.grammar import Filter, Scorer, as_pipeline
from shortlist.pipeline import run
from shortlist.stages import Seen
from tests.diagnose.held_out import held_out_of
from tests.diagnose.test_follow_items import random_requests
from tests.evaluate.test_losses import nested
from tests.pipeline.strategies import salts
from tests.worlds import N_ITEMS, Label, Last, RandomFilter, RandomNominator, RandomScorer, listed, tiny


@st.composite
def pointwise(draw):
    """Pipelines in which every stage scores each candidate independently and scores have no ties."""
    pipeline = RandomNominator(width=draw(st.integers(1, 20)), salt=draw(salts), name="n0", limit=20)
    for number in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from([RandomFilter, RandomScorer, Label]))
        name, salt = f"s{number}", draw(salts)
        stage = Label(name=name) if kind is Label else kind(salt=salt, name=name)
        stage = stage.renewed(sides=1_000_003) if kind is RandomScorer else stage
        pipeline = pipeline >> (stage % draw(st.integers(1, 12)) if draw(st.booleans()) else stage)
    return as_pipeline(pipeline)


def test_worked_example_of_ceiling_and_same_rates():
    ceiling, same = by_arithmetic(decompose(nested([8, 6, 3], 10)), 0)
    assert (ceiling, same) == (0.2, pytest.approx(0.075))


def test_unknown_rates_are_left_out():
    assert by_arithmetic(decompose(nested([0, 0], 4)), 0) == (1.0, 1.0)
    assert by_arithmetic(decompose(nested([2, 0, 0], 4)), 0) == (0.5, 0.0)
    assert by_arithmetic(decompose(nested([0], 0)), 0) == (None, None)


@given(pointwise(), st.integers(0, 100))
@settings(max_examples=80, deadline=None)
def test_oracle_gains_at_most_what_its_stage_lost(pipeline, seed):
    sample = sample_users(random_requests(6, seed), N_ITEMS, batch=4)
    followed = follow_relevant_items(pipeline, sample)
    base = followed.hits(len(sample))
    oracles, _ = replay_oracles(pipeline, sample)
    lost = np.zeros((len(sample), len(followed.stages)), np.int64)
    np.add.at(lost, followed.request, followed.trace.before & ~followed.trace.alive)
    assert ((oracles - base[:, None]) <= lost).all()


@given(pointwise(), st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_perfect_last_stage_misses_only_what_was_lost_before(pipeline, seed):
    sample = sample_users(
        random_requests(6, seed, most=2), N_ITEMS
    )  # one relevant item each: there is always a place
    followed = follow_relevant_items(pipeline, sample)
    oracles, _ = replay_oracles(pipeline, sample)
    before = np.zeros(len(sample), np.int64)
    np.add.at(before, followed.request, followed.trace.before[:, -1])
    assert oracles[:, -1].tolist() == before.tolist()


@given(st.integers(0, 300))
@settings(max_examples=60, deadline=None)
def test_oracle_passes_on_as_many_candidates_and_loses_no_relevant_one(seed):
    sample = sample_users(random_requests(5, seed), N_ITEMS)
    batch, pipeline = sample.batches[0], tiny(seed % 7)
    with torch.no_grad():
        steps = run(pipeline, batch.query).trace.steps
    for step in steps:
        for first in (False, True):
            found = oracle(step, batch.relevant, N_ITEMS, first)
            assert torch.equal(found.valid.sum(1), step.after.valid.sum(1))
            for row in range(len(found.items)):
                items = found.items[row][found.valid[row]].tolist()
                assert len(set(items)) == len(items)
                slots = found.slot[row][found.valid[row]]
                assert len(set(slots.tolist())) == len(items)
                assert bool((slots < len(found.origin)).all())
            relevant = is_in(step.after.items, batch.relevant) & step.after.valid
            kept = is_in(step.after.items, found.items.masked_fill(~found.valid, -1))
            assert bool((kept | ~relevant).all())
            spare = (step.after.valid & ~relevant).sum(1)
            gained = count_hits(found, batch.relevant) - count_hits(step.after, batch.relevant)
            assert (gained <= spare.numpy()).all()


def test_last_ranked_candidates_are_replaced_by_relevant_ones():
    pipeline = as_pipeline(listed("a", [0, 1, 2, 3]) >> Seen(name="cut") % 2)
    step = run(pipeline, Query.of([[9]])).trace.steps[-1]
    assert step.after.items[0].tolist() == [0, 1]
    found = oracle(step, torch.tensor([[3]]), 10)
    assert found.items[0][found.valid[0]].tolist() == [0, 3]
    both = oracle(step, torch.tensor([[1, 3]]), 10)
    assert sorted(both.items[0][both.valid[0]].tolist()) == [1, 3]


def test_relevant_item_without_nomination_gets_the_columns_of_the_last():
    pipeline = as_pipeline(listed("a", [0, 1]) + listed("b", [1, 2]))
    step = run(pipeline, Query.of([[9]])).trace.steps[0]
    found = oracle(step, torch.tensor([[7, 8, -1]]), 8)  # 8 lies outside the catalogue
    place = int((found.items[0] == 7).nonzero()[0])
    assert bool(found.valid[0, place])
    assert sorted(found.items[0][found.valid[0]].tolist()) == [0, 1, 7]
    assert float(found.columns["b.rank"][0, place]) == 1.0
    assert float(found.scores[0, place]) == float(step.threshold[0])


def test_gain_is_measured_through_the_later_stages():
    # 5 is not nominated. An oracle pool nominates it in place of 3; the ranker then scores it.
    held_out = held_out_of([([9], [5])] * 3)
    for sides in (10_007, 1):
        pipeline = as_pipeline(listed("a", [0, 1, 2, 3]) >> RandomScorer(name="rank", sides=sides) % 2)
        sample = sample_users(held_out, 10)
        what_ifs = what_if(pipeline, sample, follow_relevant_items(pipeline, sample))
        by_hand = 0
        for row in range(3):
            query = sample.batches[0].query.take(slice(row, row + 1))
            other = as_pipeline(listed("a", [0, 1, 2, 5]) >> RandomScorer(name="rank", sides=sides) % 2)
            by_hand += 5 in run(other, query).items[0].tolist()
        assert what_ifs[0].oracle.mean == pytest.approx(by_hand / 3)
        assert what_ifs[0].ceiling == 1.0
        assert what_ifs[1].oracle.mean == 0.0  # no relevant item reached the ranker


def test_scorer_before_a_selector_has_a_gain_of_perfect_order():
    sample = sample_users(random_requests(30), N_ITEMS)
    pipeline = as_pipeline(tiny())
    what_ifs = dict(
        zip(
            [stage.name for stage in follow_relevant_items(pipeline, sample).stages],
            what_if(pipeline, sample, follow_relevant_items(pipeline, sample)),
            strict=True,
        )
    )
    assert what_ifs["seen"].order is what_ifs["diverse"].order is None
    assert what_ifs["rank"].order.mean >= what_ifs["rank"].oracle.mean


def test_stages_of_every_kind_have_an_oracle():
    sample = sample_users(random_requests(4), N_ITEMS)
    pipeline = as_pipeline(
        RandomNominator(name="n0", width=9)
        >> Label(name="label")
        >> Last(name="last", k=6)
        >> (RandomFilter(name="sieve") >> RandomScorer(name="dice") % 4)
        >> Seen(name="seen") % 3
    )
    what_ifs = what_if(pipeline, sample, follow_relevant_items(pipeline, sample))
    assert len(what_ifs) == len(pipeline.stages)
    assert all(one.oracle.mean >= -1 for one in what_ifs)


def test_catalogue_has_no_oracle():
    sample = sample_users(held_out_of([([1], [9, 2])]), 5)
    pipeline = as_pipeline(listed("a", [2, 3]))
    what_ifs = what_if(pipeline, sample, follow_relevant_items(pipeline, sample))
    assert what_ifs[0] == WhatIf(0.5, 0.5, None, None)


def test_empty_places_are_filled_with_relevant_items():
    """A user without candidates, or whose candidates are all removed, can get the relevant items."""
    sample = sample_users(held_out_of([([9], [5]), ([9], [0, 5])]), 10)
    for nothing in (listed("a", [-1, -1]), listed("a", [])):
        pipeline = as_pipeline(nothing >> RandomScorer(name="rank", sides=1) % 2)
        what_ifs = what_if(pipeline, sample, follow_relevant_items(pipeline, sample))
        assert what_ifs[0].oracle.mean == what_ifs[0].order.mean == what_ifs[0].ceiling == 1.0
    pipeline = as_pipeline(
        listed("a", [5, 9, 0]) >> Shut(name="none") >> RandomScorer(name="rank", sides=1) % 2
    )
    what_ifs = what_if(pipeline, sample, follow_relevant_items(pipeline, sample))
    assert [each.oracle.mean for each in what_ifs] == [0.0, 1.0, 0.0]


def test_oracle_passes_on_no_more_than_the_capacity():
    sample = sample_users(held_out_of([([9], [4, 5, 6])]), 10)
    pipeline = as_pipeline(listed("a", [0], limit=2) >> Seen(name="seen"))
    what_ifs = what_if(pipeline, sample, follow_relevant_items(pipeline, sample))
    assert what_ifs[0].oracle.mean == pytest.approx(2 / 3)
    relevant = sample.batches[0].relevant
    step = run(pipeline, sample.batches[0].query).trace.steps[0]
    for capacity, hits in ((1, 1), (2, 2), (3, 3), (9, 3)):
        assert count_hits(oracle(step, relevant, 10, capacity), relevant).tolist() == [hits]


def test_scores_that_are_all_nan_have_a_perfect_order():
    sample = sample_users(held_out_of([([9], [5])] * 3), 10)
    pipeline = as_pipeline(listed("a", [0, 1, 5]) >> Blank(name="rank") % 1)
    what_ifs = what_if(pipeline, sample, follow_relevant_items(pipeline, sample))
    assert what_ifs[1].order.mean == 1.0


@dataclass(frozen=True, eq=False, repr=False)
class Shut(Filter):
    """Removes everything."""

    def keep(self, query, found):
        return torch.zeros_like(found.valid)


@dataclass(frozen=True, eq=False, repr=False)
class Blank(Scorer):
    """Scores NaN."""

    def score(self, query, found):
        return torch.full(found.shape, torch.nan)
