"""Ranking features worked out by hand: nominations, popularity, match with the history, catalogue columns."""

import math

import pytest
import torch

from shortlist.errors import ArtifactError
from shortlist.stages import RankingFeatures
from tests.stages.small_features import small_features
from tests.worlds import N_ITEMS, listed, query_of, run_checked

FEATURES = RankingFeatures(
    ("a", "b"),
    popularity=torch.tensor([6, 3, 1, 0]),
    recent_popularity=torch.tensor([0, 1, 1, 0]),
    category=torch.tensor([0, 0, 1, 1]),
)
POOL = listed("a", [1, 2, 3]) + listed("b", [3, 4])


def pooled():
    pool = listed("a", [0, 1], [0.9, 0.4]) + listed("b", [1, 2], [7.0, 5.0])
    return run_checked(pool, query_of([], [])).candidates


def by_item(query):
    """The features of each item, by request and name."""
    candidates = pooled()
    values = FEATURES(query, candidates)
    assert values.shape == (2, candidates.shape[1], len(FEATURES.names))
    items = zip(candidates.items[0].tolist(), candidates.valid[0].tolist(), strict=True)
    where = {item: place for place, (item, valid) in enumerate(items) if valid}
    return {
        item: [dict(zip(FEATURES.names, values[row, place].tolist(), strict=True)) for row in range(2)]
        for item, place in where.items()
    }


def test_nominations_are_features_and_0_where_there_is_none():
    features = by_item(query_of([], []))
    assert [features[item][0]["a.nominated"] for item in (0, 1, 2)] == [1, 1, 0]
    assert [features[item][0]["b.nominated"] for item in (0, 1, 2)] == [0, 1, 1]
    assert [features[item][0]["a.score"] for item in (0, 1, 2)] == pytest.approx([0.9, 0.4, 0])
    assert [features[item][0]["b.rank"] for item in (0, 1, 2)] == pytest.approx([0, 1, 1 / 1.1])
    assert features[1][0]["score"] == pytest.approx(1 / 61 + 1 / 60)


def test_popularity_is_the_log_of_a_share():
    features = by_item(query_of([], []))
    assert [features[item][0]["popularity"] for item in (0, 1, 2)] == pytest.approx(
        [math.log(share + 1e-6) for share in (0.6, 0.3, 0.1)], rel=1e-4
    )
    assert features[0][0]["recent_popularity"] == pytest.approx(math.log(1e-6), rel=1e-4)


def test_category_share_is_the_share_of_the_history_in_the_candidates_category():
    features = by_item(query_of([0, 1, 2, 0, 2, 2, 2], []))
    names = ("category_share", "recent_category_share", "history_length")
    assert [features[0][0][name] for name in names] == pytest.approx([3 / 7, 1 / 5, math.log1p(7)])
    assert [features[2][0][name] for name in names[:2]] == pytest.approx([4 / 7, 4 / 5])
    assert [features[0][1][name] for name in names] == [0, 0, 0], "an empty history"


def test_features_do_not_depend_on_other_candidates():
    candidates, query = pooled(), query_of([1], [2])
    whole = FEATURES(query, candidates)
    second = torch.tensor([[1], [1]])
    assert torch.equal(FEATURES(query, candidates.take(second))[:, 0], whole[:, 1])


def test_features_are_finite_for_nan_scores_and_for_no_candidates():
    candidates = pooled()
    broken = candidates.score(torch.full(candidates.shape, math.nan))
    assert torch.isfinite(FEATURES(query_of([], []), broken)).all()
    none = candidates.take(torch.empty((2, 0), dtype=torch.int64))
    assert FEATURES(query_of([], []), none).shape == (2, 0, len(FEATURES.names))


def test_catalogue_without_events_has_finite_features():
    zeros = torch.zeros(4, dtype=torch.int64)
    assert torch.isfinite(RankingFeatures((), zeros, zeros, zeros)(query_of([], []), pooled())).all()


def test_columns_follow_the_other_features():
    made, query = small_features(), query_of([5, 6], [])
    candidates = run_checked(POOL, query).candidates
    values, rows = made(query, candidates), candidates.items.clamp(min=0)
    assert values.shape == (2, candidates.shape[1], len(made.names))
    bare = RankingFeatures(made.nominators, made.popularity, made.recent_popularity, made.category)
    assert torch.equal(values[..., : len(bare.names)], bare(query, candidates))
    assert torch.equal(values[..., -4:-2], made.columns.numbers[rows])
    assert torch.equal(values[..., -2:], made.columns.match(query.history, rows))
    assert made.names[-4:] == ("number_0", "number_1", "value_0.match", "tags.match")


@pytest.mark.parametrize("made", [small_features(), FEATURES])
def test_features_are_the_same_when_rebuilt(made):
    rebuilt, query = RankingFeatures.build(made.settings(), made.tensors()), query_of([1, 2], [])
    assert rebuilt.names == made.names
    assert torch.equal(rebuilt(query, pooled()), made(query, pooled()))


def test_settings_name_nominators_and_columns():
    assert small_features().settings() == {"nominators": ["a", "b"], "columns": ["price", "kind", "genres"]}
    assert FEATURES.settings() == {"nominators": ["a", "b"]}


def test_missing_tensors_are_refused():
    with pytest.raises(ArtifactError, match="tensor 'popularity' is missing"):
        RankingFeatures.build({}, {})


@pytest.mark.parametrize(
    "damage",
    [
        {"popularity": torch.tensor(3)},
        {"popularity": torch.ones(N_ITEMS - 1)},
        {"recent_popularity": torch.full((N_ITEMS,), torch.nan)},
        {"recent_popularity": -torch.ones(N_ITEMS)},
        {"category": torch.zeros(N_ITEMS)},
        {"category": torch.full((N_ITEMS,), -1)},
    ],
)
def test_impossible_counts_and_categories_are_refused(damage):
    made = small_features()
    with pytest.raises(ArtifactError, match="a count and a category, from 0, for every item"):
        RankingFeatures.build(made.settings(), made.tensors() | damage)


def test_category_share_of_an_item_with_several_categories_is_the_mean_over_them():
    lists = torch.tensor([[0, 1], [1, -1], [2, -1], [0, 2]])
    several = RankingFeatures((), FEATURES.popularity, FEATURES.recent_popularity, lists)
    histories = [[0, 1, 3], [2, 2, 0, 3]]
    values = several(query_of(*histories), pooled())
    share = dict(zip(several.names, values.unbind(-1), strict=True))["category_share"]
    own = [{one for one in row if one >= 0} for row in lists.tolist()]
    for row, history in enumerate(histories):
        for place, item in enumerate(pooled().items[row].tolist()):
            shares = [sum(one in own[past] for past in history) / len(history) for one in own[item]]
            assert share[row, place].item() == pytest.approx(sum(shares) / len(shares))
    single = RankingFeatures((), FEATURES.popularity, FEATURES.recent_popularity, FEATURES.category[:, None])
    one = RankingFeatures((), FEATURES.popularity, FEATURES.recent_popularity, FEATURES.category)
    assert torch.equal(single(query_of(*histories), pooled()), one(query_of(*histories), pooled()))
