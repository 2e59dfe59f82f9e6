import numpy as np

from shortlist.lab.bench.ccf import power_law_log as module
from shortlist.lab.bench.ccf.power_law_log import power_law_log


def test_shares_follow_the_power_law(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 1000)
    log = power_law_log(50, 20, 40_000, seed=1)
    assert (len(log), log.n_users, log.n_items) == (40_000, 50, 20)
    shares = np.sort(log.popularity)[::-1] / len(log)
    expected = np.arange(1, 21) ** -module.ITEMS
    assert np.abs(shares / (expected / expected.sum()) - 1).max() < 0.15
    assert not np.array_equal(
        np.argsort(-log.popularity), np.arange(20)
    )  # rows are not in order of popularity


def test_the_seed_decides():
    one, two, three = (power_law_log(9, 9, 100, seed).items for seed in (1, 1, 2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, three)
