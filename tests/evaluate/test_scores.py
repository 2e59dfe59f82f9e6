"""Scores kept user by user."""

import json
import math

import pytest
import torch

from shortlist.errors import ConfigError, DataError
from shortlist.evaluate.scores import Scores, score_slates
from shortlist.metrics.ranking import ndcg, recall

RANKED = torch.tensor([[0, 1, 2], [3, 4, 5], [0, 3, 1]])
RELEVANT = torch.tensor([[2, 9], [3, -1], [-1, -1]])


def scores() -> Scores:
    return score_slates(RANKED, RELEVANT, (1, 3), popularity=torch.arange(1, 11), n_users=10)


def test_every_metric_stands_there_at_every_cut() -> None:
    found = scores()
    assert len(found) == 3
    assert torch.equal(found["recall@3"], recall(RANKED, RELEVANT, 3)) is False  # NaN is not equal to itself
    torch.testing.assert_close(found["recall@3"], recall(RANKED, RELEVANT, 3), equal_nan=True)
    torch.testing.assert_close(found["ndcg@1"], ndcg(RANKED, RELEVANT, 1), equal_nan=True)
    assert {"map@1", "mrr@3", "f1@1", "hit_rate@3", "precision@1", "novelty@3"} <= set(found.values)
    assert set(found.whole) == {"coverage@1", "coverage@3", "gini@1", "gini@3"}


def test_means_leave_out_users_without_truth() -> None:
    means = scores().means()
    assert means["recall@3"] == pytest.approx((1 / 2 + 1) / 2)
    assert means["coverage@3"] == pytest.approx(6 / 10)


def test_intervals_have_the_means_of_the_table() -> None:
    intervals = scores().intervals(seed=3)
    assert intervals["recall@3"].mean == pytest.approx(scores().means()["recall@3"])
    assert intervals["recall@3"].low <= 0.75 <= intervals["recall@3"].high


def test_a_segment_keeps_its_users_only() -> None:
    part = scores().segment(torch.tensor([True, False, True]))
    assert len(part) == 2
    assert part.means()["recall@3"] == pytest.approx(1 / 2)
    assert not part.whole


def test_two_systems_are_compared_on_the_same_users() -> None:
    other = score_slates(RANKED.flip(1), RELEVANT, (1, 3))
    found = scores().against(other, "recall@1", seed=0)
    assert (found.wins, found.ties, found.losses) == (1, 0, 1)


def test_as_dict_is_json_without_nan() -> None:
    nobody = score_slates(RANKED[2:], RELEVANT[2:], (3,))
    told = json.loads(json.dumps(nobody.as_dict(seed=0), allow_nan=False))
    assert told["users"] == 1
    assert told["metrics"]["recall@3"] == {"mean": None, "low": None, "high": None}
    assert scores().as_dict()["whole"]["coverage@3"] == pytest.approx(0.6)
    assert not math.isnan(scores().as_dict()["metrics"]["ndcg@3"]["low"])


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ConfigError, match="got 'recall@7'"):
        scores()["recall@7"]
    with pytest.raises(DataError, match="mask of 3 users"):
        scores().segment(torch.tensor([True]))
    with pytest.raises(ConfigError, match="needs n_users"):
        score_slates(RANKED, RELEVANT, popularity=torch.ones(10))
