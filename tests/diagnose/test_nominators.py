import pytest

from shortlist.diagnose.follow_items import follow
from shortlist.diagnose.nominators import attribution
from shortlist.diagnose.sample import panel
from shortlist.grammar import as_pipeline
from shortlist.stages import Seen
from tests.diagnose.held_out_of import cases_of
from tests.diagnose.test_follow_items import wants
from tests.worlds import N_ITEMS, listed, run_checked, tiny


def told(pipeline, cases, n_items=10):
    one = panel(cases, n_items)
    return attribution(pipeline, one, follow(pipeline, one))


def test_leaving_a_nominator_out_costs_what_it_alone_named():
    pipeline = as_pipeline(listed("a", [1, 2]) + listed("b", [2, 3]))
    found = told(pipeline, cases_of([([0], [1, 2]), ([0], [3]), ([0], [7])]))
    assert (found["a"].named, found["a"].alone, found["a"].without.mean) == (2, 1, -0.25)
    assert (found["b"].named, found["b"].alone, found["b"].without.mean) == (2, 1, -0.25)


def test_a_nominator_that_crowds_out_better_ones_is_worth_less_than_nothing():
    # With noise in the pool the cut keeps 8 and 9, which nobody wants.
    pipeline = as_pipeline(listed("noise", [8, 9]) + listed("good", [1, 2]) >> Seen(name="cut") % 2)
    found = told(pipeline, cases_of([([0], [1, 2])]))
    assert found["noise"].without.mean > 0 > found["good"].without.mean


def test_the_only_nominator_takes_everything_with_it():
    pipeline = as_pipeline(listed("only", [1, 2]) >> Seen(name="seen"))
    found = told(pipeline, cases_of([([0], [1, 5])]))
    assert found["only"].without.mean == -0.5
    assert found["only"].as_dict()["alone"] == 1


def test_everything_else_is_really_run_again():
    pipeline, cases = tiny(), wants(40)
    found = told(pipeline, cases, N_ITEMS)
    one = panel(cases, N_ITEMS)
    silent = as_pipeline(listed("popular", [-1]) + pipeline.nominators[1] + pipeline.nominators[2])
    other = as_pipeline(silent).stages + pipeline.stages[1:]
    slate = run_checked(type(pipeline)(other), one.batches[0].query)
    truth = one.batches[0].truth
    by_hand = sum(
        len(set(a[b].tolist()) & set(t.tolist()) - {-1})
        for a, b, t in zip(slate.candidates.items, slate.candidates.valid, truth, strict=True)
    )
    base = int(follow(pipeline, one).returned(len(one)).sum())
    assert found["popular"].without.mean == pytest.approx((by_hand - base) / int((truth >= 0).sum()))
    assert found["popular"].without.low <= found["popular"].without.mean <= found["popular"].without.high
