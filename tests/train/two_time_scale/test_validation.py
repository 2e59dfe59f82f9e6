import numpy as np
import pytest
import torch

from shortlist.data import HeldOut
from shortlist.train.two_time_scale import validation
from shortlist.train.two_time_scale.validation import EventRanks, event_metric, has_repeats
from tests.train.two_time_scale.worlds import random_model, split, tastes

SPLIT = split()
VALID = SPLIT.valid_requests()


def model_of(readout="anchored"):
    return random_model(SPLIT.train, readout)


@torch.no_grad()
def one_by_one(model, requests, as_new, repeats):
    """The rank of every event from the whole history before it: the oracle."""
    found = []
    for start, cut, stop, user in zip(
        requests.starts, requests.cuts, requests.stops, requests.users, strict=True
    ):
        for at in range(cut, stop):
            history = requests.events.items[start:at].astype(np.int64)
            scores = model.scores(torch.from_numpy(history)[None], torch.tensor([-1 if as_new else user]))[0]
            target = int(requests.events.items[at])
            own = scores[target].clone()
            if not repeats:
                scores[[one for one in set(history.tolist()) if one != target]] = -torch.inf
            others = torch.cat([scores[:target], scores[target + 1 :]])
            found.append(1 + float((others > own).sum()) + 0.5 * float((others == own).sum()))
    return np.array(found)


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("as_new", [False, True])
@pytest.mark.parametrize("readout", ["plus", "anchored"])
def test_ranks_are_those_of_whole_histories(readout, as_new, repeats):
    model = model_of(readout)
    ranks = EventRanks(model, VALID, as_new, repeats)
    np.testing.assert_allclose(ranks(), one_by_one(model, VALID, as_new, repeats))
    assert ranks.users.tolist() == np.repeat(VALID.users, VALID.stops - VALID.cuts).tolist()


def test_batches_and_blocks_change_no_rank(monkeypatch):
    model = model_of()
    whole = EventRanks(model, VALID, False, False)()
    monkeypatch.setattr(validation, "STEPS", 40)
    monkeypatch.setattr(validation, "CELLS", 100)
    np.testing.assert_allclose(EventRanks(model, VALID, False, False)(), whole)


def test_user_with_a_shorter_history_than_the_base_is_read_as_new():
    model = model_of()
    active = VALID.take(np.flatnonzero(model.active(torch.from_numpy(VALID.users)).numpy()))
    short = HeldOut(active.events, active.cuts - 1, active.cuts, active.stops)
    found = EventRanks(model, short, False, True)()
    np.testing.assert_allclose(found, EventRanks(model, short, True, True)())


def test_only_first_events_of_a_request_count(monkeypatch):
    monkeypatch.setattr(validation, "MOST_EVENTS", 1)
    assert len(EventRanks(model_of(), VALID, False, False)()) == len(VALID)


def test_metric_is_the_mean_gain_of_the_events():
    model = model_of()
    ranks = EventRanks(model, VALID, False, False)()
    recall = event_metric(model, VALID, False, False, "recall@3", 10**6, 0)
    ndcg = event_metric(model, VALID, False, False, "ndcg@5", 10**6, 0)
    assert recall() == pytest.approx((ranks <= 3).mean())
    assert ndcg() == pytest.approx(np.where(ranks <= 5, 1 / np.log2(1 + ranks), 0).mean())


@torch.no_grad()
def test_likelihood_is_the_geometric_mean_of_the_probabilities():
    model = model_of()
    found = []
    for start, cut, stop, user in zip(VALID.starts, VALID.cuts, VALID.stops, VALID.users, strict=True):
        for at in range(cut, stop):
            history = torch.tensor([VALID.events.items[start:at].tolist()], dtype=torch.int64)
            scores = model.scores(history, torch.tensor([user]))[0]
            found.append(float(scores.log_softmax(0)[int(VALID.events.items[at])]))
    metric = event_metric(model, VALID, False, False, "likelihood", 10**6, 0)
    assert metric() == pytest.approx(np.exp(np.mean(found)), rel=1e-4)


def test_metric_with_repeats_leaves_no_item_out():
    model = model_of()
    metric = event_metric(model, VALID, False, False, "recall@3+repeats", 10**6, 0)
    assert metric() == pytest.approx((EventRanks(model, VALID, False, True)() <= 3).mean())


def test_no_requests_have_no_metric():
    assert event_metric(model_of(), None, False, False, "recall@3", 10, 0) is None
    assert event_metric(model_of(), VALID.take(slice(0, 0)), False, False, "recall@3", 10, 0) is None


def test_log_of_distinct_pairs_has_no_repeats():
    events = tastes()
    assert has_repeats(events)
    keys = events.users.astype(int) * 100 + events.items
    assert not has_repeats(events.where(np.sort(np.unique(keys, return_index=True)[1])))
    assert not has_repeats(events.where(np.zeros(len(events), bool)))
