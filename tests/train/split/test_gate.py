"""A gate of nominators, on users of two kinds with a nominator for each."""

import dataclasses

import pytest
import torch

from shortlist.data import Query
from shortlist.errors import ArtifactError
from shortlist.nominate import Split
from shortlist.nominate.split_gate import SplitGate
from shortlist.testing.stages import check_stage
from shortlist.train.split.gate import credits_of, fit_gate
from tests.train.split.two_kinds import NAMES, USERS, batch_of, events_of, recall_of


@pytest.fixture(scope="module")
def batch():
    return batch_of(torch.arange(USERS) % 2)


@pytest.fixture(scope="module")
def gate(batch):
    return fit_gate([batch], NAMES, events_of(batch), seed=0)


def split_with(gate, limits=(10, 10)):
    return Split(NAMES, (limits,), gate=gate, k=20)


def test_a_request_gets_the_nominator_of_its_kind(batch, gate):
    split = split_with(gate)
    assert recall_of(split, batch).mean() > 0.9
    assert recall_of(split_with(None, (4, 16)), batch).mean() < 0.8
    rates = split.rates(batch.query)
    assert ((rates[:, 0] > rates[:, 1]) == (torch.arange(USERS) % 2 == 0)).float().mean() > 0.9


def test_the_mean_over_the_training_requests_is_one(batch, gate):
    torch.testing.assert_close(gate(batch.query).mean(0), torch.ones(2), atol=1e-4, rtol=1e-4)


def test_every_nominator_with_a_limit_keeps_a_slot_in_every_request(batch, gate):
    rates = split_with(gate, (1, 8)).rates(batch.query)
    assert rates.min() >= 1
    assert not split_with(gate, (0, 8)).rates(batch.query)[:, 0].any()


def test_a_request_without_history_has_the_limits_of_all(gate):
    empty = Query.of([[], [3, 4]])
    rates = split_with(gate, (12, 8)).rates(empty)
    assert rates[0].tolist() == [12.0, 8.0]
    assert rates[1].tolist() != [12.0, 8.0]


def test_an_item_that_is_newer_than_the_gate_counts_as_no_event(gate):
    known, newer = gate(Query.of([[3, 4]])), gate(Query.of([[3, 4, 900]]))
    assert bool(newer.isfinite().all())
    assert torch.equal(known[0] > 1, newer[0] > 1)


def test_a_gate_that_learns_nothing_keeps_the_learned_limits(batch):
    same = batch_of(torch.zeros(USERS, dtype=torch.int64))
    flat = fit_gate([same], NAMES, events_of(same), seed=0)
    assert torch.allclose(split_with(flat, (7, 3)).rates(same.query), torch.tensor([[7.0, 3.0]]), rtol=0.05)


def test_nominators_of_the_same_target_share_it(batch):
    both = {name: torch.arange(40).float().expand(USERS, -1) for name in ("left.rank", "right.rank")}
    found = batch.found.add(both)
    assert torch.equal(credits_of([batch.with_found(found)], NAMES), torch.full((USERS, 2), 0.5))
    even = fit_gate([batch.with_found(found)], NAMES, events_of(batch), seed=0)
    torch.testing.assert_close(even(batch.query), torch.ones(USERS, 2), atol=1e-3, rtol=1e-3)


def test_few_requests_are_enough_for_a_gate_that_says_little(batch):
    first = batch_of(torch.tensor([0]))
    alone = fit_gate([first], NAMES, events_of(batch), seed=0)
    assert bool(alone(batch.query).isfinite().all())


def test_stage_with_a_gate_is_stored_and_obeys_the_contract(batch, gate):
    split = split_with(gate)
    stored = Split.build(split.settings(), split.tensors())
    assert torch.equal(stored.rates(batch.query), split.rates(batch.query))
    assert Split.build(split_with(None).settings(), {}).gate is None
    check_stage(split, 40)


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("factors", lambda one: one[:-1], "gate.factors"),
        ("weights", lambda one: one[:, :1], "gate.weights"),
        ("mean", lambda one: one[:1], "gate.mean"),
        ("scale", lambda one: one[:1], "gate.scale"),
        ("mean", lambda one: one.double(), "gate.mean"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(gate, name, change, says):
    broken = dataclasses.replace(gate, **{name: change(getattr(gate, name))})
    split_with(gate).check_catalogue(40, set(NAMES))
    with pytest.raises(ArtifactError, match=says):
        split_with(broken).check_catalogue(40, set(NAMES))


def test_gate_without_tensors_is_none():
    assert SplitGate.of({}) is None
