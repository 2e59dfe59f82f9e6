"""Reference values of the specification of two time scales on MovieLens-1M (section 7.2)."""

import pytest

from shortlist.data.dataset import build_dataset
from shortlist.data.sources.movielens import read_movielens
from shortlist.data.time_split import time_split
from shortlist.evaluate.online import OnlineTest, TrainPopularity, paired_differences, ranks, summary
from shortlist.train.registry import make_trainer

pytestmark = [pytest.mark.data, pytest.mark.slow]


@pytest.fixture(scope="module")
def split(real_data):
    return time_split(build_dataset(read_movielens(real_data / "ml-1m/ml-1m.zip")).events)


def test_popularity_and_last_click_have_the_values_of_the_specification(split):
    test = OnlineTest.of(split)
    popular = ranks(TrainPopularity(split.train), test, n_neg=0)
    clicks = ranks(make_trainer("last-click", neighbours=100_000).learn(split.train), test, n_neg=0)
    for found, raw, excl in ((popular, 0.0125, 0.0226), (clicks, 0.0506, 0.0674)):
        table = summary(found, test, 100, samples=20)
        assert table.of(kind="raw").by_event.mean == pytest.approx(raw, abs=0.001)
        assert table.of(kind="excl").by_event.mean == pytest.approx(excl, abs=0.001)
    gains = paired_differences(clicks, popular, test, 100, samples=200)
    assert all(
        one.means.by_event.above
        for one in gains
        if one.segment in ("new", "inactive", "active") and one.kind in ("raw", "excl")
    )


def test_drawn_ranks_agree_with_their_expectation(split):
    test = OnlineTest.of(split).of_users(300)
    table = summary(ranks(TrainPopularity(split.train), test), test, samples=20)
    for metric, tolerance in (("mrr", 0.002), ("recall@10", 0.005)):
        drawn, expected = (table.of("all", kind, metric).by_event.mean for kind in ("sampled", "expected"))
        assert drawn == pytest.approx(expected, abs=tolerance)
