from dataclasses import replace

import pytest

from shortlist.diagnose.shift import PopularityBar
from shortlist.pipeline import About, TrainingHistory
from shortlist.pipeline.about import OutOfFold, RetrievedTargets
from shortlist.report.diagnosis.shift import recalls, shift, training_lines
from shortlist.report.page import Html
from tests.diagnose.example import SHIFT, full_diagnosis

RETRIEVED = RetrievedTargets("ok", 0.57, 400, 228, 0.57, missing_items=9, missing_share=0.02)
HISTORY = TrainingHistory(
    3,
    5,
    mode="harmonised",
    negatives="candidates",
    retrieved=RETRIEVED,
    warnings=("rank: 228 retrieved targets are left",),
)


def text(section):
    return " ".join(part.text if isinstance(part, Html) else part for part in section.parts)


def test_training_mode_retrieved_targets_and_warnings_are_shown():
    about = About(training={"rank": HISTORY}, out_of_fold=OutOfFold("earlier"))
    shown = text(shift(full_diagnosis(about=about)))
    assert (
        "was trained with mode = 'harmonised': only targets that were among the candidates are used" in shown
    )
    assert "Its negatives are sampled candidates of the same request" in shown
    assert "Of the 400 training targets of 'rank', 228 (57.0%)" in shown
    assert "9 different target items" in shown
    assert "Warning of its training: 228 retrieved targets are left." in shown
    assert "out-of-fold candidates" in shown


def test_ranker_without_modes_has_no_lines():
    assert training_lines("rank", TrainingHistory(3, 3)) == []
    kept = replace(HISTORY, retrieved=replace(RETRIEVED, missing_items=0), warnings=())
    assert "different target item" not in " ".join(training_lines("rank", kept))


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [(0.5, 0.52, "similar"), (0.6, 0.4, "training had better"), (0.4, 0.6, "serving has better")],
)
def test_recall_in_training_is_compared_with_serving(before, now, expected):
    assert expected in recalls("rank", replace(SHIFT, recall_training=before, recall_serving=now))


def test_sides_without_relevant_items_are_not_compared():
    assert "cannot be compared" in recalls("rank", replace(SHIFT, recall_training=None))


def test_popularity_of_candidates_is_drawn_if_known():
    assert "<svg" not in text(shift(full_diagnosis()))
    bars = (PopularityBar("0", 0.25, 0.5), PopularityBar("1", 0.75, 0.5))
    assert "<svg" in text(shift(full_diagnosis(shift={"rank": replace(SHIFT, histogram=bars)})))
