import numpy as np
import pytest

from shortlist.errors import ConfigError
from shortlist.evaluate.online import OnlineTest, ranks, summary
from shortlist.evaluate.online.segments import segments
from tests.evaluate.online.worlds import THRESHOLD, FixedScores, small_split


@pytest.fixture(scope="module")
def test():
    return OnlineTest.of(small_split())


@pytest.fixture(scope="module")
def found(test):
    return ranks(FixedScores(), test, n_neg=9)


def test_summary_has_every_metric_of_every_segment_with_events(test, found):
    table = summary(found, test, THRESHOLD, k=3, samples=20)
    masks = {name: mask for name, mask in segments(test, THRESHOLD).items() if mask.any()}
    assert table.segments == tuple(masks)
    assert len(table.metrics) == len(masks) * 4 * 2
    for name, mask in masks.items():
        for kind, rank in (("raw", found.raw), ("excl", found.excl), ("sampled", found.sampled)):
            own, users = rank[mask], test.users[mask]
            mrr, recall = (table.of(name, kind, metric) for metric in ("mrr", "recall@3"))
            assert mrr.by_event.mean == pytest.approx((1 / own).mean())
            assert recall.by_event.mean == pytest.approx((own <= 3).mean())
            of_users = [(1 / own[users == user]).mean() for user in np.unique(users)]
            assert mrr.by_user.mean == pytest.approx(np.mean(of_users))
            assert (mrr.events, mrr.users) == (mask.sum(), len(of_users))
        expected = found.expected(3)[0][mask].mean()
        assert table.of(name, "expected").by_event.mean == pytest.approx(expected)
    assert (table.threshold, table.n_items, table.n_neg) == (THRESHOLD, 30, 9)


def test_without_negatives_the_drawn_metric_has_no_value(test):
    table = summary(ranks(FixedScores(), test, n_neg=0), test, samples=10)
    assert table.of(kind="sampled").by_event.mean is None
    assert table.of(kind="sampled").users == 0
    assert table.of(kind="expected").by_event.mean > 0
    assert "known" in table.segments


def test_a_metric_that_is_not_there_is_refused(test, found):
    table = summary(found, test, samples=10)
    with pytest.raises(ConfigError, match="expected a segment of all, new, known"):
        table.of("active")
    with pytest.raises(ConfigError, match="recall@10"):
        table.of(metric="recall@5")


def test_ranks_of_other_events_are_refused(test, found):
    with pytest.raises(ConfigError, match="pass the test that the ranks are of"):
        summary(found, test.at(np.arange(5)))
