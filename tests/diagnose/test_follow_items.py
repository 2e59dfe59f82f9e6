from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.data import Query
from shortlist.diagnose.follow_items import CATALOGUE, follow_relevant_items
from shortlist.diagnose.sample import Batch, UserSample, hits_per_request, sample_users
from shortlist.errors import ConfigError
from shortlist.evaluate.losses import batch_losses, decompose, total_losses
from shortlist.grammar import Selector, as_pipeline
from shortlist.pipeline import Optional, Within, load_recommender
from shortlist.stages import Seen
from tests.diagnose.held_out import held_out_of
from tests.pipeline.strategies import pipelines
from tests.worlds import N_ITEMS, Last, RandomFilter, RandomScorer, listed, run_checked, tiny


def random_requests(users, seed=0, n_items=N_ITEMS, most=6):
    rng = np.random.default_rng(seed)
    people = [
        (rng.integers(0, n_items, 4), rng.integers(0, n_items, rng.integers(1, most))) for _ in range(users)
    ]
    return held_out_of([(history.tolist(), later.tolist()) for history, later in people])


def slow_alive(pipeline, sample):
    """For every pair, one by one: whether the item is a candidate after each stage."""
    found = []
    for batch in sample.batches:
        for row in range(len(batch.relevant)):
            steps = run_checked(pipeline, batch.query.take(slice(row, row + 1))).trace.steps
            for item in batch.relevant[row].tolist():
                if item >= 0:
                    there = [item in step.after.items[step.after.valid].tolist() for step in steps]
                    found.append(there)
    return np.array(found)


@given(pipelines(), st.integers(0, 100))
@settings(max_examples=60, deadline=None)
def test_followed_items_equal_a_trace_by_hand_and_losses_add_up(pipeline, seed):
    sample = sample_users(random_requests(5, seed), N_ITEMS, batch=2)
    whole = as_pipeline(pipeline)
    followed = follow_relevant_items(whole, sample)
    assert followed.trace.alive.tolist() == slow_alive(whole, sample).tolist()
    losses = decompose(followed.trace)
    assert losses.alive[0] == sample.n_relevant.sum()
    assert losses.alive[-1] == hits_per_request(whole, sample).sum()
    assert losses.first_losses.sum() == losses.alive[0] - losses.alive[-1]
    assert losses.product_error == pytest.approx(losses.error, abs=1e-12)


def test_followed_items_equal_the_stage_losses_of_evaluate():
    sample, pipeline = sample_users(random_requests(20), N_ITEMS), tiny()
    trace = run_checked(pipeline, sample.batches[0].query).trace
    _, account = total_losses([batch_losses(trace, sample.batches[0].relevant, sample.users)])
    followed = follow_relevant_items(pipeline, sample)
    losses = decompose(followed.trace)
    assert [(stage.entered, stage.lost) for stage in account.stages] == list(
        zip(losses.alive[:-1].tolist(), losses.first_losses.tolist(), strict=True)
    )
    assert [stage.removed for stage in account.stages] == followed.removed.sum(0).tolist()
    assert [stage.candidates for stage in account.stages] == followed.candidates.mean(0).tolist()
    assert followed.nominators == account.nominators


@pytest.mark.parametrize("kind", ["bundle", "tree_bundle"])
def test_losses_balance_on_trained_pipelines(kind, world, request):
    recommender = load_recommender(request.getfixturevalue(kind))
    split = world.split(**recommender.about.split)
    followed = follow_relevant_items(recommender.pipeline, sample_users(split.test, len(recommender.catalog)))
    losses = decompose(followed.trace)
    assert losses.first_losses.sum() == losses.alive[0] - losses.alive[-1]
    assert losses.product_error == pytest.approx(losses.error, abs=1e-12)


def test_levels_of_a_beam_are_stages_that_end_with_what_was_retrieved(world, tree_bundle):
    recommender = load_recommender(tree_bundle)
    split = world.split(**recommender.about.split)
    sample = sample_users(split.test, len(recommender.catalog))
    plain, deep = (
        follow_relevant_items(recommender.pipeline, sample),
        follow_relevant_items(recommender.pipeline, sample, levels=True),
    )
    height = len(deep.stages) - len(plain.stages)
    assert [stage.name for stage in deep.stages[:height]] == [f"tree level {n}" for n in range(1, height + 1)]
    shallow, whole = decompose(plain.trace), decompose(deep.trace)
    assert whole.alive[height + 1 :].tolist() == shallow.alive[1:].tolist()
    assert whole.first_losses[: height + 1].sum() == shallow.first_losses[0]
    assert whole.first_losses[:height].sum() > 0  # a beam of 8 loses something on its way


def test_levels_need_a_pool_that_is_one_tree():
    with pytest.raises(ConfigError, match="one tree"):
        follow_relevant_items(tiny(), sample_users(random_requests(2), N_ITEMS), levels=True)


def test_items_outside_the_catalogue_are_lost_before_the_first_stage():
    pipeline = as_pipeline(listed("a", [0, 1, 2]) >> Seen(name="seen"))
    followed = follow_relevant_items(pipeline, sample_users(held_out_of([([5], [1, 9]), ([9], [2])]), 6))
    assert (followed.stages[0].name, followed.stages[0].kind) == (CATALOGUE, CATALOGUE)
    assert decompose(followed.trace).alive.tolist() == [3, 2, 2, 2]
    inside = follow_relevant_items(pipeline, sample_users(held_out_of([([5], [1])]), 6))
    assert inside.stages[0].name == "pool"


def test_losses_beyond_the_cut_are_unavoidable():
    pipeline = as_pipeline(listed("a", [0, 1, 2, 3]) >> RandomScorer(name="rank", sides=1) % 2)
    followed = follow_relevant_items(pipeline, sample_users(held_out_of([([9], [0, 1, 2]), ([9], [3])]), 10))
    assert followed.unavoidable.tolist() == [[0, 1], [0, 0]]
    losses = decompose(followed.trace)
    assert losses.first_losses.tolist() == [0, 2]


def test_avoidable_losses_add_up_to_what_slates_could_hold():
    """A pool that leaves enough to fill the slate has lost nothing that could have been returned."""
    pipeline = as_pipeline(
        listed("a", range(6)) >> RandomFilter(name="sieve") >> RandomScorer(name="rank", sides=3) % 2
    )
    held_out = held_out_of([([39], list(range(12))), ([38], [0, 1, 2]), ([37], [30])])
    followed = follow_relevant_items(pipeline, sample_users(held_out, N_ITEMS))
    lost = np.stack([np.bincount(followed.request[one], minlength=3) for one in _lost(followed)], axis=1)
    could = lost - followed.unavoidable
    assert (could >= 0).all()
    held = np.minimum(np.bincount(followed.request), 2) - followed.hits(3)
    assert could.sum(1).tolist() == held.tolist()
    assert could[0, 0] == 0
    assert could[2, 0] == 1


def _lost(followed):
    return (followed.trace.before & ~followed.trace.alive).T


def test_funnel_without_a_cut_has_no_unavoidable_losses():
    followed = follow_relevant_items(
        as_pipeline(listed("a", [0, 1]) >> Seen(name="seen")),
        sample_users(held_out_of([([9], [0, 1, 2])]), 10),
    )
    assert followed.unavoidable.sum() == 0


def test_underfilled_stages_are_counted():
    pipeline = as_pipeline(listed("a", [0, 1, 2]) >> Seen(name="seen") >> RandomScorer(name="rank") % 3)
    followed = follow_relevant_items(pipeline, sample_users(held_out_of([([0], [1]), ([9], [1])]), 10))
    assert followed.underfilled.tolist() == [[False, False, True], [False, False, False]]
    assert [stage.ordered_by for stage in followed.stages] == ["pool", "pool", "rank"]


def test_relevant_first_items_and_notes_are_counted():
    pipeline = as_pipeline(listed("a", [4, 5]) >> RandomScorer(name="dice", sides=3, broken=True))
    followed = follow_relevant_items(
        pipeline, sample_users(held_out_of([([9], [4]), ([9], [5]), ([8], [7])]), 10)
    )
    first = [
        run_checked(
            pipeline, sample_users(held_out_of([([9], [4]), ([9], [5]), ([8], [7])]), 10).batches[0].query
        )
    ]
    expected = [
        int(row[0]) in relevant for row, relevant in zip(first[0].items, ({4}, {5}, {7}), strict=True)
    ]
    assert followed.first_relevant.tolist() == expected
    broken = sum(int(note.count.sum()) for note in first[0].candidates.notes)
    assert sum(note.count for note in followed.notes) == broken


def test_capacity_of_a_guarded_stage_is_that_of_its_inner_stage():
    assert Optional(Last(k=4)).capacity == 4
    assert Optional(RandomScorer() % 5).capacity == 5
    assert Seen().capacity is None


def test_empty_pool_loses_everything():
    sample = UserSample(held_out_of([([1], [2])]), (Batch(Query.of([[1]]), torch.tensor([[2]])),), 10)
    followed = follow_relevant_items(as_pipeline(listed("a", [-1, -1])), sample)
    assert decompose(followed.trace).alive.tolist() == [1, 0]


def test_cut_inside_of_a_guard_is_a_cut():
    """What a guarded scorer does not pass on was cut, not removed by a filter."""
    sample = sample_users(held_out_of([([9], [0, 1, 2]), ([9], [3])]), 10)
    scorer = RandomScorer(name="rank", sides=1)
    followed = [
        follow_relevant_items(as_pipeline(listed("a", [0, 1, 2, 3]) >> stage), sample)
        for stage in (scorer % 2, Optional(scorer % 2), Within(scorer % 2, ms=1e5))
    ]
    for guarded in followed[1:]:
        assert guarded.removed.sum() == 0
        assert guarded.unavoidable.tolist() == followed[0].unavoidable.tolist() == [[0, 1], [0, 0]]
        assert guarded.trace.alive.tolist() == followed[0].trace.alive.tolist()


def test_hits_are_counted_in_the_slates():
    sample = sample_users(random_requests(20), N_ITEMS)
    followed = follow_relevant_items(tiny(), sample)
    slates = [run_checked(tiny(), batch.query).items for batch in sample.batches]
    by_hand = [
        len(set(slate.tolist()) & set(relevant.tolist()) - {-1})
        for slate, relevant in zip(torch.cat(slates), sample.batches[0].relevant, strict=True)
    ]
    assert followed.in_slate.tolist() == by_hand == followed.hits(len(sample)).tolist()


@dataclass(frozen=True, eq=False, repr=False)
class Best(Selector):
    """Selects the best by score."""

    def select(self, query, found):
        return found.sort_keys().sort(dim=1, descending=True, stable=True).indices


def ordered_slates(selector):
    """A funnel of 12 items that ends with a selector of 4 of them, on 30 requests."""
    pool = listed("a", list(range(12)))
    pipeline = as_pipeline(pool >> RandomScorer(name="rank", sides=8) >> selector % 4)
    return pipeline, sample_users(random_requests(30, 1, n_items=12), 12)


def test_selector_that_keeps_the_best_by_score_decides_no_loss():
    followed = follow_relevant_items(*ordered_slates(Best(name="slate")))
    lost = int((~followed.trace.alive[:, -1]).sum())
    assert followed.by_order[:, -1].sum() + followed.unavoidable[:, -1].sum() == lost > 0
    assert followed.by_order[:, :-1].sum() == 0


def test_own_losses_of_a_selector_are_those_the_best_by_score_would_keep():
    pipeline, sample = ordered_slates(Last(name="slate"))
    followed = follow_relevant_items(pipeline, sample)
    best = hits_per_request(ordered_slates(Best(name="slate"))[0], sample)
    avoidable = (~followed.trace.alive[:, -1]).sum() - followed.unavoidable[:, -1].sum()
    own = avoidable - followed.by_order[:, -1].sum()
    could = [np.minimum(hits, 4).sum() for hits in (best, hits_per_request(pipeline, sample))]
    assert own == could[0] - could[1] != 0


def test_cut_after_a_filter_loses_by_the_order_before_it():
    pool = listed("a", list(range(12)))
    pipeline = as_pipeline(
        pool >> RandomScorer(name="rank", sides=8) >> RandomFilter(name="rule", sides=3) % 4
    )
    followed = follow_relevant_items(pipeline, sample_users(random_requests(30, 1, n_items=12), 12))
    lost = ~followed.trace.alive[:, -1]
    assert followed.stages[-1].ordered_by == "rank"
    cut = int((lost & ~followed.removed[:, -1]).sum())
    assert 0 < followed.by_order[:, -1].sum() <= cut < lost.sum()
