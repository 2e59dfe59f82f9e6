"""The label of a play."""

import numpy as np

from shortlist.simulate.full_stage.label_rule import log_threshold, watch_label


def test_label_rule_at_its_boundaries() -> None:
    """Spec test 31: duration 7000 & play 7000 -> 1; 7001 & 7000 -> 0; 6999 & 6998 -> 0."""
    duration, play = np.array([7000.0, 7001.0, 6999.0]), np.array([7000.0, 7000.0, 6998.0])
    assert watch_label(play, duration).tolist() == [True, False, False]


def test_threshold_is_the_watch_ratio_from_which_the_label_is_one() -> None:
    seconds = np.array([3.0, 7.0, 9.5, 60.0])
    threshold = np.exp(log_threshold(np.log(seconds).astype(np.float32)).astype(np.float64))
    assert np.allclose(threshold, [1, 1, 7 / 9.5, 7 / 60])
    play = 1000 * seconds * threshold
    assert watch_label(play * 1.001, 1000 * seconds).all()
    assert not watch_label(play * 0.999, 1000 * seconds).any()
