import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.data import Candidates
from shortlist.diagnose.nominators.lists import DEEPER, deeper, limit_of, measure_lists
from shortlist.diagnose.nominators.replay import PoolReplay
from shortlist.diagnose.sample import sample_users
from shortlist.grammar import as_pipeline
from shortlist.metrics.nomination.coverage import ABSENT
from shortlist.pipeline import Optional, Within
from shortlist.pipeline.offline import offline
from tests.diagnose.nominators.lists_of import own, relevant
from tests.diagnose.test_follow_items import random_requests
from tests.pipeline.strategies import pipelines
from tests.worlds import N_ITEMS, RandomNominator, RandomScorer, listed, run_checked, tiny


def measured(pipeline, held_out, n_items=100, batch=256):
    return measure_lists(offline(pipeline), sample_users(held_out, n_items, batch=batch))


def places(found: Candidates) -> dict[int, int]:
    """The first place of every item of one request."""
    there = [(item, place) for place, item in enumerate(found.items[0].tolist()) if found.valid[0, place]]
    return dict(reversed(there))


def slow_ranks(pipeline, sample):
    """One request and one list after another."""
    ranks = []
    for batch in sample.batches:
        for row in range(len(batch.relevant)):
            query = batch.query.take(slice(row, row + 1))
            none = Candidates.none(1)
            for item in batch.relevant[row][batch.relevant[row] >= 0].tolist():
                line = []
                for part in pipeline.nominators:
                    now = places(part(query, none))
                    long = places((part % min(DEEPER * part.limit, max(N_ITEMS, part.limit)))(query, none))
                    beyond = max(long[item], part.limit) if item in long else ABSENT
                    line.append(now.get(item, beyond))
                ranks.append(line)
    return np.array(ranks)


@given(pipelines(), st.integers(0, 50))
@settings(max_examples=25, deadline=None)
def test_ranks_are_those_of_each_list_read_item_by_item(pipeline, seed):
    sample = sample_users(random_requests(5, seed), N_ITEMS, batch=3)
    whole = as_pipeline(pipeline)
    found = measure_lists(whole, sample)
    assert np.array_equal(found.rank, slow_ranks(whole, sample))
    slates = [run_checked(whole, batch.query) for batch in sample.batches]
    assert found.shown.tolist() == [n for slate in slates for n in slate.candidates.valid.sum(1).tolist()]
    nominated = [n for slate in slates for n in slate.trace.nominated.valid.sum(1).tolist()]
    assert found.distinct.tolist() == nominated
    assert found.per_request(found.limits) == pytest.approx(np.mean(nominated))


def test_lists_are_read_beyond_their_limit_and_only_in_full_below_it():
    found = measured(own("a", [[1, 2, 3, 4, 5, 6, 7, 8, 9]], limit=2), relevant([[2, 4, 8, 9, 50]]))
    assert found.limits.tolist() == [2]
    assert found.longest.tolist() == [8]
    assert found.rank[:, 0].tolist() == [1, 3, 7, ABSENT, ABSENT]


def test_item_that_only_the_longer_search_ranks_high_is_behind_the_limit():
    class Restless(type(own("a", [[0]]))):
        """Another order with a longer list, as a beam search may have."""

        def nominate(self, query):
            rows = [1, 2] if self.limit == 2 else [7, 1, 2, 3]
            return Candidates.of(torch.tensor([rows]), -torch.arange(len(rows))[None].float())

    found = measured(Restless(torch.zeros(1, 1), name="a", limit=2), relevant([[1, 3, 7]]))
    assert found.rank[:, 0].tolist() == [0, 3, 2]


def test_batches_of_any_size_give_the_same_arrays():
    pipeline, held_out = tiny(), random_requests(9)
    one, many = (measured(pipeline, held_out, N_ITEMS, batch) for batch in (9, 2))
    for name in ("rank", "request", "returned", "distinct", "shown", "revealed", "limits", "longest"):
        np.testing.assert_array_equal(getattr(one, name), getattr(many, name))


def test_reveal_counts_add_up():
    """T29: first and 1 / m sum to 1, counting for each sums to at least 1, and to 1 without overlap only."""
    pool = RandomNominator(name="a", salt=1) + RandomNominator(name="b", salt=2) + listed("c", [3, 4, 5])
    found = measured(pool >> RandomScorer(name="rank") % 5, random_requests(20), N_ITEMS)
    each, first, split, alone, liked = found.revealed.sum((0, 2))
    assert first == split.round(9) == found.shown.sum()
    assert each > found.shown.sum()
    assert alone <= split <= each
    assert liked <= each
    apart = measured(own("a", [[1, 2]]) + own("b", [[3]]) >> RandomScorer(name="rank") % 5, relevant([[1]]))
    assert apart.revealed.sum((0, 2)).tolist() == [3, 3, 3, 3, 1]


def test_first_is_the_nominator_with_the_best_rank_and_ties_go_to_the_first_of_the_pool():
    pool = own("a", [[1, 2, 3]]) + own("b", [[3, 2, 9]])
    found = measured(pool >> RandomScorer(name="rank") % 9, relevant([[1]]))
    assert found.revealed[0, 1].tolist() == [2, 2]  # 1 and 2 of a, 3 and 9 of b


@pytest.mark.parametrize(
    ("part", "limit"),
    [
        (own("a", [[1]], limit=7), 7),
        (Optional(own("a", [[1]], limit=7)), 7),
        (Within(own("a", [[1]]) % 6, ms=5), 6),
        (own("a", [[1]], limit=7) + own("b", [[1]], limit=5), 12),
        ((own("a", [[1]], limit=7) + own("b", [[1]], limit=5)) % 9, 9),
        (own("a", [[1]], limit=7) >> RandomScorer(name="rank") % 3, 3),
    ],
)
def test_limit_of_a_part_is_what_it_can_return_at_most(part, limit):
    assert limit_of(part) == limit


def test_only_single_nominators_can_be_asked_for_more():
    assert limit_of(deeper(Optional(own("a", [[1]], limit=7)), 28)) == 28
    assert deeper(own("a", [[1]]) >> RandomScorer(name="rank") % 3, 12) is None
    assert deeper(own("a", [[1]]) + own("b", [[1]]), 12) is None


def test_pipeline_in_the_pool_is_measured_up_to_its_own_cut():
    nested = own("a", [[1, 2, 3, 4]]) >> RandomScorer(name="inner", sides=1) % 2
    found = measured(type(nested)(nested.stages, name="nested") + own("b", [[9]]), relevant([[1, 2, 3, 9]]))
    assert found.names == ("nested", "b")
    assert found.limits.tolist() == [2, 100]
    assert found.longest[0] == 2
    assert found.rank.tolist() == [[0, ABSENT], [1, ABSENT], [ABSENT, ABSENT], [ABSENT, 0]]


def test_nominator_that_fails_nominates_nothing():
    class Broken(type(own("a", [[0]]))):
        def nominate(self, query):
            raise RuntimeError("index is gone")

    pool = Optional(Broken(torch.zeros(1, 1), name="a")) + own("b", [[1]])
    found = measured(pool, relevant([[1]]))
    assert found.rank.tolist() == [[ABSENT, 0]]
    assert found.returned.tolist() == [[0, 1]]


def test_nothing_nominated_is_measured_as_nothing():
    found = measured(own("a", [[]]) >> RandomScorer(name="rank") % 3, relevant([[1, 2]]))
    assert found.rank.tolist() == [[ABSENT], [ABSENT]]
    assert found.per_request(found.limits) == 0
    assert found.revealed.sum() == found.shown.sum() == 0


def test_recalls_are_means_over_users_and_not_over_items():
    found = measured(own("a", [[1], [1, 2, 3, 4]]), relevant([[1], [1, 6, 7, 8]]))
    hit = (found.rank < ABSENT).astype(float)
    assert found.recalls(hit)[0].mean == pytest.approx((1 + 1 / 4) / 2)
    assert found.recalls(hit, np.array([1]))[0].mean == pytest.approx(1 / 4)


def test_stored_nominations_give_the_slates_of_the_pipeline():
    pipeline, sample = offline(tiny()), sample_users(random_requests(12), N_ITEMS)
    every = np.ones(3, np.bool_)
    hits = [
        len(
            set(run_checked(pipeline, batch.query.take(slice(row, row + 1))).items[0].tolist())
            & set(own.tolist()) - {-1}
        )
        for batch in sample.batches
        for row, own in enumerate(batch.relevant)
    ]
    assert PoolReplay.of(pipeline, sample).hits(every).tolist() == hits
