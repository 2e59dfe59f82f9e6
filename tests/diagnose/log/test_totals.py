from dataclasses import replace

import numpy as np
import pytest

from shortlist.diagnose.log.totals import FunnelTotals, LastNominations, by_funnel
from shortlist.feedback.record import Funnel, concat, logged_requests
from shortlist.metrics.funnel.reveal import reveal_share, reveal_yield
from tests.diagnose.log.records import CAPS, funnel_record, sampled_record

RECORD = funnel_record(30)


def totals(record, labels=True):
    total = FunnelTotals(record.funnels[0], labels)
    for at in range(0, len(record), 7):
        total.add(record.take(np.arange(at, min(at + 7, len(record)))))
    return total


def test_candidates_and_labels_are_counted():
    total = totals(RECORD)
    assert (total.entered / 30).tolist() == [80, *CAPS[:-1]]
    assert (total.kept / 30).tolist() == list(CAPS)
    assert (total.requests, total.rows, total.served) == (30, 2400, 90)
    assert total.positives + total.negatives == 90


def test_sums_of_channels_give_the_reveal_ratios():
    total = totals(RECORD)
    shown = RECORD.shown == 1
    credit = reveal_yield(RECORD.channel_mask, shown, 2)
    assert total.channels[:, 1] / total.channels[:, 0] == pytest.approx(credit.full)
    assert total.channels[:, 2] / total.channels[:, 0] == pytest.approx(credit.split)
    assert total.channels[:, 2] / total.revealed == pytest.approx(
        reveal_share(RECORD.channel_mask, shown, 2).split
    )


def test_weights_of_a_sample_give_the_sums_of_the_full_log():
    errors = []
    for seed in range(30):
        total = totals(sampled_record(RECORD, seed=seed))
        assert (
            total.channels[:, 1].tolist() == totals(RECORD).channels[:, 1].tolist()
        )  # all served are logged
        errors.append(total.channels[:, 0] - totals(RECORD).channels[:, 0])
    error = np.array(errors)
    assert (abs(error.mean(0)) < 4 * error.std(0) / 30**0.5 + 1e-6).all()


def test_filtered_candidates_count_at_the_stage_that_removed_them():
    removed = RECORD.stage == 1
    total = totals(replace(RECORD, filtered=removed & (np.arange(len(removed)) % 2 == 0)))
    assert total.filtered[0] == 0
    assert total.filtered[1] == (removed & (np.arange(len(removed)) % 2 == 0)).sum()


def test_counts_of_filters_are_used_where_the_log_has_them():
    counts = np.tile(np.array([0, 9, 0, 1], np.int32), (len(RECORD), 1))
    assert (totals(replace(RECORD, n_filtered=counts)).filtered / len(RECORD)).tolist() == [0, 9, 0, 1]


def test_without_labels_served_items_are_revealed():
    unlabelled = replace(RECORD, shown=np.full(RECORD.n_candidates, -1, np.int8))
    assert totals(unlabelled, labels=False).revealed == 90
    assert totals(unlabelled, labels=True).revealed == 0


def test_requests_are_separated_by_their_funnels():
    other = replace(funnel_record(5, caps=(80, 10)), funnels=(Funnel(("pool", "rank"), ("near", "popular")),))
    both = dict(by_funnel(concat([RECORD, other])))
    assert {" > ".join(key.stages): len(one) for key, one in both.items()} == {
        "pool > pre-rank > rank > re-rank": 30,
        "pool > rank": 5,
    }


def test_items_that_were_not_nominated_lately_are_counted():
    """Two requests eight days apart; only item 7 is in both."""
    day = 86_400_000
    record = logged_requests(
        np.array([1, 2]),
        np.array([0, 8 * day]),
        np.array([0, 0]),
        np.array([0, 3, 5]),
        np.array([7, 8, 9, 7, 6]),
        np.ones(5, np.int8),
        np.full((2, 1), 2, np.int32),
    )
    last = LastNominations()
    last.add(record.take(np.array([0])))
    assert last.forgotten(7 * day) == 0
    last.add(record.take(np.array([1])))
    assert last.forgotten(7 * day) == 2
    assert last.forgotten(9 * day) == 0
