"""Static requests: spec test 30, and the slow obvious version as the oracle."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import ConfigError, DataError
from shortlist.simulate.full_stage.cell_noise import cell_bits
from shortlist.simulate.full_stage.pools import Pools, pools_of, whole_catalogue
from shortlist.simulate.full_stage.static_requests import (
    RequestSizes,
    ScoredPools,
    exposure_rates,
    static_requests,
)


def scored(sizes, n_items=2000, seed=0, levels=0):
    """Random pools of the given sizes; `levels` rounds the scores, so that there are ties."""
    rng = np.random.default_rng(seed)
    members = np.zeros((len(sizes), n_items), bool)
    for row, size in enumerate(sizes):
        members[row, rng.permutation(n_items)[:size]] = True
    pools = pools_of(np.arange(len(sizes)) + 5, [members])
    scores = rng.standard_normal((2, len(pools.item))).astype(np.float32)
    scores = np.round(scores * levels) if levels else scores
    return ScoredPools(pools, scores[0], scores[1], rng.random(len(pools.item)) < 0.4)


def obvious(pools, row, sizes, seed, number):
    """One request as sorted lists of (item, S, y)."""
    place = np.arange(pools.pools.offsets[row], pools.pools.offsets[row + 1])
    user, items = pools.pools.user[row : row + 1], pools.pools.item[place]
    drawn = place[np.argsort(cell_bits(seed, number, user, items)[0] >> np.uint64(1))][: sizes.drawn]
    scale = min(1.0, len(place) / sizes.drawn)
    kept, exposed = int(sizes.kept * scale + 1e-9), int(sizes.exposed * scale + 1e-9)
    by_prerank = sorted(drawn, key=lambda at: (-pools.prerank[at], pools.pools.item[at]))
    by_rank = sorted(by_prerank[:kept], key=lambda at: (-pools.rank[at], pools.pools.item[at]))
    rows = [(at, 1, -1) for at in by_prerank[len(drawn) - kept :]]
    rows += [(at, 2, -1) for at in by_rank[kept - exposed :]]
    rows += [(at, 3, int(pools.label[at])) for at in by_rank[:exposed]]
    return sorted((int(pools.pools.item[at]), stage, y) for at, stage, y in rows)


def test_request_has_the_sizes_of_the_specification_and_disjoint_sets() -> None:
    """Spec test 30: 1000 drawn, 200 kept, 200 pre-rank negatives, 50 exposed, 50 rank negatives."""
    requests = static_requests(scored([1500, 1000]), seed=3)
    assert requests.drawn.tolist() == [1000, 1000]
    assert requests.kept.tolist() == [200, 200]
    assert not requests.scaled.any()
    for at in range(2):
        own = slice(requests.offsets[at], requests.offsets[at + 1])
        assert np.bincount(requests.stage[own]).tolist() == [0, 200, 50, 50]
        assert len(np.unique(requests.item_id[own])) == 300  # the four sets are disjoint
        assert ((requests.y[own] == -1) == (requests.stage[own] < 3)).all()
        assert set(requests.y[own][requests.stage[own] == 3]) == {0, 1}


def test_same_seed_gives_the_same_request_and_another_seed_another_one() -> None:
    """Spec test 30."""
    pools = scored([1500])
    first, again, other = (static_requests(pools, seed=seed) for seed in (3, 3, 4))
    assert (first.item_id == again.item_id).all()
    assert (first.y == again.y).all()
    assert set(first.item_id) != set(other.item_id)


def test_requests_of_a_user_are_different_draws() -> None:
    requests = static_requests(scored([1500, 1500]), count=3)
    assert requests.user_id.tolist() == [5, 6] * 3
    lists = [set(requests.item_id[a:b]) for a, b in zip(requests.offsets, requests.offsets[1:], strict=False)]
    assert len({frozenset(one) for one in lists}) == 6


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=4),
    st.integers(0, 50),
    st.sampled_from([0, 1]),
    st.data(),
)
def test_vectorised_requests_equal_the_obvious_ones(sizes, seed, levels, data) -> None:
    exposed = data.draw(st.integers(1, 4))
    request = RequestSizes(drawn=40, kept=data.draw(st.integers(2 * exposed, 20)), exposed=exposed)
    pools = scored(sizes, 80, seed, levels)
    requests = static_requests(pools, request, count=2, seed=seed)
    for at in range(len(requests)):
        own = slice(requests.offsets[at], requests.offsets[at + 1])
        columns = (requests.item_id[own], requests.stage[own], requests.y[own])
        expected = obvious(pools, at % len(sizes), request, seed, at // len(sizes))
        assert sorted(zip(*(one.tolist() for one in columns), strict=True)) == expected


def test_request_of_a_user_does_not_depend_on_the_other_users() -> None:
    pools = scored([300, 500, 200])
    sizes = RequestSizes(150, 30, 10)
    alone = ScoredPools(
        Pools(pools.pools.user[1:2], pools.pools.item[300:800], np.array([0, 500])),
        *(one[300:800] for one in (pools.prerank, pools.rank, pools.label)),
    )
    every, one = static_requests(pools, sizes), static_requests(alone, sizes)
    assert every.item_id[every.offsets[1] : every.offsets[2]].tolist() == one.item_id.tolist()


def test_smaller_pool_scales_the_request_and_is_flagged() -> None:
    requests = static_requests(scored([500, 1000]))
    assert requests.scaled.tolist() == [True, False]
    assert requests.drawn.tolist() == [500, 1000]
    assert np.bincount(requests.stage[: requests.offsets[1]]).tolist() == [0, 100, 25, 25]


def test_exposure_rates_agree_with_the_share_of_requests() -> None:
    pools, sizes = scored([60, 80], 100), RequestSizes(40, 10, 4)
    requests = static_requests(pools, sizes, count=50, seed=2)
    rates = exposure_rates(pools, sizes, 50, seed=2)
    shown = requests.stage == 3
    counts = np.bincount(requests.users[shown] * 100 + requests.item_id[shown], minlength=700)
    assert np.allclose(rates * 50, counts[pools.pools.users * 100 + pools.pools.item])
    assert rates.sum() == pytest.approx(8)


def test_every_item_is_drawn_equally_often() -> None:
    """With kept = drawn / 2 and exposed = kept / 2, all drawn items are part of the request."""
    requests = static_requests(scored([50], 50), RequestSizes(20, 10, 5), count=400)
    drawn = np.bincount(requests.item_id, minlength=50)
    assert drawn.sum() == 400 * 20
    assert abs(drawn - 160).max() < 4.5 * np.sqrt(400 * 0.4 * 0.6)


def test_impossible_sizes_and_bad_scores_are_errors() -> None:
    with pytest.raises(ConfigError, match="2 \\* kept <= drawn"):
        RequestSizes(100, 60, 10)
    pools = scored([30])
    with pytest.raises(DataError, match="finite values of rank"):
        static_requests(ScoredPools(pools.pools, pools.prerank, pools.rank * np.nan, pools.label))
    with pytest.raises(DataError, match="empty"):
        static_requests(pools.where(np.zeros(30, bool)))
    with pytest.raises(DataError, match="ascending"):
        Pools(np.arange(1), np.array([3, 2]), np.array([0, 2]))


def test_retrieval_pool_is_the_catalogue() -> None:
    pools = whole_catalogue(np.array([4, 9]), 7)
    assert pools.sizes.tolist() == [7, 7]
    assert pools.item[7:].tolist() == list(range(7))
