import pytest

from shortlist.report.diagnosis.shift import recalls, shift, training_lines
from shortlist.report.page import Html
from tests.diagnose.made_up import whole

GUARD = {"level": "ok", "recall": 0.57, "instances": 400, "kept": 228, "effective": 0.57, "reasons": []}
TAUGHT = {
    "mode": "harmonised",
    "negatives": "candidates",
    "harmony": GUARD | {"dropped_items": 9, "dropped_share": 0.02, "clipped": 0.0},
    "warnings": ["rank: 228 retrieved instances are left"],
}


def text(section):
    return " ".join(part.text if isinstance(part, Html) else part for part in section.parts)


def test_the_mode_the_guard_and_its_warnings_are_told_in_words():
    told = whole(training={"rank": TAUGHT}, rehearsal={"rehearse": "earlier"})
    said = text(shift(told))
    assert "learned in the mode 'harmonised': only wanted items that were among the candidates count" in said
    assert "set against other candidates of the same request" in said
    assert "400 wanted items that 'rank' could learn from, 228 (57.0%)" in said
    assert "9 different items" in said
    assert "Warning of its training: 228 retrieved instances are left." in said
    assert "cut in two" in said


def test_a_ranker_without_modes_has_nothing_to_tell_of_them():
    assert training_lines("rank", {"epochs": 3}) == []
    kept = TAUGHT | {"harmony": TAUGHT["harmony"] | {"dropped_items": 0}, "warnings": []}
    assert "different item" not in " ".join(training_lines("rank", kept))


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [(0.5, 0.52, "about the same"), (0.6, 0.4, "kinder than service"), (0.4, 0.6, "service is kinder")],
)
def test_recalls_of_rehearsal_and_service_are_held_against_each_other(before, now, said):
    assert said in recalls("rank", {"recall_training": before, "recall_serving": now})


def test_sides_without_anything_wanted_are_not_compared():
    assert "cannot be compared" in recalls("rank", {"recall_training": None, "recall_serving": 0.5})


def test_the_popularity_of_candidates_is_drawn_where_it_is_known():
    one = whole()["shift"]["rank"]
    assert "<svg" not in text(shift(whole()))
    bars = [
        {"events": "0", "training": 0.25, "serving": 0.5},
        {"events": "1", "training": 0.75, "serving": 0.5},
    ]
    assert "<svg" in text(shift(whole(shift={"rank": one | {"histogram": bars}})))
