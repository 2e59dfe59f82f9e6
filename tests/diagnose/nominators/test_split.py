from dataclasses import replace

import numpy as np
import pytest

from shortlist.diagnose.nominators.lists import measure_lists
from shortlist.diagnose.nominators.report import NominatorCost
from shortlist.diagnose.nominators.split import Latency, Terms, advice, learn_split, with_limits
from shortlist.diagnose.not_measured import NotMeasured
from shortlist.diagnose.sample import hits_per_request, sample_users
from shortlist.grammar import as_pipeline
from shortlist.pipeline import Optional
from tests.diagnose.nominators.lists_of import own, relevant
from tests.worlds import RandomScorer, listed

USERS = 80
FREE = NominatorCost(1.0, 1.0, 0.0)


def world():
    """Even users find items 1 to 20 in a, odd users in b; c finds one item that nobody else has."""
    rows = np.arange(1, 21)
    a = [[*rows] if user % 2 == 0 else [*range(101, 121)] for user in range(USERS)]
    b = [[*rows] if user % 2 else [*range(201, 221)] for user in range(USERS)]
    pool = own("a", a, limit=5) + own("b", b, limit=5) + own("c", [[30, *range(31, 60)]] * USERS, limit=20)
    return pool >> RandomScorer(name="rank", sides=1) % 99, relevant([[*range(1, 10), 30]] * USERS)


def terms_of(pipeline, held_out, segment=None, **more):
    lists = measure_lists(as_pipeline(pipeline), sample_users(held_out, 300))
    fold = lists.user // 2 % 2
    own_segment = np.zeros(len(fold), np.int64) if segment is None else segment(lists)
    count = int(own_segment.max()) + 1
    return Terms(lists, fold, own_segment, count, [FREE] * len(lists.names), **more)


@pytest.mark.parametrize("same_candidates", [True, False])
def test_slots_move_from_a_long_list_to_those_that_find_more(same_candidates):
    learned = learn_split(terms_of(*world()), same_candidates)
    assert learned.limits.sum() <= 30
    assert learned.limits[0] >= 9
    assert learned.limits[1] >= 9
    assert learned.limits[2] >= 5  # the floor
    assert learned.gain.mean == pytest.approx(0.4)  # 9 of 10 items instead of 5, and 30 as before
    assert learned.gain.low > 0


def test_other_users_than_those_of_the_fit_are_measured():
    pipeline, held_out = world()
    terms = terms_of(pipeline, held_out)
    fold = terms.fold
    lists = terms.lists
    other = replace(lists, rank=np.where((fold == 1)[:, None], lists.rank[:, ::-1], lists.rank))
    changed = replace(terms, lists=other)
    assert learn_split(changed, True).limits.tolist() == learn_split(terms, True).limits.tolist()
    assert learn_split(changed, True).gain != learn_split(terms, True).gain


def test_segments_with_other_needs_get_other_limits():
    terms = terms_of(*world(), segment=lambda lists: lists.user % 2)
    even, odd = terms.limits(20, by_segment=True)  # too few for both: even users need a, odd users b
    assert even[0] >= 9 > odd[0]
    assert odd[1] >= 9 > even[1]
    learned = learn_split(terms, False)
    assert learned.gain_by_segment.mean >= learned.gain.mean
    assert [one.mean for one in learned.gains] == pytest.approx([0.4, 0.4])


def test_same_number_of_candidates_is_kept_where_lists_overlap():
    """Two nominators with the same list: one of them with all slots has twice as many candidates."""
    rows = [[*range(1, 41)]] * USERS
    pool = own("a", rows, limit=10) + own("b", rows, limit=10)
    terms = terms_of(pool, relevant([[*range(11, 20), 1]] * USERS))
    same, more = learn_split(terms, True), learn_split(terms, False)
    assert terms.lists.per_request(terms.lists.limits) == 10
    assert terms.lists.per_request(same.limits) <= 10
    assert same.gain.mean == 0
    assert terms.lists.per_request(more.limits) == 15  # one keeps the floor of 5, which adds nothing
    assert more.gain.mean == pytest.approx(0.5)


def test_limits_cost_no_more_than_the_latency():
    pipeline, held_out = world()
    terms = replace(
        terms_of(pipeline, held_out),
        costs=[NominatorCost(6.0, 1.0, 1.0), NominatorCost(1.0, 1.0, 0.0), NominatorCost(1.0, 1.0, 0.0)],
        latency=Latency(20.0, 8.5),
    )
    learned = learn_split(terms, False)
    spent = sum(cost.at(limit) for cost, limit in zip(terms.costs, learned.limits.tolist(), strict=True))
    assert spent <= 8.5
    assert learned.limits[0] == 5
    assert learned.limits[1] >= 9


@pytest.mark.parametrize(
    ("pool", "change", "why"),
    [
        (own("a", [[1]] * 4), {}, "there is one nominator"),
        (own("a", [[1]]) + own("b", [[2]]), {}, "too few users"),
        (own("a", [[7]] * 4) + own("b", [[8]] * 4), {}, "no nominator returns any of 2 positives"),
        (
            own("a", [[1]] * 4) + own("b", [[1]] * 4),
            {"latency": Latency(5.0, -1.0)},
            "alone take longer than 5 ms",
        ),
        (own("a", [[1]] * 4) + own("b", [[1]] * 4), {"latency": Latency(5.0, 0.1)}, "what the floors cost"),
    ],
)
def test_what_cannot_be_learned_says_why(pool, change, why):
    users = len(pool.children()[0].rows) if pool.children() else len(pool.rows)
    found = learn_split(replace(terms_of(pool, relevant([[1]] * users)), **change), True)
    assert isinstance(found, NotMeasured)
    assert why in found.why


def test_advice_is_measured_by_running_the_pipeline_again():
    pipeline, held_out = world()
    terms = terms_of(pipeline, held_out)
    whole, sample = as_pipeline(pipeline), terms.lists.sample
    found = advice(whole, terms, learn_split(terms, False), hits_per_request(whole, sample))
    assert found.current == {"a": 5, "b": 5, "c": 20}
    assert found.changed
    assert (found.users, found.users_fitted) == (40, 40)
    assert found.returned.mean == pytest.approx(found.gain.mean)  # the ranker cuts nothing
    assert found.candidates[0] == 30
    assert found.ms == (3.0, 3.0)
    assert found.budget_ms is None


def test_advice_to_change_nothing_runs_nothing():
    rows = [[1, 2], [1, 2], [1, 2], [1, 2]]
    terms = terms_of(own("a", rows, limit=2) + own("b", [[3, 4]] * 4, limit=2), relevant([[1, 2, 3, 4]] * 4))
    learned = learn_split(terms, False)
    found = advice(None, terms, learned, np.full(4, 4))  # no pipeline to run
    assert not found.changed
    assert found.gain.mean == found.returned.mean == 0


def test_limits_are_set_inside_of_guards_and_a_nominator_without_slots_is_silent():
    pool = Optional(listed("a", [1, 2, 3])) + listed("b", [4, 5]) + listed("c", [6])
    pipeline = as_pipeline(pool >> RandomScorer(name="rank"))
    changed = with_limits(pipeline, {"a": 2, "b": 0})
    assert repr(changed.stages[0]) == "Optional(a % 2) + b % 100 + c % 100"
    found = changed.stages[0](sample_users(relevant([[1]]), 10).batches[0].query, None)
    assert found.items[found.valid].tolist() == [1, 2, 6]
