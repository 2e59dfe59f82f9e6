"""Sizes of sequence models."""

import numpy as np

from shortlist.train.auto.sizes import LEAST, MANY_EVENTS, MOST, history_length, sizes


def test_most_histories_are_read_to_their_beginning():
    lengths = np.arange(2, 102)
    assert np.mean(lengths <= history_length(lengths)) >= 0.9
    assert history_length(np.full(10, 5000)) == MOST
    assert history_length(np.array([0, 1, 3])) == LEAST
    assert history_length(np.array([], int)) == LEAST


def test_wide_size_comes_first_and_a_short_history_last():
    found = sizes("sasrec", MANY_EVENTS, 200, gpu=True)
    assert [one["max_history"] for one in found] == [200, 200, 50]
    assert found[0]["width"] % found[0]["heads"] == 0
    assert sizes("gru4rec", MANY_EVENTS, 30, gpu=False) == [{"max_history": 30}]
