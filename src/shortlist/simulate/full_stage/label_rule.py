"""The label of a play: the whole video if it is short, more than seven seconds otherwise."""

import numpy as np
from numpy.typing import NDArray

SHORT_MS = 7000.0  # a video of at most this length must be played to its end

Numbers = NDArray[np.float64]


def watch_label(play_ms: Numbers, duration_ms: Numbers) -> NDArray[np.bool_]:
    """Y = 1 if play >= duration for a duration of at most 7,000 ms, else if play > 7,000 ms."""
    return np.where(duration_ms <= SHORT_MS, play_ms >= duration_ms, play_ms > SHORT_MS)


def log_threshold(log_duration_s: NDArray[np.float32]) -> NDArray[np.float32]:
    """Logarithm of the watch ratio from which the label is 1: log(min(1, 7 s / duration))."""
    return np.asarray(np.minimum(np.log(SHORT_MS / 1000) - log_duration_s, 0), np.float32)
