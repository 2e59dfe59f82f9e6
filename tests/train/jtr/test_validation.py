"""The judge asks as a request would be answered."""

import numpy as np
import torch

from shortlist.data import HeldOut, Interactions, half_history
from shortlist.index.jtr import grow
from shortlist.models.sequence.sasrec import SASRec, SASRecConfig
from shortlist.train.jtr.validation import judge_of
from shortlist.train.loop.validation import judge_of as exact_judge


def test_with_the_widest_beam_it_says_what_scoring_everything_says(world):
    split = half_history(world.events, seed=0)
    torch.manual_seed(0)
    encoder = SASRec(SASRecConfig(world.events.n_items, 30, 16)).eval()
    index = grow(encoder.vectors(), 5, 20)
    said = judge_of(encoder, split.valid, 0, beam=10**6)(index)
    assert abs(said - exact_judge(encoder, split.valid, 0)()) < 1e-6
    assert said >= judge_of(encoder, split.valid, 0, beam=1)(index)


def test_without_cases_there_is_no_judge():
    events = Interactions.of(np.zeros(3, int), np.arange(3))
    nothing = np.empty(0, np.int64)
    encoder = SASRec(SASRecConfig(3, 5, 8))
    assert judge_of(encoder, None, 0, 1) is None
    assert judge_of(encoder, HeldOut(events, nothing, nothing, nothing), 0, 1) is None
