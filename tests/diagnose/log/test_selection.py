from dataclasses import replace

import numpy as np
import pytest

from shortlist.diagnose.log.selection import PRIOR, log_selection, mean_without_own
from tests.diagnose.log.records import STAGES, funnel_record, sampled_record

RECORD = funnel_record(120)


@pytest.fixture(scope="module")
def found():
    return log_selection(RECORD, STAGES)


def test_every_stage_that_drops_has_models_of_both_features(found):
    models, notes = found
    assert [(one.stage, one.features) for one in models] == [
        (stage, features) for stage in STAGES[1:] for features in ("scores", "means")
    ]
    assert notes == ()


def test_split_is_by_the_time_of_requests(found):
    assert {(one.report.train_requests, one.report.test_requests) for one in found[0]} == {(84, 36)}


def test_stage_that_cuts_by_rank_is_predictable_within_a_request_and_depends_on_the_set(found):
    """Spec 2.3: a high AUC shows that the choice can be predicted, the gap that it depends on the candidate set."""
    for one in found[0]:
        if one.features == "scores":
            assert one.report.pointwise.auc.uauc.value > 0.85
            assert one.report.gap > 5 * one.report.error > 0
            assert 0.5 < one.report.pointwise.calibration.slope < 2


def test_means_of_items_predict_less_than_scores(found):
    by_name = {(one.stage, one.features): one.report.pointwise.auc.uauc.value for one in found[0]}
    for stage in STAGES[1:]:
        assert 0.5 < by_name[stage, "means"] < by_name[stage, "scores"]


def test_models_of_a_sampled_log_are_near_those_of_the_full_log(found):
    few = {
        (one.stage, one.features): one.report for one in log_selection(sampled_record(RECORD, 30), STAGES)[0]
    }
    for one in found[0]:
        own = few[one.stage, one.features].pointwise.auc.auc
        assert abs(own.value - one.report.pointwise.auc.auc.value) < 4 * own.sampling_error + 0.01


def test_candidates_that_a_filter_removed_are_not_dropped_by_order():
    removed = replace(RECORD, filtered=RECORD.stage == 1)
    models, _ = log_selection(removed, STAGES)
    assert "pre-rank" not in {one.stage for one in models}  # it keeps all that the filter left


def test_requests_of_one_time_have_no_model_and_a_note():
    same = replace(RECORD, ts_ms=np.zeros_like(RECORD.ts_ms))
    models, notes = log_selection(same, STAGES)
    assert models == ()
    assert notes[0].startswith("pre-rank: no selection model: set dependence: expected earlier and later")


def test_means_leave_out_the_row_itself_and_rows_that_are_not_counted():
    owner, score = np.array([0, 0, 0, 1]), np.array([1.0, 2.0, 30.0, 5.0])
    counted = np.array([True, True, False, True])
    overall = (1 + 2 + 5) / 3
    found = mean_without_own(owner, score, counted)
    assert found[0] == pytest.approx(overall + (2 - overall) / (1 + PRIOR))
    assert found[2] == pytest.approx(overall + (3 - 2 * overall) / (2 + PRIOR))
    assert found[3] == pytest.approx(overall)


def test_ids_that_are_text_give_the_same_models(found):
    text = {name: getattr(RECORD, name).astype(str).astype(object) for name in ("item_id", "user_id")}
    for one, other in zip(log_selection(replace(RECORD, **text), STAGES)[0], found[0], strict=True):
        assert one.report.gap == pytest.approx(other.report.gap)
