"""Ranks of targets in pooled candidates and in wider lists."""

import numpy as np
import torch

from shortlist.data import Candidates, Query
from shortlist.data.candidates import merge
from shortlist.grammar import Nominator
from shortlist.metrics.nomination.coverage import ABSENT
from shortlist.train.context import RequestBatch
from shortlist.train.split.ranks import ranks_in_lists, ranks_in_pool


def batch_of(lists, targets, histories=None):
    """Requests with the lists of nominators `a` and `b`."""
    found = [
        Candidates.of(
            torch.tensor([one[at] for one in lists]),
            -torch.arange(len(lists[0][at])).float().expand(len(lists), -1),
        )
        for at in range(2)
    ]
    query = Query.of(histories or [[1]] * len(lists), users=list(range(len(lists))))
    return RequestBatch(query, merge(found, ["a", "b"]), torch.tensor(targets))


BATCHES = [
    batch_of([([3, 5, 7], [5, 9]), ([1, 2, 4], [4, 8])], [[5, 9, -1], [6, -1, -1]], [[1], [1, 2, 3]]),
    batch_of([([0, 1, 2], [-1, -1])], [[2, 0]]),
]


def slow(batches):
    """Ranks by searching every target in every list."""
    rows = []
    for batch in batches:
        for row, targets in enumerate(batch.targets.tolist()):
            for target in (one for one in targets if one >= 0):
                at = [
                    int(batch.found.columns[f"{name}.rank"][row, column])
                    for name in "ab"
                    for column in [_column(batch, row, target, name)]
                    if column is not None
                ]
                rows.append([target, *at])
    return rows


def _column(batch, row, target, name):
    for column, item in enumerate(batch.found.items[row].tolist()):
        known = not torch.isnan(batch.found.columns[f"{name}.rank"][row, column])
        if item == target and batch.found.valid[row, column] and known:
            return column
    return None


def test_ranks_of_targets_in_pooled_candidates():
    ranks = ranks_in_pool(BATCHES, ["a", "b"])
    assert ranks.rank.tolist() == [[1, 0], [ABSENT, 1], [ABSENT, ABSENT], [2, ABSENT], [0, ABSENT]]
    assert ranks.request.tolist() == [0, 0, 1, 2, 2]
    assert ranks.lengths.tolist() == [1, 3, 1]
    assert (ranks.found, ranks.targets.tolist()) == (4, [2, 1, 2])
    known = [[one for one in row if one < ABSENT] for row in ranks.rank.tolist()]
    assert known == [row[1:] for row in slow(BATCHES)]


def test_some_requests_keep_their_own_targets():
    some = ranks_in_pool(BATCHES, ["a", "b"]).where(np.array([False, True, True]))
    assert some.rank.tolist() == [[ABSENT, ABSENT], [2, ABSENT], [0, ABSENT]]
    assert some.request.tolist() == [0, 1, 1]
    assert some.users.tolist() == [1, 0]


def test_recall_of_limits_by_segment():
    ranks = ranks_in_pool(BATCHES, ["a", "b"])
    limits = np.array([[1, 1], [3, 0]])
    assert ranks.recall(limits, np.array([0, 0, 0])).tolist() == [0.5, 0, 0.5]
    assert ranks.recall(limits, np.array([0, 0, 1])).tolist() == [0.5, 0, 1]


def test_no_batches_have_no_targets():
    ranks = ranks_in_pool([], ["a", "b"])
    assert (len(ranks), ranks.found, ranks.rank.shape) == (0, 0, (0, 2))


class Counting(Nominator):
    """Nominates items from the last one of the history on."""

    def nominate(self, query):
        items = query.history[:, -1:] + torch.arange(self.limit)
        return Candidates.of(items, -torch.arange(self.limit).float().expand(items.shape))


def test_wider_lists_show_ranks_beyond_the_limits_of_the_pool():
    ranks = ranks_in_lists(BATCHES, {"n": Counting(name="n", limit=2)}, 5)
    assert ranks.rank[:, 0].tolist() == [4, ABSENT, 3, 1, ABSENT]
