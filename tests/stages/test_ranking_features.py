"""Ranking features worked out by hand: nominations, popularity, match with the history, catalogue columns."""

import math
from dataclasses import replace

import pytest
import torch

from shortlist.artifact.json_tensor import json_to_tensor
from shortlist.data import Candidates
from shortlist.errors import ArtifactError
from shortlist.stages import RankingFeatures
from shortlist.stages.ranking_features import ITEMS, REPEATS
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


SCORED = replace(
    FEATURES,
    extras=("a.z", "a.max", "a.scored", "b.z", *ITEMS, "age"),
    age=torch.tensor([10.0, 0.0, 3.0, -1.0]),
)


def with_scores():
    """The pool with scores of nominator a for all candidates; b does not score the pool."""
    candidates = pooled()
    z = torch.tensor([[1.0, -1.0, 7.0, -2.0], [2.0, -2.0, 7.0, torch.nan]])
    return candidates.add({"a.z": z, "a.max": z / 10})


def named(features, query, candidates):
    return dict(zip(features.names, features(query, candidates).unbind(-1), strict=True))


def test_scores_of_the_pool_are_features_and_nan_where_there_is_none():
    values = named(SCORED, query_of([], []), with_scores())
    assert values["a.z"][0].tolist() == [1, -1, 7, -2]
    assert values["a.scored"][1].tolist() == [1, 1, 1, 0]
    assert values["a.max"][1, 3].isnan()
    assert values["b.z"].isnan().all(), "a column that the pool does not have"
    assert values["mean_z"][0].tolist() == [1, -1, 5, -2], "clipped, the mean over those that exist"
    assert values["mean_z"][1, 3].isnan()


def test_number_of_nominators_is_a_share():
    values = named(SCORED, query_of([], []), with_scores())
    valid = pooled().valid[0]
    by_row = dict(
        zip(pooled().items[0][valid].tolist(), values["n_nominators"][0][valid].tolist(), strict=True)
    )
    assert by_row == {0: 0.5, 1: 1.0, 2: 0.5}


def test_trend_age_and_popularity_of_the_history_by_hand():
    values = named(SCORED, query_of([0, 1], []), with_scores())
    rows = pooled().items[0].tolist()
    log = lambda share: math.log(share + 1e-6)  # noqa: E731
    trends = {0: log(0) - log(0.6), 1: log(0.5) - log(0.3), 2: log(0.5) - log(0.1)}
    assert values["trend"][0].tolist() == pytest.approx([trends[row] for row in rows], rel=1e-4)
    ages = {0: math.log1p(10), 1: 0.0, 2: math.log1p(3)}
    assert values["age"][0].tolist() == pytest.approx([ages[row] for row in rows])
    assert values["history_popularity"][0, 0].item() == pytest.approx((log(0.6) + log(0.3)) / 2, rel=1e-4)
    assert values["history_popularity"][1].isnan().all()
    assert values["in_history"][0].tolist() == [float(row in (0, 1)) for row in rows]


def test_count_and_recency_of_the_candidate_in_the_history_by_hand():
    features = replace(SCORED, extras=(*SCORED.extras, *REPEATS))
    values = named(features, query_of([0, 1, 0, 3], []), with_scores())
    rows = pooled().items[0].tolist()
    counts, recency = {0: 2, 1: 1}, {0: 1 / 2, 1: 1 / 3}
    assert values["history_count"][0].tolist() == pytest.approx(
        [math.log1p(counts.get(one, 0)) for one in rows]
    )
    assert values["history_recency"][0].tolist() == pytest.approx([recency.get(one, 0.0) for one in rows])
    assert not values["history_count"][1].any()
    assert not values["history_recency"][1].any()


def test_item_without_events_has_no_age():
    found = Candidates.of(
        torch.tensor([[3]]),
        torch.zeros(1, 1),
        {f"{a}.{b}": torch.zeros(1, 1) for a in "ab" for b in ("score", "rank")},
    )
    assert named(SCORED, query_of([]), found)["age"].isnan().all()


def test_category_recency_is_one_over_the_steps_back_to_the_same_category():
    histories = [[0, 2, 1, 3], [2, 2]]
    values = named(SCORED, query_of(*histories), with_scores())
    category = FEATURES.category.tolist()
    for row, history in enumerate(histories):
        for place, item in enumerate(pooled().items[row].tolist()):
            steps = [at for at, past in enumerate(reversed(history), 1) if category[past] == category[item]]
            expected = 1 / min(steps) if steps else 0.0
            assert values["category_recency"][row, place].item() == pytest.approx(expected)


def test_further_features_do_not_depend_on_other_candidates():
    candidates, query = with_scores(), query_of([1], [2])
    second = torch.tensor([[1], [1]])
    alone = SCORED(query, candidates.take(second))[:, 0]
    torch.testing.assert_close(alone, SCORED(query, candidates)[:, 1], equal_nan=True)


def test_further_features_are_the_same_when_rebuilt():
    rebuilt = RankingFeatures.build(SCORED.settings(), SCORED.tensors())
    assert rebuilt.names == SCORED.names
    query = query_of([1, 2], [])
    torch.testing.assert_close(rebuilt(query, with_scores()), SCORED(query, with_scores()), equal_nan=True)


def test_features_of_earlier_bundles_have_no_further_ones():
    stored = {name: one for name, one in FEATURES.tensors().items() if name != "extras"}
    assert RankingFeatures.build(FEATURES.settings(), stored).names == FEATURES.names


@pytest.mark.parametrize("extras", [["nothing"], "age", [3], ["a.size"]])
def test_unknown_further_features_are_refused(extras):
    with pytest.raises(ArtifactError, match="extras has unknown features"):
        RankingFeatures.build({}, SCORED.tensors() | {"extras": json_to_tensor({"extras": extras})})


@pytest.mark.parametrize("name", ["extras", "age"])
def test_missing_tensors_of_further_features_are_refused(name):
    stored = {key: one for key, one in SCORED.tensors().items() if key != name}
    with pytest.raises(ArtifactError, match=f"'{name}' is missing"):
        RankingFeatures.build({}, stored)
