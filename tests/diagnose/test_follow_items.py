import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from shortlist.evaluate.funnel import funnel, passage

from shortlist.data import Query
from shortlist.diagnose.follow_items import CATALOGUE, follow, room_of
from shortlist.diagnose.sample import Batch, UserSample, panel, returned
from shortlist.errors import ConfigError
from shortlist.evaluate.losses import decompose
from shortlist.grammar import as_pipeline
from shortlist.pipeline import Optional, Within, load_recommender
from shortlist.stages import Seen
from tests.diagnose.held_out_of import cases_of
from tests.pipeline.chances import pipelines
from tests.worlds import N_ITEMS, Last, RandomFilter, RandomScorer, listed, run_checked, tiny


def wants(users, seed=0, n_items=N_ITEMS, most=6):
    rng = np.random.default_rng(seed)
    people = [
        (rng.integers(0, n_items, 4), rng.integers(0, n_items, rng.integers(1, most))) for _ in range(users)
    ]
    return cases_of([(met.tolist(), later.tolist()) for met, later in people])


def slow_fate(pipeline, one):
    """For every pair, one by one: after how many stages the item was last seen."""
    found = []
    for batch in one.batches:
        for row in range(len(batch.truth)):
            steps = run_checked(pipeline, batch.query.take(slice(row, row + 1))).trace.steps
            for item in batch.truth[row].tolist():
                if item >= 0:
                    there = [item in step.after.items[step.after.valid].tolist() for step in steps]
                    found.append(there)
    return np.array(found)


@given(pipelines(), st.integers(0, 100))
@settings(max_examples=60, deadline=None)
def test_every_wanted_item_is_followed_as_by_hand_and_losses_add_up(pipeline, seed):
    one = panel(wants(5, seed), N_ITEMS, batch=2)
    whole = as_pipeline(pipeline)
    told = follow(whole, one)
    assert told.trace.alive.tolist() == slow_fate(whole, one).tolist()
    losses = decompose(told.trace)
    assert losses.alive[0] == one.wanted.sum()
    assert losses.alive[-1] == returned(whole, one).sum()
    assert losses.first_losses.sum() == losses.alive[0] - losses.alive[-1]
    assert losses.product_error == pytest.approx(losses.error, abs=1e-12)


def test_the_older_account_of_a_funnel_tells_the_same():
    one, pipeline = panel(wants(20), N_ITEMS), tiny()
    trace = run_checked(pipeline, one.batches[0].query).trace
    old = funnel(trace, [passage(trace, one.batches[0].truth)])
    told = follow(pipeline, one)
    losses = decompose(told.trace)
    assert [(stage.entered, stage.lost) for stage in old.stages] == list(
        zip(losses.alive[:-1].tolist(), losses.first_losses.tolist(), strict=True)
    )
    assert [stage.removed for stage in old.stages] == told.removed.sum(0).tolist()
    assert [stage.candidates for stage in old.stages] == told.kept.mean(0).tolist()
    assert {name: {"named": n, "alone": a} for name, (n, a) in told.named.items()} == old.nominators


@pytest.mark.parametrize("kind", ["bundle", "tree_bundle"])
def test_the_identity_holds_on_trained_pipelines(kind, world, request):
    recommender = load_recommender(request.getfixturevalue(kind))
    split = world.split(**recommender.about["split"])
    told = follow(recommender.pipeline, panel(split.test, len(recommender.catalog)))
    losses = decompose(told.trace)
    assert losses.first_losses.sum() == losses.alive[0] - losses.alive[-1]
    assert losses.product_error == pytest.approx(losses.error, abs=1e-12)


def test_levels_of_a_beam_are_stages_and_the_last_of_them_is_what_was_retrieved(world, tree_bundle):
    recommender = load_recommender(tree_bundle)
    split = world.split(**recommender.about["split"])
    one = panel(split.test, len(recommender.catalog))
    plain, deep = follow(recommender.pipeline, one), follow(recommender.pipeline, one, levels=True)
    height = len(deep.seats) - len(plain.seats)
    assert [seat.name for seat in deep.seats[:height]] == [f"tree level {n}" for n in range(1, height + 1)]
    shallow, whole = decompose(plain.trace), decompose(deep.trace)
    assert whole.alive[height + 1 :].tolist() == shallow.alive[1:].tolist()
    assert whole.first_losses[: height + 1].sum() == shallow.first_losses[0]
    assert whole.first_losses[:height].sum() > 0  # a beam of 8 loses something on its way


def test_levels_need_a_pool_that_is_one_tree():
    with pytest.raises(ConfigError, match="one tree"):
        follow(tiny(), panel(wants(2), N_ITEMS), levels=True)


def test_what_lies_outside_the_catalogue_is_lost_before_the_first_stage():
    pipeline = as_pipeline(listed("a", [0, 1, 2]) >> Seen(name="seen"))
    told = follow(pipeline, panel(cases_of([([5], [1, 9]), ([9], [2])]), 6))
    assert (told.seats[0].name, told.seats[0].kind) == (CATALOGUE, CATALOGUE)
    assert decompose(told.trace).alive.tolist() == [3, 2, 2, 2]
    inside = follow(pipeline, panel(cases_of([([5], [1])]), 6))
    assert inside.seats[0].name == "pool"


def test_a_cut_has_no_room_for_more_wanted_items_than_places():
    pipeline = as_pipeline(listed("a", [0, 1, 2, 3]) >> RandomScorer(name="rank", sides=1) % 2)
    told = follow(pipeline, panel(cases_of([([9], [0, 1, 2]), ([9], [3])]), 10))
    assert told.no_room.tolist() == [[0, 1], [0, 0]]
    losses = decompose(told.trace)
    assert losses.first_losses.tolist() == [0, 2]


def test_what_could_be_returned_is_lost_once_and_adds_up():
    """A pool that leaves enough to fill the slate has lost nothing that could have been returned."""
    pipeline = as_pipeline(
        listed("a", range(6)) >> RandomFilter(name="sieve") >> RandomScorer(name="rank", sides=3) % 2
    )
    cases = cases_of([([39], list(range(12))), ([38], [0, 1, 2]), ([37], [30])])
    told = follow(pipeline, panel(cases, N_ITEMS))
    lost = np.stack([np.bincount(told.case[one], minlength=3) for one in _lost(told)], axis=1)
    could = lost - told.no_room
    assert (could >= 0).all()
    held = np.minimum(np.bincount(told.case), 2) - told.returned(3)
    assert could.sum(1).tolist() == held.tolist()
    assert could[0, 0] == 0
    assert could[2, 0] == 1


def _lost(told):
    return (told.trace.before & ~told.trace.alive).T


def test_a_funnel_without_any_cut_has_room_for_everything():
    told = follow(
        as_pipeline(listed("a", [0, 1]) >> Seen(name="seen")), panel(cases_of([([9], [0, 1, 2])]), 10)
    )
    assert told.no_room.sum() == 0


def test_a_stage_that_passes_on_fewer_than_it_may_is_counted():
    pipeline = as_pipeline(listed("a", [0, 1, 2]) >> Seen(name="seen") >> RandomScorer(name="rank") % 3)
    told = follow(pipeline, panel(cases_of([([0], [1]), ([9], [1])]), 10))
    assert told.short.tolist() == [[False, False, True], [False, False, False]]
    assert [seat.ordered_by for seat in told.seats] == ["pool", "pool", "rank"]


def test_the_first_of_the_slate_is_looked_at_and_notes_are_counted():
    pipeline = as_pipeline(listed("a", [4, 5]) >> RandomScorer(name="dice", sides=3, broken=True))
    told = follow(pipeline, panel(cases_of([([9], [4]), ([9], [5]), ([8], [7])]), 10))
    first = [
        run_checked(pipeline, panel(cases_of([([9], [4]), ([9], [5]), ([8], [7])]), 10).batches[0].query)
    ]
    expected = [int(row[0]) in wish for row, wish in zip(first[0].items, ({4}, {5}, {7}), strict=True)]
    assert told.first.tolist() == expected
    broken = sum(int(note.count.sum()) for note in first[0].candidates.notes)
    assert sum(note.count for note in told.notes) == broken


def test_the_room_of_a_guarded_stage_is_that_of_what_it_guards():
    assert room_of(Optional(Last(k=4))) == 4
    assert room_of(Optional(RandomScorer() % 5)) == 5
    assert room_of(Seen()) is None


def test_nobody_named_anything_loses_everything_at_the_pool():
    one = UserSample(cases_of([([1], [2])]), (Batch(Query.of([[1]]), torch.tensor([[2]])),), 10)
    told = follow(as_pipeline(listed("a", [-1, -1])), one)
    assert decompose(told.trace).alive.tolist() == [1, 0]


def test_a_cut_inside_of_a_guard_is_a_cut():
    """What a guarded scorer does not let through was cut, not said no to."""
    one = panel(cases_of([([9], [0, 1, 2]), ([9], [3])]), 10)
    scorer = RandomScorer(name="rank", sides=1)
    told = [
        follow(as_pipeline(listed("a", [0, 1, 2, 3]) >> stage), one)
        for stage in (scorer % 2, Optional(scorer % 2), Within(scorer % 2, ms=1e5))
    ]
    for guarded in told[1:]:
        assert guarded.removed.sum() == 0
        assert guarded.no_room.tolist() == told[0].no_room.tolist() == [[0, 1], [0, 0]]
        assert guarded.trace.alive.tolist() == told[0].trace.alive.tolist()


def test_what_is_in_the_slates_is_counted_there():
    one = panel(wants(20), N_ITEMS)
    told = follow(tiny(), one)
    slates = [run_checked(tiny(), batch.query).items for batch in one.batches]
    by_hand = [
        len(set(slate.tolist()) & set(wish.tolist()) - {-1})
        for slate, wish in zip(torch.cat(slates), one.batches[0].truth, strict=True)
    ]
    assert told.slate.tolist() == by_hand == told.returned(len(one)).tolist()
