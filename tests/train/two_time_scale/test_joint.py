import numpy as np
import pytest
import torch

from shortlist.train.two_time_scale.batches import DeviceEvents
from shortlist.train.two_time_scale.joint import as_parameters, both_groups, groups_of, set_random_tables
from shortlist.train.two_time_scale.sequences import last_events, of_new_users
from tests.train.two_time_scale.worlds import quick, random_model, tastes

EVENTS = tastes()


def test_buffers_are_parameters_inside_the_block_alone():
    model = random_model(EVENTS)
    before = model.items.clone()
    names = set(model.state_dict())
    with as_parameters(model, ("items", "own")):
        assert {"items", "own"} <= set(dict(model.named_parameters()))
        with torch.no_grad():
            model.items.add_(1)
    assert not {"items", "own"} & set(dict(model.named_parameters()))
    assert set(model.state_dict()) == names
    assert torch.equal(model.items, before + 1)
    assert not model.items.requires_grad


def test_buffers_come_back_after_an_error():
    model = random_model(EVENTS)
    with pytest.raises(KeyboardInterrupt), as_parameters(model, ("items",)):
        raise KeyboardInterrupt
    assert "items" in model._buffers


@pytest.mark.parametrize(("prefix", "of_active"), [("none", 0), ("threshold", 12), ("window", None)])
def test_new_users_have_the_first_events_of_active_ones(prefix, of_active):
    active = EVENTS.lengths > 12
    groups = groups_of(quick(prefix=prefix), EVENTS, active)
    own = EVENTS.lengths[active]
    expected = (
        EVENTS.lengths[~active].sum() + (own if of_active is None else np.minimum(own, of_active)).sum()
    )
    assert groups[False].lengths.sum() == expected
    assert groups[True].lengths.sum() == np.minimum(own, 4).sum()


def test_random_tables_have_bases_without_the_last_events():
    model = random_model(EVENTS)
    lengths = EVENTS.lengths[EVENTS.lengths > 12]
    set_random_tables(model, lengths, 5)
    assert model.base.tolist() == (lengths - 5).tolist()
    assert float(model.items.std()) == pytest.approx(0.1, rel=0.2)


def test_an_epoch_has_the_batches_of_both_groups():
    model = random_model(EVENTS)
    active = EVENTS.lengths > 12
    groups = {False: of_new_users(EVENTS, active, 0, 30), True: last_events(EVENTS, active, 4)}
    events = DeviceEvents.of(EVENTS, torch.device("cpu"))
    with as_parameters(model, ("items", "own")):
        batches, steps = both_groups(model, events, groups, quick(batch_size=50), seed=0)
        losses = [one() for one in batches(0)]
        assert abs(len(losses) - steps) <= 3
        torch.stack(losses).sum().backward()
        grads = {
            name for name, one in model.named_parameters() if one.grad is not None and bool(one.grad.any())
        }
    assert {"items", "own", "start", "output.weight"} <= grads
    assert np.isfinite([float(one.detach()) for one in losses]).all()
