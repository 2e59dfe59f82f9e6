"""Stratified samples: exact inclusion probabilities, equal chances, one sample per request."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import ConfigError
from shortlist.feedback.reader import adds_up
from shortlist.feedback.record import concat, logged_requests
from shortlist.feedback.write.sampling import EVERYTHING, Quota, Sampling, head_kept, random_keys, sampled


def request(sizes, number=1, seed=0):
    """A request with sizes[k] candidates of S = k."""
    stage = np.repeat(np.arange(len(sizes)), sizes)
    n_out = np.cumsum(sizes[::-1])[::-1][1:][None]
    return logged_requests(
        np.array([number]),
        np.array([0]),
        np.array([0]),
        np.array([0, len(stage)]),
        np.arange(len(stage)),
        stage,
        n_out,
        n_in=np.concatenate([[[sum(sizes)]], n_out[:, :-1]], axis=1),
        seed=np.array([seed]),
    )


def weight_per_stratum(record):
    weight = 1.0 / record.incl_prob.astype(np.float64)
    return np.bincount(record.stage, weight, minlength=record.depth + 1)


def test_published_funnel_has_the_inclusion_probabilities_of_the_specification():
    """Spec 1.3: 6000/3000/500/120/10 gives 40/3000, 40/2500 and all 380."""
    record = sampled(request([0, 3000, 2500, 380, 110, 10]), Sampling())
    share = {k: float(record.incl_prob[record.stage == k][0]) for k in range(1, 6)}
    assert share == pytest.approx({1: 40 / 3000, 2: 40 / 2500, 3: 1, 4: 1, 5: 1}, rel=1e-6)
    assert np.bincount(record.stage).tolist() == [0, 40, 40, 380, 110, 10]
    assert set(record.reason[record.stage <= 2]) == {1}
    assert set(record.reason[record.stage > 2]) == {0}
    wide = sampled(request([0, 9500, 450, 44, 6]), Sampling())
    assert float(wide.incl_prob[wide.stage == 1][0]) == pytest.approx(0.00421, abs=1e-5)
    assert (wide.stage == 2).sum() == 450  # all, because there are at most 500


def with_filters(removed, sizes, number=1, seed=0):
    """A request of which removed[k] of the sizes[k] candidates with S = k were removed by a filter."""
    whole = request(sizes, number, seed)
    place = np.arange(len(whole.stage)) - np.searchsorted(whole.stage, whole.stage)
    counts = np.array([removed[:-1]], np.int32)
    return replace(whole, filtered=place < np.array(removed)[whole.stage], n_filtered=counts)


def test_filtered_candidates_take_no_place_of_ranked_ones():
    """Items that the user has seen are no negatives of a stage: 900 of them leave the quota of 40 alone."""
    record = sampled(with_filters([0, 900, 0, 0], [0, 1000, 45, 5]), Sampling())
    ranked = (record.stage == 1) & ~record.filtered
    assert (ranked.sum(), record.filtered.sum()) == (40, 5)
    assert record.incl_prob[ranked] == pytest.approx(40 / 100)
    assert record.incl_prob[record.filtered] == pytest.approx(5 / 900)
    assert weight_per_stratum(record) == pytest.approx([0, 1000, 45, 5], rel=1e-5)
    assert not record.complete[0]
    assert sampled(with_filters([0, 900, 0, 0], [0, 1000, 45, 5]), EVERYTHING).complete[0]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=4, max_size=4),
    st.lists(st.one_of(st.none(), st.integers(0, 12)), min_size=3, max_size=3),
    st.one_of(st.none(), st.integers(0, 12)),
    st.integers(0, 2**62),
)
def test_ranked_and_filtered_candidates_have_their_own_exact_probabilities(parts, quotas, filtered, seed):
    """Spec 23 for both parts of a stratum; a part without a quota has no rows, and a reader accepts that."""
    parts[-1] = (parts[-1][0], 0)  # served candidates
    removed, sizes = [gone for _, gone in parts], [kept + gone for kept, gone in parts]
    sampling = Sampling({k: Quota(m) for k, m in enumerate(quotas)}, Quota(filtered))
    record = sampled(with_filters(removed, sizes, seed // 2, seed), sampling)
    weight = 1.0 / record.incl_prob.astype(np.float64)
    for k, part in enumerate(parts):
        for flag, size in zip((False, True), part, strict=True):
            mine = (record.stage == k) & (record.filtered == flag)
            quota = filtered if flag else ([*quotas, None][k])
            assert mine.sum() == (size if quota is None else min(size, quota))
            assert quota == 0 or weight[mine].sum() == pytest.approx(size, rel=1e-5)
    assert adds_up(record).all()
    assert record.complete[0] == (record.n_candidates == sum(sizes))


def test_part_of_a_stratum_that_lost_rows_does_not_add_up():
    record = sampled(with_filters([0, 30, 0], [0, 60, 5]), Sampling())
    gone = np.flatnonzero(record.filtered)[:1]
    assert not adds_up(record.only(np.setdiff1d(np.arange(record.n_candidates), gone))).any()
    older = replace(record, n_filtered=np.full_like(record.n_filtered, -1))  # a log without this column
    assert adds_up(older).all()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 30), min_size=4, max_size=4), min_size=1, max_size=4),
    st.lists(st.one_of(st.none(), st.integers(1, 12)), min_size=4, max_size=4),
    st.integers(0, 2**62),
)
def test_weights_of_a_stratum_add_up_to_its_size(sizes, quotas, seed):
    """Spec 23: sum of 1 / incl_prob per stratum = N_k within 1e-5, N_k from n_in and n_out."""
    whole = concat([request(one, seed + number, seed) for number, one in enumerate(sizes)])
    record = sampled(whole, Sampling({k: Quota(m) for k, m in enumerate(quotas)}))
    for row, one in enumerate(sizes):
        mine = record.take(np.array([row]))
        assert weight_per_stratum(mine) == pytest.approx(one, rel=1e-5)
        assert np.array_equal(mine.strata()[0], one)
        assert len(set(mine.item_id.tolist())) == mine.n_candidates
        assert mine.complete[0] == (mine.n_candidates == sum(one))


def test_every_candidate_has_the_same_inclusion_probability():
    hits = np.zeros(50)
    repeats = 4000
    for number in range(0, repeats, 500):
        many = concat([request([0, 50], number + at, seed=7) for at in range(500)])
        hits += np.bincount(sampled(many, Sampling({1: Quota(10)})).item_id, minlength=50)
    expected, sd = repeats * 0.2, np.sqrt(repeats * 0.2 * 0.8)
    assert np.abs(hits - expected).max() < 4.5 * sd
    assert ((hits - expected) ** 2 / (sd**2)).sum() * 49 / 50 < 95  # chi-square with 49 degrees, p about 1e-4


def test_pairs_are_included_together_as_often_as_a_sample_without_replacement_says():
    both = 0
    many = concat([request([0, 20], number) for number in range(4000)])
    record = sampled(many, Sampling({1: Quota(5)}))
    inside = np.zeros((4000, 20), bool)
    inside[record.request, record.item_id] = True
    both = int((inside[:, 0] & inside[:, 1]).sum())
    expected = 4000 * (5 * 4) / (20 * 19)
    assert abs(both - expected) < 4 * np.sqrt(expected)


def test_sample_of_a_request_does_not_depend_on_its_neighbours():
    alone = sampled(request([5, 80, 40, 4], 17, 3), Sampling())
    batch = [request([5, 80, 40, 4], number, 3) for number in (4, 17, 9)]
    together = sampled(concat(batch), Sampling()).take(np.array([1]))
    assert np.array_equal(alone.item_id, together.item_id)


@pytest.mark.parametrize(("number", "seed"), [(18, 3), (17, 4)])
def test_sample_changes_with_the_id_and_with_the_seed_of_the_request(number, seed):
    one, two = (sampled(request([0, 500], *given), Sampling()) for given in ((17, 3), (number, seed)))
    assert set(one.item_id.tolist()) != set(two.item_id.tolist())


def test_keys_are_uniform():
    keys = random_keys(request([0, 100_000])) / 2.0**64
    assert np.histogram(keys, 10, (0, 1))[0] == pytest.approx(10_000, rel=0.05)


def test_everything_keeps_all_candidates():
    record = sampled(request([3, 4, 5]), EVERYTHING)
    assert record.n_candidates == 12
    assert record.complete.all()
    assert (record.incl_prob == 1).all()


def test_logged_share_is_a_hash_of_the_id():
    ids = np.arange(100_000) * 1_048_576
    kept = head_kept(ids, 0.1)
    assert kept.mean() == pytest.approx(0.1, abs=0.005)
    assert np.array_equal(kept[::-1], head_kept(ids[::-1], 0.1))
    assert not (kept & ~head_kept(ids, 0.2)).any()
    assert head_kept(ids, 1.0).all()
    assert not head_kept(ids, 0.0).any()


def test_negative_quota_is_refused():
    with pytest.raises(ConfigError, match="0 or more"):
        Quota(-1)
