import json

import pytest

from shortlist.train.loop.convergence import best_of, converged, course


@pytest.mark.parametrize(
    ("judged", "most", "patience", "expected"),
    [
        ([], 10, 2, None),
        ([0.1, 0.3, 0.2, 0.2], 10, 2, True),  # patience stopped it
        ([0.1, 0.2, 0.3], 3, 2, False),  # still rising at the end
        ([0.1], 1, 2, False),  # one look is no sign of an end
        ([0.1, 0.3, 0.2], 3, 5, True),  # a tenth of three is one
        ([0.1] * 18 + [0.2, 0.1], 20, 5, False),  # one of twenty could be an accident
        ([0.1] * 17 + [0.2, 0.1, 0.1], 20, 5, True),
        ([0.1] * 17 + [0.2, 0.1, 0.1], 20, 0, True),  # nobody waits, a tenth is enough
        ([0.2] * 20, 20, 5, True),  # the first of equals is the best
    ],
)
def test_a_training_is_done_when_its_judge_is_no_longer_pleased(judged, most, patience, expected):
    assert converged(judged, most, patience) is expected


def test_one_more_look_that_is_better_never_makes_a_training_look_done():
    judged = [0.1, 0.2, 0.15, 0.18]
    assert converged(judged, 4, 2) is True
    assert converged([*judged, 0.3], 5, 2) is False


def test_the_course_is_plain_and_counts_epochs_from_one():
    told = course([0.1, float("nan"), 0.3, 0.2, 0.2], 10, 2)
    assert told == {
        "epochs": 5,
        "most": 10,
        "best": 3,
        "judged": [0.1, None, 0.3, 0.2, 0.2],
        "converged": True,
    }
    json.dumps(told, allow_nan=False)


def test_without_a_judge_all_epochs_were_run_and_nothing_is_known():
    assert course([], 4, 2) == {"epochs": 4, "most": 4, "best": None, "judged": [], "converged": None}


def test_what_is_no_number_is_never_the_best():
    assert best_of([float("nan"), 0.1, 0.1]) == 1
