import numpy as np
import pytest

from shortlist.artifact.as_json import as_json
from shortlist.diagnose.follow_items import follow_relevant_items
from shortlist.diagnose.funnel import measure_funnel
from shortlist.diagnose.nominators.measure import measure_nominators
from shortlist.diagnose.not_measured import NotMeasured
from shortlist.diagnose.sample import hits_per_request, sample_users
from shortlist.nominate import Split, TreeNominator
from shortlist.pipeline import load_recommender
from shortlist.pipeline.offline import offline
from tests.diagnose.nominators.lists_of import own, relevant
from tests.diagnose.test_follow_items import random_requests
from tests.worlds import N_ITEMS, RandomScorer, tiny


def measured(pipeline, held_out, n_items=100, **more):
    sample, whole = sample_users(held_out, n_items), offline(pipeline)
    return measure_nominators(whole, sample, hits_per_request(whole, sample), **more)


@pytest.fixture(scope="module")
def found():
    return measured(tiny(), random_requests(90), N_ITEMS)


def test_shares_add_up_and_are_ordered(found):
    own = [one.found for one in found.nominators.values()]
    assert sum(one.shapley.mean for one in own) == pytest.approx(found.recall.mean)
    for one in own:
        means = [part.mean for part in (one.refilled, one.leave_one_out, one.shapley, one.solo)]
        assert means == sorted(means)
        assert all(part.low <= part.mean <= part.high for part in (one.solo, one.shapley, one.refilled))


def test_reveal_ratios_are_those_of_the_funnel(found):
    sample, whole = sample_users(random_requests(90), N_ITEMS), offline(tiny())
    for name, ratio in measure_funnel(whole, sample, 5).nominators.items():
        reveal = found.nominators[name].reveal
        assert reveal.share.mean == pytest.approx(ratio.reveal_share)
        assert reveal.split.mean == pytest.approx(ratio.reveal_share_split)
    slots = sum(one.limit for one in found.nominators.values())
    for one in found.nominators.values():
        assert one.reveal.efficiency == pytest.approx(one.reveal.split.mean * slots / one.limit)


def test_counts_are_those_of_the_trace(found):
    followed = follow_relevant_items(offline(tiny()), sample_users(random_requests(90), N_ITEMS))
    assert found.relevant == len(followed.request)
    assert found.distinct == pytest.approx(followed.candidates[:, 0].mean())
    assert found.raw == pytest.approx(sum(one.returned for one in found.nominators.values()))
    assert found.raw >= found.distinct


def test_segments_hold_every_user_once(found):
    assert sum(one.users for one in found.segments) == found.users
    assert sum(one.relevant for one in found.segments) == found.relevant
    for one in found.segments:
        assert sum(share.shapley.mean for share in one.found.values()) == pytest.approx(one.recall.mean)
        assert set(one.limits) == set(found.nominators)


def test_same_seed_gives_the_same_report_whatever_the_times(found):
    assert measured(tiny(), random_requests(90), N_ITEMS) == found
    assert all(one.cost.ms > 0 for one in found.nominators.values())
    assert all(one.points_per_ms is not None for one in found.nominators.values())


def test_overlap_is_the_share_of_the_candidates_of_the_first():
    one = measured(own("a", [[1, 2, 3, 4]]) + own("b", [[3, 4, 5, 6, 7]]) + own("c", [[]]), relevant([[1]]))
    assert one.overlap["a"] == {"a": 1.0, "b": 0.5, "c": 0.0}
    assert one.overlap["b"]["a"] == pytest.approx(0.4)
    assert one.overlap["c"] == dict.fromkeys("abc")


def test_single_nominator_is_all_of_the_pool_and_nothing_is_split():
    one = measured(own("only", [[1, 2]] * 40) >> RandomScorer(name="rank") % 1, relevant([[1, 5]] * 40))
    own_share = one.nominators["only"].found
    assert own_share.solo == own_share.shapley == own_share.leave_one_out == own_share.refilled == one.recall
    assert one.nominators["only"].reveal.share.mean == 1
    assert isinstance(one.split, NotMeasured)
    assert one.split.why == "there is one nominator, so there is nothing to split"
    assert [segment.limits for segment in one.segments] == [{}]


def test_nominator_that_returns_nothing_and_empty_slates_are_defined():
    one = measured(
        own("a", [[]] * 40) + own("b", [[]] * 40) >> RandomScorer(name="rank") % 3, relevant([[1]] * 40)
    )
    value = one.nominators["a"]
    assert (one.recall.mean, value.found.shapley.mean, one.raw) == (0, 0, 0)
    assert value.reveal.share.mean is None
    assert value.reveal.efficiency is None
    assert isinstance(one.split, NotMeasured)
    assert as_json(one)["nominators"]["a"]["reveal"]["share"]["mean"] is None


def test_budget_below_the_later_stages_says_so():
    one = measured(own("a", [[1]] * 40) + own("b", [[2]] * 40), relevant([[1]] * 40), budget_ms=1e-6)
    assert "the other stages alone take longer" in one.split.why


def test_pipeline_with_a_split_has_limits_of_its_own():
    rows = [[1, 2]] * 40
    limits = Split(name="split", nominators=("a", "b"), limits=((1, 1),), k=2)
    one = measured(own("a", rows) + own("b", rows) >> limits, relevant([[1]] * 40))
    assert (
        one.split
        == one.same_slots
        == NotMeasured("'split' splits the candidates already, by limits of its own")
    )
    assert one.nominators["a"].found.shapley.mean == 0.5


def test_pool_of_trees_is_measured(tree_bundle, world):
    recommender = load_recommender(tree_bundle)
    (tree,) = recommender.pipeline.nominators
    assert isinstance(tree, TreeNominator)
    narrow = tree.renewed(name="narrow", limit=5)
    held_out = world.split(**recommender.about.split).valid.take(slice(0, 40))
    one = measured(narrow + tree.renewed(name="wide", limit=20), held_out, len(recommender.catalog))
    assert [value.longest for value in one.nominators.values()] == [20, 80]
    assert np.isclose(sum(value.found.shapley.mean for value in one.nominators.values()), one.recall.mean)
    assert one.nominators["wide"].found.solo.mean >= one.nominators["narrow"].found.leave_one_out.mean
