from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from shortlist.diagnose.log.score_auc import LIKED, POSITIVE, SERVED, score_aucs
from tests.diagnose.log.records import STAGES, funnel_record, sampled_record

RECORD = funnel_record(60)


def found_for(record):
    return {(one.stage, one.target): one for one in score_aucs(record, STAGES)}


def expected(stage, target):
    """The same AUC from the definition, on a complete log."""
    inputs = stage - 1 <= RECORD.stage
    if target == LIKED:
        inputs &= RECORD.y >= 0
    positive = RECORD.stage == len(STAGES) if target == SERVED else RECORD.y == 1
    score = RECORD.scores[:, stage - 1].astype(np.float64)
    better, worse = score[inputs & positive], score[inputs & ~positive]
    return mannwhitneyu(better, worse).statistic / (len(better) * len(worse))


@pytest.mark.parametrize("target", [SERVED, POSITIVE, LIKED])
def test_aucs_of_a_complete_log_equal_those_of_the_rank_sum_test(target):
    found = found_for(RECORD)
    for number, name in enumerate(STAGES, start=1):
        assert found[name, target].auc.auc.value == pytest.approx(expected(number, target))


def test_last_stage_orders_served_candidates_first_within_each_request():
    assert found_for(RECORD)["re-rank", SERVED].auc.uauc.value == pytest.approx(1)


def test_aucs_of_a_sampled_log_are_within_four_errors_of_the_full_log():
    """Spec 1.3: every metric over the log is weighted by 1 / incl_prob."""
    full, few = found_for(RECORD), found_for(sampled_record(RECORD))
    one, other = full["pre-rank", SERVED].auc, few["pre-rank", SERVED].auc
    assert other.auc.sampling_error > 0
    for name in ("auc", "uauc", "wuauc"):
        near, far = getattr(other, name), getattr(one, name)
        assert abs(near.value - far.value) < 4 * near.sampling_error + 1e-9
    unweighted = sampled_record(RECORD)
    unweighted = replace(unweighted, incl_prob=np.ones(unweighted.n_candidates, np.float32))
    biased = found_for(unweighted)["pre-rank", SERVED].auc.auc.value
    assert abs(biased - one.auc.value) > 4 * other.auc.sampling_error


def test_served_candidates_without_a_label_are_not_negatives():
    some = RECORD.y.copy()
    some[np.flatnonzero(some == 1)[::2]] = -1
    found = found_for(replace(RECORD, y=some))
    assert (
        found["rank", POSITIVE].rows
        == found_for(RECORD)["rank", POSITIVE].rows - ((RECORD.y == 1) & (some < 0)).sum()
    )


def test_log_without_labels_has_aucs_for_served_only():
    found = score_aucs(replace(RECORD, y=np.full(RECORD.n_candidates, -1, np.int8)), STAGES)
    assert {one.target for one in found} == {SERVED}
