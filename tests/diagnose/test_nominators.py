import numpy as np
import pytest

from shortlist.diagnose.follow_items import follow_relevant_items
from shortlist.diagnose.nominators import attribute
from shortlist.diagnose.sample import sample_users
from shortlist.grammar import as_pipeline
from shortlist.stages import Seen
from tests.diagnose.held_out import held_out_of
from tests.diagnose.test_follow_items import random_requests
from tests.worlds import N_ITEMS, listed, run_checked, tiny


def reports(pipeline, held_out, n_items=10):
    sample = sample_users(held_out, n_items)
    return attribute(pipeline, sample, follow_relevant_items(pipeline, sample))


def test_leaving_out_a_nominator_costs_the_items_only_it_nominated():
    pipeline = as_pipeline(listed("a", [1, 2]) + listed("b", [2, 3]))
    found = reports(pipeline, held_out_of([([0], [1, 2]), ([0], [3]), ([0], [7])]))
    assert [(found[name].nominated, found[name].unique) for name in "ab"] == [(2, 1), (2, 1)]
    # Without a, the first of three users loses one of two relevant items; without b, the second loses the only one.
    assert found["a"].without.mean == pytest.approx(-1 / 2 / 3)
    assert found["b"].without.mean == pytest.approx(-1 / 3)


def test_nominator_that_displaces_relevant_items_lowers_recall():
    # With noise in the pool the cut keeps 8 and 9, which are irrelevant.
    pipeline = as_pipeline(listed("noise", [8, 9]) + listed("good", [1, 2]) >> Seen(name="cut") % 2)
    found = reports(pipeline, held_out_of([([0], [1, 2])]))
    assert found["noise"].without.mean > 0 > found["good"].without.mean


def test_recall_is_0_without_the_only_nominator():
    pipeline = as_pipeline(listed("only", [1, 2]) >> Seen(name="seen"))
    found = reports(pipeline, held_out_of([([0], [1, 5])]))
    assert found["only"].without.mean == -0.5
    assert found["only"].unique == 1


def test_later_stages_run_again_without_the_nominator():
    pipeline, sample = tiny(), sample_users(random_requests(40), N_ITEMS)
    found = attribute(pipeline, sample, follow_relevant_items(pipeline, sample))
    silent = as_pipeline(listed("popular", [-1]) + pipeline.nominators[1] + pipeline.nominators[2])
    changed = type(pipeline)(silent.stages + pipeline.stages[1:])
    recalls = [recall_by_hand(stages, sample) for stages in (changed, pipeline)]
    without = found["popular"].without
    assert without.mean == pytest.approx(np.mean(recalls[0]) - np.mean(recalls[1]))
    assert without.low <= without.mean <= without.high


def recall_by_hand(pipeline, sample):
    slate = run_checked(pipeline, sample.batches[0].query).candidates
    sets = [set(row.tolist()) - {-1} for row in sample.batches[0].relevant]
    rows = zip(slate.items, slate.valid, sets, strict=True)
    return [len(set(items[valid].tolist()) & relevant) / len(relevant) for items, valid, relevant in rows]
