import numpy as np
import pytest

from shortlist.errors import ConfigError
from shortlist.evaluate.online import OnlineRanks
from shortlist.evaluate.online.values import event_values, metric_names
from shortlist.metrics.sampled import expected_sampled_metrics


def test_values_of_every_kind_of_rank():
    raw = np.array([1.0, 4, 2.5])
    ranks = OnlineRanks(raw, np.array([1.0, 3, 2]), np.array([1, np.nan, 2]), n_items=9, n_neg=4)
    found = event_values(ranks, k=2)
    assert found["raw"].tolist() == [[1, 1], [0.25, 0], [0.4, 0]]
    assert found["excl"].tolist() == [[1, 1], [1 / 3, 0], [0.5, 1]]
    np.testing.assert_equal(found["sampled"], [[1, 1], [np.nan, np.nan], [0.5, 1]])
    assert (expected_sampled_metrics(raw, 9, 4, 2) == found["expected"].T).all()
    assert metric_names(2) == ("mrr", "recall@2")


def test_k_below_one_is_refused():
    with pytest.raises(ConfigError, match="expected k from 1, got 0"):
        event_values(OnlineRanks(*np.ones((3, 1)), n_items=9, n_neg=4), k=0)
