from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kendalltau

from shortlist.diagnose.log.agreement import log_agreements
from tests.diagnose.log.records import CAPS, STAGES, funnel_record, sampled_record

RECORD = funnel_record(40)


def slow(record, first, second, request):
    """Share kept and tau-b of one request of a complete log, from the definition."""
    rows = (record.request == request) & (record.stage >= second - 1)
    one, two = record.scores[rows, first - 1], record.scores[rows, second - 1]
    cap = CAPS[second - 1]
    top = set(np.argsort(-one)[:cap]) & set(np.argsort(-two)[:cap])
    return len(top) / cap, kendalltau(one, two).statistic


def test_agreement_of_a_complete_log_is_that_of_the_scores():
    found = log_agreements(RECORD, STAGES)
    assert [(one.first, one.second, one.requests) for one in found] == [
        ("pool", "pre-rank", 40),
        ("pre-rank", "rank", 40),
        ("rank", "re-rank", 40),
    ]
    for number, one in enumerate(found, start=1):
        expected = np.mean([slow(RECORD, number, number + 1, request) for request in range(40)], axis=0)
        assert (one.share_kept.mean, one.tau_b.mean) == pytest.approx(tuple(expected))
        assert 0 < one.rbo.mean < 1


def test_agreement_of_a_sampled_log_estimates_that_of_the_full_log():
    full = log_agreements(RECORD, STAGES)[0]
    found = [log_agreements(sampled_record(RECORD, 30, seed=seed), STAGES)[0] for seed in range(20)]
    for name in ("tau_b", "rbo"):
        values = np.array([getattr(one, name).mean for one in found])
        error = abs(values.mean() - getattr(full, name).mean)
        assert error < 4 * values.std() / len(values) ** 0.5 + 0.01


def test_selector_is_compared_by_its_choice():
    scores = RECORD.scores.copy()
    scores[:, 3] = np.nan
    ranks = RECORD.ranks.copy()
    ranks[:, 3] = np.where(RECORD.stage == 4, ranks[:, 3], 0)
    found = log_agreements(replace(RECORD, scores=scores, ranks=ranks), STAGES)[-1]
    assert (found.first, found.second) == ("rank", "re-rank")
    assert found.share_kept.mean == pytest.approx(log_agreements(RECORD, STAGES)[-1].share_kept.mean)


def test_equal_orders_agree_fully():
    scores = np.where(np.isfinite(RECORD.scores), RECORD.scores[:, :1], np.nan)
    ranks = RECORD.ranks.copy()
    same = log_agreements(replace(RECORD, scores=scores, ranks=np.zeros_like(ranks)), STAGES)
    for one in same:
        assert (one.tau_b.mean, one.rbo.mean) == pytest.approx((1, 1))


def test_log_without_scores_has_no_agreement():
    blank = replace(RECORD, scores=np.full_like(RECORD.scores, np.nan), ranks=np.zeros_like(RECORD.ranks))
    assert log_agreements(blank, STAGES) == ()
