from collections import Counter

import pytest
import torch

from shortlist.diagnose.coverage import coverage_of, measure_coverage
from shortlist.diagnose.sample import sample_users
from shortlist.errors import DataError
from shortlist.pipeline import run
from shortlist.pipeline.batch.held_out import slates_of
from shortlist.pipeline.recommender import slate_size


def test_uniform_slates_and_a_single_item_are_the_extremes():
    even = coverage_of(torch.arange(40).reshape(20, 2), torch.ones(40, dtype=torch.int64))
    assert (even.distinct, even.share, even.never_nominated) == (40, 1.0, 0)
    assert (even.gini, even.entropy) == (pytest.approx(0.0), pytest.approx(1.0))
    assert not even.collapse
    one = coverage_of(torch.full((20, 1), 7), torch.arange(40) % 2)
    assert (one.distinct, one.share, one.entropy) == (1, 1 / 40, 0.0)
    assert one.gini == pytest.approx(39 / 40)
    assert (one.first_item, one.first_share, one.collapse) == (7, 1.0, True)
    assert (one.never_nominated, one.never_share) == (20, 0.5)


def test_collapse_needs_more_than_a_fifth_of_enough_requests():
    def collapsed(same, count):
        firsts = torch.arange(count)
        firsts[:same] = 100
        return coverage_of(firsts[:, None], torch.ones(101, dtype=torch.int64)).collapse

    assert collapsed(21, 100)
    assert not collapsed(20, 100)
    assert not collapsed(5, 5)


def test_coverage_of_a_pipeline_equals_a_count_item_by_item(world, recommender):
    held_out = world.split().test.take(slice(0, 12))
    found = measure_coverage(recommender.pipeline, sample_users(held_out, len(world.items)))
    k = slate_size(recommender.pipeline)
    slates = slates_of(recommender.pipeline, held_out, k).tolist()
    assert found.distinct == len({item for slate in slates for item in slate if item >= 0})
    assert found.first_share == Counter(slate[0] for slate in slates).most_common(1)[0][1] / 12
    assert sum(slate[0] == found.first_item for slate in slates) == found.first_share * 12
    nominated = set()
    for row in range(12):
        alone = held_out.take(slice(row, row + 1))
        pool = run(recommender.pipeline, alone.query(width=500)).trace.nominated
        nominated |= set(pool.items[pool.valid].tolist())
    assert found.never_nominated == len(world.items) - len(nominated)
    assert found.requests == 12


def test_empty_slates_have_no_coverage():
    found = coverage_of(torch.full((3, 2), -1), torch.zeros(5, dtype=torch.int64))
    assert (found.distinct, found.gini, found.first_item, found.collapse) == (0, None, None, False)
    assert coverage_of(torch.empty((3, 0), dtype=torch.int64), torch.zeros(5, dtype=torch.int64)).share == 0.0


def test_empty_catalogue_is_an_error():
    with pytest.raises(DataError, match="expected a catalogue with items"):
        coverage_of(torch.empty((1, 0), dtype=torch.int64), torch.empty(0, dtype=torch.int64))
