"""Small logs with ties, repeats and new users, and models of every kind, for tests of the online protocol."""

import numpy as np
import torch

from shortlist.data import Interactions
from shortlist.data.time_split import time_split
from shortlist.evaluate.online import OnlineTest
from shortlist.models.collaborative.ccf import CCF, CCFConfig
from shortlist.models.sequence.gru4rec import GRU4Rec, GRU4RecConfig
from shortlist.models.sequence.sasrec import SASRec, SASRecConfig
from shortlist.models.sequence.sum_pooling import SumPooling, SumPoolingConfig
from shortlist.models.sequence.two_time_scale import TwoTimeScale, TwoTimeScaleConfig
from shortlist.train.models.counting.last_click import LastClickTrainer

USERS, ITEMS, THRESHOLD = 20, 30, 11


def small_split(events=300, seed=0, last_time=80, respect_ties=True):
    """A split where some users are new, some have one event, and many events share a time."""
    rng = np.random.default_rng(seed)
    users = rng.integers(0, USERS, events)
    times = rng.integers(0, last_time + 1, events)
    late = users < 4  # most of them without training events
    times[late] = rng.integers(last_time * 9 // 10, last_time + 1, late.sum())
    log = Interactions.of(users, rng.integers(0, ITEMS, events), times, n_users=USERS, n_items=ITEMS)
    return time_split(log, respect_ties=respect_ties)


def small_test(block=False, part="test", **options):
    """The events of a part of a small split."""
    return OnlineTest.of(small_split(**options), part, block=block)


class FixedScores:
    """The same scores before an event, whatever the batch: random, seeded by its position."""

    def __init__(self, seed=0, ties=False):
        self.seed, self.ties = seed, ties

    def scores_at(self, test, rows):
        scores = [
            np.random.default_rng([self.seed, at]).normal(size=test.n_items) for at in test.positions[rows]
        ]
        values = np.array(scores, np.float32)
        return torch.from_numpy(values.round() if self.ties else values)


def state_model(split, readout="anchored", base="full", own=True):
    """A two-time-scale model with random weights; users with more than 11 training events are active."""
    torch.manual_seed(3)
    active = np.flatnonzero(split.train_counts > THRESHOLD) if own else np.empty(0, int)
    sizes = {"n_items": ITEMS, "n_users": USERS, "n_active": len(active)}
    model = TwoTimeScale(TwoTimeScaleConfig(**sizes, width=6, readout=readout))
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.7)
        model.items.normal_()
        model.own.normal_()
        model.own_row[active] = torch.arange(len(active))
        counts = torch.from_numpy(split.train_counts[active])
        model.base.copy_(counts if base == "full" else counts - 4)
    return model.eval()


def models(split):
    """A model of every kind, by name."""
    torch.manual_seed(1)
    ccf = CCF(CCFConfig(n_items=ITEMS, n_users=USERS, width=5))
    ccf.finish(torch.from_numpy(split.train_counts > 0), torch.ones(ITEMS, dtype=torch.bool))
    return {
        "ccf": ccf.eval(),
        "gru4rec": GRU4Rec(GRU4RecConfig(n_items=ITEMS, max_history=7, width=6, hidden=8)).eval(),
        "sasrec": SASRec(SASRecConfig(n_items=ITEMS, max_history=7, width=8)).eval(),
        "sum-pooling": SumPooling(SumPoolingConfig(n_items=ITEMS, max_history=7, width=6)).eval(),
        "last-click": LastClickTrainer().learn(split.train),
    }
