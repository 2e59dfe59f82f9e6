from dataclasses import replace

import numpy as np
import pytest

from shortlist.diagnose.log.relevance import label_weights, modelled_utility
from tests.diagnose.log.records import STAGES, funnel_record, sampled_record

RECORD = funnel_record(1000, noise=1.5, caps=(40, 20, 8, 3), spread=0.0)


@pytest.fixture(scope="module")
def found():
    return modelled_utility(RECORD, STAGES)


def test_losses_of_stages_add_up_to_the_loss_of_the_funnel(found):
    """Spec test 33, with the relevance of a model."""
    lost = [one.lost.mean for one in found.stages]
    assert min(lost) >= 0
    assert sum(lost) == pytest.approx(found.input_utility - found.stages[-1].best_utility)
    assert (found.requests, found.slots) == (300, 3)


def test_model_orders_shown_items_and_is_calibrated(found):
    assert found.auc > 0.55
    assert abs(found.calibration.bias) < 0.1
    assert 0.3 < found.calibration.slope < 2


def test_funnel_of_random_scores_loses_more(found):
    worse = modelled_utility(funnel_record(1000, noise=8.0, caps=(40, 20, 8, 3), spread=0.0), STAGES)
    share = [1 - one.stages[-1].best_utility / one.input_utility for one in (worse, found)]
    assert share[0] > share[1]


def test_sampled_log_gives_nearly_the_same_losses(found):
    few = modelled_utility(sampled_record(RECORD, 30), STAGES)
    assert few.input_utility == pytest.approx(found.input_utility, rel=0.05)
    for one, other in zip(few.stages[1:], found.stages[1:], strict=True):
        assert one.lost.mean == pytest.approx(other.lost.mean, abs=0.1)


def test_shown_items_of_sampled_slates_weigh_the_inverse_of_their_propensity():
    drawn = np.full(RECORD.n_candidates, np.nan, np.float32)
    drawn[:3] = [0.5, 0.001, 1.0]
    assert label_weights(replace(RECORD, slate_propensity=drawn))[:4].tolist() == pytest.approx(
        [2, 100, 1, 1]
    )


def test_log_without_labels_of_both_kinds_has_no_model():
    for y in (-1, 1):
        same = np.where(RECORD.y >= 0, y, -1).astype(np.int8)
        assert modelled_utility(replace(RECORD, y=same), STAGES) is None


def test_ids_that_are_text_give_the_same_losses(found):
    text = replace(RECORD, item_id=RECORD.item_id.astype(str).astype(object))
    assert modelled_utility(text, STAGES).input_utility == pytest.approx(found.input_utility)
