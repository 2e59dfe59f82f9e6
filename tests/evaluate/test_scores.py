"""Scores per user and their summaries."""

import json
import math

import pytest
import torch

from shortlist.artifact.as_json import as_json
from shortlist.errors import ConfigError, DataError
from shortlist.evaluate.scores import Scores, score_slates
from shortlist.metrics.ranking import ndcg, recall

RANKED = torch.tensor([[0, 1, 2], [3, 4, 5], [0, 3, 1]])
RELEVANT = torch.tensor([[2, 9], [3, -1], [-1, -1]])


def scores() -> Scores:
    return score_slates(RANKED, RELEVANT, (1, 3), popularity=torch.arange(1, 11), n_users=10)


def test_every_metric_is_computed_at_every_cut() -> None:
    found = scores()
    assert len(found) == 3
    assert torch.equal(found["recall@3"], recall(RANKED, RELEVANT, 3)) is False  # NaN is not equal to itself
    torch.testing.assert_close(found["recall@3"], recall(RANKED, RELEVANT, 3), equal_nan=True)
    torch.testing.assert_close(found["ndcg@1"], ndcg(RANKED, RELEVANT, 1), equal_nan=True)
    assert {"map@1", "mrr@3", "f1@1", "hit_rate@3", "precision@1", "novelty@3"} <= set(found.values)
    assert set(found.catalog) == {"coverage@1", "coverage@3", "gini@1", "gini@3"}


def test_means_leave_out_users_without_relevant_items() -> None:
    means = scores().means()
    assert means["recall@3"] == pytest.approx((1 / 2 + 1) / 2)
    assert means["coverage@3"] == pytest.approx(6 / 10)


def test_intervals_have_the_means_of_the_table() -> None:
    intervals = scores().intervals(seed=3)
    assert intervals["recall@3"].mean == pytest.approx(scores().means()["recall@3"])
    assert intervals["recall@3"].low <= 0.75 <= intervals["recall@3"].high


def test_segment_has_its_users_only() -> None:
    part = scores().segment(torch.tensor([True, False, True]))
    assert len(part) == 2
    assert part.means()["recall@3"] == pytest.approx(1 / 2)
    assert not part.catalog


def test_two_systems_are_compared_on_the_same_users() -> None:
    other = score_slates(RANKED.flip(1), RELEVANT, (1, 3))
    found = scores().against(other, "recall@1", seed=0)
    assert (found.wins, found.ties, found.losses) == (1, 0, 1)


def test_summary_as_json_has_null_for_nan() -> None:
    nobody = score_slates(RANKED[2:], RELEVANT[2:], (3,))
    values = json.loads(json.dumps(as_json(nobody.summary(seed=0)), allow_nan=False))
    assert values["users"] == 1
    assert values["metrics"]["recall@3"] == {"mean": None, "low": None, "high": None}
    assert scores().summary().catalog["coverage@3"] == pytest.approx(0.6)
    assert not math.isnan(scores().summary().metrics["ndcg@3"].low)


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(ConfigError, match="got 'recall@7'"):
        scores()["recall@7"]
    with pytest.raises(DataError, match="mask of 3 users"):
        scores().segment(torch.tensor([True]))
    with pytest.raises(ConfigError, match="needs n_users"):
        score_slates(RANKED, RELEVANT, popularity=torch.ones(10))
