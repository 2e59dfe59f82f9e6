"""Trials with several thresholds."""

from types import SimpleNamespace

import pytest

from shortlist.progress import silent
from shortlist.train.two_time_scale import trials
from shortlist.train.two_time_scale.threshold import Choice
from shortlist.train.two_time_scale.trials import chosen_threshold
from shortlist.train.two_time_scale.untrained import NOBODY

BINS = (5, 10, 20, 50)
LOSS = Choice(BINS, (-1.0, -1.0, -1.0, -1.0), (9, 9, 9, 9), None)


@pytest.fixture
def chosen(monkeypatch):
    """The threshold after trials with these choices, by the threshold of the trial; trials without one are skipped."""
    monkeypatch.setattr(trials, "candidates", lambda lengths: BINS)

    def of(choices, personal="own"):
        monkeypatch.setattr(trials, "_choice", lambda training, least, *_: choices.get(least))
        trainer = SimpleNamespace(personal=personal, title="")
        events, data = SimpleNamespace(lengths=None), SimpleNamespace(progress=silent)
        return chosen_threshold(SimpleNamespace(trainer=trainer, events=events, data=data))

    return of


def test_trial_of_many_events_is_chosen_where_that_of_few_gains_nothing(chosen):
    later = Choice((20, 50), (0.01, 0.02), (100, 100), 20)
    assert chosen({5: LOSS, 20: later}) == 20


def test_largest_sum_of_gains_decides(chosen):
    few = Choice(BINS, (0.5, 0.1, 0.1, 0.1), (10, 10, 10, 10), 5)  # 8 in all
    many = Choice((20, 50), (0.5, 0.5), (10, 10), 50)  # 5 above the threshold
    assert chosen({5: few, 20: many}) == 5
    assert chosen({5: many, 20: few}) == 5
    assert chosen({5: few, 20: Choice((20, 50), (0.5, 0.5), (10, 10), 20)}) == 20


def test_nobody_is_active_without_a_gain_or_without_events(chosen):
    assert chosen({5: LOSS, 20: Choice((20, 50), (-1.0, -1.0), (9, 9), None)}) == NOBODY
    assert chosen({}) == NOBODY


def test_ablations_have_the_middle_candidate(chosen):
    assert chosen({5: LOSS}, personal="common") == 20
