"""Features: what each nominator said, how popular, how fitting; worked out by hand."""

import math

import pytest
import torch

from shortlist.stages import RankingFeatures
from tests.worlds import asked, listed, run_checked

FEATURES = RankingFeatures(
    ("a", "b"),
    popularity=torch.tensor([6, 3, 1, 0]),
    lately=torch.tensor([0, 1, 1, 0]),
    category=torch.tensor([0, 0, 1, 1]),
)


def pooled():
    return run_checked(
        listed("a", [0, 1], [0.9, 0.4]) + listed("b", [1, 2], [7.0, 5.0]), asked([], [])
    ).candidates


def by_item(query):
    field = pooled()
    values = FEATURES(query, field)
    assert values.shape == (2, field.shape[1], len(FEATURES.names))
    where = {item: place for place, item in enumerate(field.items[0].tolist()) if field.valid[0, place]}
    return {
        item: [dict(zip(FEATURES.names, values[row, place].tolist(), strict=True)) for row in range(2)]
        for item, place in where.items()
    }


def test_what_each_nominator_said_stands_with_0_for_silence():
    told = by_item(asked([], []))
    assert [told[item][0]["a.named"] for item in (0, 1, 2)] == [1, 1, 0]
    assert [told[item][0]["b.named"] for item in (0, 1, 2)] == [0, 1, 1]
    assert [told[item][0]["a.score"] for item in (0, 1, 2)] == pytest.approx([0.9, 0.4, 0])
    assert [told[item][0]["b.rank"] for item in (0, 1, 2)] == pytest.approx([0, 1, 1 / 1.1])
    assert told[1][0]["score"] == pytest.approx(1 / 61 + 1 / 60)


def test_popularity_is_the_log_of_a_share():
    told = by_item(asked([], []))
    assert [told[item][0]["popularity"] for item in (0, 1, 2)] == pytest.approx(
        [math.log(share + 1e-6) for share in (0.6, 0.3, 0.1)], rel=1e-4
    )
    assert told[0][0]["lately"] == pytest.approx(math.log(1e-6), rel=1e-4)


def test_the_theme_is_the_share_of_the_history_in_the_category_of_the_candidate():
    told = by_item(asked([0, 1, 2, 0, 2, 2, 2], []))
    assert (told[0][0]["theme"], told[0][0]["theme_now"]) == pytest.approx((3 / 7, 1 / 5))
    assert (told[2][0]["theme"], told[2][0]["theme_now"]) == pytest.approx((4 / 7, 4 / 5))
    assert told[0][0]["length"] == pytest.approx(math.log1p(7))
    assert (told[0][1]["theme"], told[0][1]["theme_now"], told[0][1]["length"]) == (0, 0, 0), "a stranger"


def test_a_candidates_features_do_not_depend_on_its_rivals():
    field, query = pooled(), asked([1], [2])
    whole = FEATURES(query, field)
    some = torch.tensor([[1], [1]])
    assert torch.equal(FEATURES(query, field.take(some))[:, 0], whole[:, 1])


def test_broken_scores_count_as_0_and_nothing_is_a_number_too():
    field = pooled()
    broken = field.score(torch.full(field.shape, math.nan))
    assert torch.isfinite(FEATURES(asked([], []), broken)).all()
    nobody = field.take(torch.empty((2, 0), dtype=torch.int64))
    assert FEATURES(asked([], []), nobody).shape == (2, 0, len(FEATURES.names))


def test_an_unmet_catalogue_has_features_too():
    silent = RankingFeatures(
        (),
        torch.zeros(4, dtype=torch.int64),
        torch.zeros(4, dtype=torch.int64),
        torch.zeros(4, dtype=torch.int64),
    )
    assert torch.isfinite(silent(asked([], []), pooled())).all()
