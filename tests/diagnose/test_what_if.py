from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.data import Query
from shortlist.data.membership import is_in
from shortlist.diagnose.follow_items import follow
from shortlist.diagnose.sample import hits, panel
from shortlist.diagnose.what_if import by_arithmetic, oracle, replayed, what_if
from shortlist.evaluate.losses import decompose
from shortlist.grammar import Filter, Scorer, as_pipeline
from shortlist.pipeline import run
from shortlist.stages import Seen
from tests.diagnose.held_out_of import cases_of
from tests.diagnose.test_follow_items import wants
from tests.evaluate.test_losses import nested
from tests.pipeline.chances import salts
from tests.worlds import N_ITEMS, Label, Last, RandomFilter, RandomNominator, RandomScorer, listed, tiny


@st.composite
def pointwise(draw):
    """Pipelines in which every stage judges each candidate for itself and scores have no ties."""
    pipeline = RandomNominator(width=draw(st.integers(1, 20)), salt=draw(salts), name="n0", limit=20)
    for number in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from([RandomFilter, RandomScorer, Label]))
        name, salt = f"s{number}", draw(salts)
        stage = Label(name=name) if kind is Label else kind(salt=salt, name=name)
        stage = stage.renewed(sides=1_000_003) if kind is RandomScorer else stage
        pipeline = pipeline >> (stage % draw(st.integers(1, 12)) if draw(st.booleans()) else stage)
    return as_pipeline(pipeline)


def test_the_worked_numbers_of_ceiling_and_same_rates():
    ceiling, same = by_arithmetic(decompose(nested([8, 6, 3], 10)), 0)
    assert (ceiling, same) == (0.2, pytest.approx(0.075))


def test_rates_that_nobody_knows_are_left_out():
    assert by_arithmetic(decompose(nested([0, 0], 4)), 0) == (1.0, 1.0)
    assert by_arithmetic(decompose(nested([2, 0, 0], 4)), 0) == (0.5, 0.0)
    assert by_arithmetic(decompose(nested([0], 0)), 0) == (None, None)


@given(pointwise(), st.integers(0, 100))
@settings(max_examples=80, deadline=None)
def test_what_an_oracle_gains_is_at_most_what_its_stage_lost(pipeline, seed):
    one = panel(wants(6, seed), N_ITEMS, batch=4)
    told = follow(pipeline, one)
    base = told.returned(len(one))
    oracles, _ = replayed(pipeline, one)
    lost = np.zeros((len(one), len(told.seats)), np.int64)
    np.add.at(lost, told.case, told.trace.before & ~told.trace.alive)
    assert ((oracles - base[:, None]) <= lost).all()


@given(pointwise(), st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_a_perfect_last_stage_errs_only_by_what_was_lost_before_it(pipeline, seed):
    one = panel(wants(6, seed, most=2), N_ITEMS)  # one wanted item each: there is always room
    told = follow(pipeline, one)
    oracles, _ = replayed(pipeline, one)
    before = np.zeros(len(one), np.int64)
    np.add.at(before, told.case, told.trace.before[:, -1])
    assert oracles[:, -1].tolist() == before.tolist()


@given(st.integers(0, 300))
@settings(max_examples=60, deadline=None)
def test_an_oracle_passes_on_as_many_candidates_each_once_and_no_wanted_one_less(seed):
    one = panel(wants(5, seed), N_ITEMS)
    batch, pipeline = one.batches[0], tiny(seed % 7)
    with torch.no_grad():
        steps = run(pipeline, batch.query).trace.steps
    for step in steps:
        for first in (False, True):
            found = oracle(step, batch.truth, N_ITEMS, first)
            assert torch.equal(found.valid.sum(1), step.after.valid.sum(1))
            for row in range(len(found.items)):
                items = found.items[row][found.valid[row]].tolist()
                assert len(set(items)) == len(items)
                slots = found.slot[row][found.valid[row]]
                assert len(set(slots.tolist())) == len(items)
                assert bool((slots < len(found.origin)).all())
            wanted = is_in(step.after.items, batch.truth) & step.after.valid
            kept = is_in(step.after.items, found.items.masked_fill(~found.valid, -1))
            assert bool((kept | ~wanted).all())
            spare = (step.after.valid & ~wanted).sum(1)
            gained = hits(found, batch.truth) - hits(step.after, batch.truth)
            assert (gained <= spare.numpy()).all()


def test_the_last_ranked_give_way_to_the_wanted():
    pipeline = as_pipeline(listed("a", [0, 1, 2, 3]) >> Seen(name="cut") % 2)
    step = run(pipeline, Query.of([[9]])).trace.steps[-1]
    assert step.after.items[0].tolist() == [0, 1]
    found = oracle(step, torch.tensor([[3]]), 10)
    assert found.items[0][found.valid[0]].tolist() == [0, 3]
    wanted = oracle(step, torch.tensor([[1, 3]]), 10)
    assert sorted(wanted.items[0][wanted.valid[0]].tolist()) == [1, 3]


def test_a_wanted_item_that_nobody_named_stands_where_the_last_of_the_pool_stood():
    pipeline = as_pipeline(listed("a", [0, 1]) + listed("b", [1, 2]))
    step = run(pipeline, Query.of([[9]])).trace.steps[0]
    found = oracle(step, torch.tensor([[7, 8, -1]]), 8)  # 8 lies outside the catalogue
    place = int((found.items[0] == 7).nonzero()[0])
    assert bool(found.valid[0, place])
    assert sorted(found.items[0][found.valid[0]].tolist()) == [0, 1, 7]
    assert float(found.columns["b.rank"][0, place]) == 1.0
    assert float(found.scores[0, place]) == float(step.threshold[0])


def test_the_gain_is_measured_through_the_later_stages():
    # 5 is not named. An oracle pool names it in place of 3; the ranker then puts it by its own score.
    cases = cases_of([([9], [5])] * 3)
    for sides in (10_007, 1):
        pipeline = as_pipeline(listed("a", [0, 1, 2, 3]) >> RandomScorer(name="rank", sides=sides) % 2)
        one = panel(cases, 10)
        told = what_if(pipeline, one, follow(pipeline, one))
        by_hand = 0
        for row in range(3):
            query = one.batches[0].query.take(slice(row, row + 1))
            other = as_pipeline(listed("a", [0, 1, 2, 5]) >> RandomScorer(name="rank", sides=sides) % 2)
            by_hand += 5 in run(other, query).items[0].tolist()
        assert told[0].oracle.mean == pytest.approx(by_hand / 3)
        assert told[0].ceiling == 1.0
        assert told[1].oracle.mean == 0.0  # nothing wanted came to the ranker


def test_a_scorer_before_a_selector_is_also_asked_what_its_order_would_bring():
    one = panel(wants(30), N_ITEMS)
    pipeline = as_pipeline(tiny())
    told = dict(
        zip(
            [seat.name for seat in follow(pipeline, one).seats],
            what_if(pipeline, one, follow(pipeline, one)),
            strict=True,
        )
    )
    assert told["seen"].order is told["diverse"].order is None
    assert told["rank"].order.mean >= told["rank"].oracle.mean
    assert told["rank"].as_dict()["order"]["mean"] == told["rank"].order.mean


def test_stages_of_any_kind_can_be_replayed():
    one = panel(wants(4), N_ITEMS)
    pipeline = as_pipeline(
        RandomNominator(name="n0", width=9)
        >> Label(name="label")
        >> Last(name="last", k=6)
        >> (RandomFilter(name="sieve") >> RandomScorer(name="dice") % 4)
        >> Seen(name="seen") % 3
    )
    told = what_if(pipeline, one, follow(pipeline, one))
    assert len(told) == len(pipeline.stages)
    assert all(one.oracle.mean >= -1 for one in told)


def test_the_catalogue_cannot_be_replaced_by_an_oracle():
    one = panel(cases_of([([1], [9, 2])]), 5)
    pipeline = as_pipeline(listed("a", [2, 3]))
    told = what_if(pipeline, one, follow(pipeline, one))
    assert told[0].as_dict() == {"ceiling": 0.5, "same_rates": 0.5, "oracle": None, "order": None}


def test_places_that_stayed_empty_are_for_the_wanted():
    """A user to whom nobody names anything, or whose candidates a filter takes all, can be given what is wanted."""
    one = panel(cases_of([([9], [5]), ([9], [0, 5])]), 10)
    for nothing in (listed("a", [-1, -1]), listed("a", [])):
        pipeline = as_pipeline(nothing >> RandomScorer(name="rank", sides=1) % 2)
        told = what_if(pipeline, one, follow(pipeline, one))
        assert told[0].oracle.mean == told[0].order.mean == told[0].ceiling == 1.0
    pipeline = as_pipeline(
        listed("a", [5, 9, 0]) >> Shut(name="none") >> RandomScorer(name="rank", sides=1) % 2
    )
    told = what_if(pipeline, one, follow(pipeline, one))
    assert [each.oracle.mean for each in told] == [0.0, 1.0, 0.0]


def test_no_oracle_passes_on_more_than_there_is_room_for():
    one = panel(cases_of([([9], [4, 5, 6])]), 10)
    pipeline = as_pipeline(listed("a", [0], limit=2) >> Seen(name="seen"))
    told = what_if(pipeline, one, follow(pipeline, one))
    assert told[0].oracle.mean == pytest.approx(2 / 3)
    step = run(pipeline, one.batches[0].query).trace.steps[0]
    for room, wanted in ((1, 1), (2, 2), (3, 3), (9, 3)):
        assert hits(oracle(step, one.batches[0].truth, 10, room), one.batches[0].truth).tolist() == [wanted]


def test_scores_that_are_all_no_numbers_can_be_put_in_order():
    one = panel(cases_of([([9], [5])] * 3), 10)
    pipeline = as_pipeline(listed("a", [0, 1, 5]) >> Blank(name="rank") % 1)
    told = what_if(pipeline, one, follow(pipeline, one))
    assert told[1].order.mean == 1.0


@dataclass(frozen=True, eq=False, repr=False)
class Shut(Filter):
    """Says no to everything."""

    def keep(self, query, found):
        return torch.zeros_like(found.valid)


@dataclass(frozen=True, eq=False, repr=False)
class Blank(Scorer):
    """Gives no numbers."""

    def score(self, query, found):
        return torch.full(found.shape, torch.nan)
