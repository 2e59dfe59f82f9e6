import pytest
import torch

from shortlist.models.sequence.two_time_scale import READOUTS, TwoTimeScale, TwoTimeScaleConfig
from shortlist.models.state_model import NO_ITEM

WIDTH = 5


def model_of(readout):
    """User 0 is new, user 1 is active."""
    torch.manual_seed(0)
    sizes = {"n_items": 7, "n_users": 2, "n_active": 1, "width": WIDTH, "readout": readout}
    model = TwoTimeScale(TwoTimeScaleConfig(**sizes)).eval()
    with torch.no_grad():
        for weight in (*model.parameters(), model.items, model.own):
            weight.normal_()
        model.own_row[1] = 0
    return model


def one_by_one(model, states, items, users):
    """The formula of the recurrence, one user at a time."""
    found = []
    for state, item, user in zip(states, items.tolist(), users, strict=True):
        if not 0 <= item < model.config.n_items:
            found.append(state)
            continue
        weights = model.recurrence(bool(model.active(user[None])))
        given = model.inputs()[item]
        if weights.w_input.shape[1] > WIDTH:
            given = torch.cat([given, model.personal(user[None])[0]])
        by_input = (weights.w_input @ given + weights.b_input).reshape(3, WIDTH)
        by_state = (weights.w_state @ state + weights.b_state).reshape(3, WIDTH)
        r, z = torch.sigmoid(by_input[:2] + by_state[:2])
        n = torch.tanh(by_input[2] + r * by_state[2])
        found.append((1 - z) * n + z * state)
    return torch.stack(found)


@torch.no_grad()
@pytest.mark.parametrize("readout", READOUTS)
def test_a_step_is_the_formula_of_the_recurrence_of_each_group(readout):
    model = model_of(readout)
    users, items = torch.tensor([0, 1, -1, 1, 0]), torch.tensor([3, 6, 0, NO_ITEM, 7])
    states = torch.randn(5, WIDTH)
    found = model.step(states, items, users)
    torch.testing.assert_close(found, one_by_one(model, states, items, users), rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_starts_and_readouts_are_those_of_the_group_and_the_own_vector_of_each_user():
    model = model_of("plain")
    users = torch.tensor([1, 0])
    assert torch.equal(model.starts(users), torch.stack([model.own[0], model.start]))
    states = torch.randn(2, WIDTH)
    given = (torch.tensor([True, False]), model.personal(users))
    last = torch.tensor([2, NO_ITEM])
    assert torch.equal(model.readout(states, last, users), model.readout_of(states, last, *given))


def test_a_model_promotes_nobody_unless_it_says_how():
    model = model_of("plain")
    assert model.promotion() is None  # no threshold
    config = {**model.settings(), "threshold": 9, "last": 4, "prior": 0.5}
    ready = TwoTimeScale.build(config, model.state_dict()).promotion()
    assert (ready.threshold, ready.last, ready.prior) == (9, 4, 0.5)
    assert torch.equal(ready.mean, model.mean)
