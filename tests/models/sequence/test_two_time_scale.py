import math

import pytest
import torch
from torch import nn

from shortlist.errors import ArtifactError
from shortlist.models.registry import packed, unpacked
from shortlist.models.sequence.two_time_scale import READOUTS, TwoTimeScale, TwoTimeScaleConfig

ITEMS, USERS, WIDTH = 30, 6, 8


def make(readout="anchored", seed=0, **sizes):
    """Users 1 and 3 are active; 2 first events are in their vectors."""
    torch.manual_seed(seed)
    config = TwoTimeScaleConfig(
        **{"n_items": ITEMS, "n_users": USERS, "n_active": 2, "width": WIDTH, "readout": readout, **sizes}
    )
    model = TwoTimeScale(config).eval()
    with torch.no_grad():
        model.items.normal_()
        model.own.normal_()
        model.start.normal_()
        for at, user in enumerate((1, 3)):
            model.own_row[user] = at
        model.base.fill_(2)
    return model


def trained(readout="anchored"):
    """A model whose readout is not the one it begins with."""
    model = make(readout)
    with torch.no_grad():
        if readout == "anchored":
            model.output.weight.normal_()
            model.anchor.fill_(0.7)
        if readout == "plus":
            for mix in model.mix.values():
                mix.weight.normal_()
            model.no_item.normal_()
    return model


HISTORY = torch.tensor([[-1, 1, 2, 3, 4], [5, 6, 7, 8, 9], [-1, -1, -1, -1, 3], [-1] * 5, [9, 9, 2, 2, 2]])
USER = torch.tensor([0, 1, 2, -1, 3])


def event_by_event(model, history, user):
    """User vectors by one step per event: the oracle."""
    found = []
    for row, who in zip(history.tolist(), user.tolist(), strict=True):
        items = [one for one in row if one >= 0]
        users = torch.tensor([who])
        base = int(model.base_events(users))
        if base > len(items):
            users, base = torch.tensor([-1]), 0
        state = model.starts(users)
        for item in items[base:]:
            state = model.step(state, torch.tensor([item]), users)
        found.append(model.readout(state, torch.tensor(items[-1:] or [-1]), users)[0])
    return torch.stack(found)


@torch.no_grad()
@pytest.mark.parametrize("readout", READOUTS)
def test_users_of_a_batch_are_those_of_one_step_per_event(readout):
    model = trained(readout)
    torch.testing.assert_close(
        model.users(HISTORY, USER), event_by_event(model, HISTORY, USER), rtol=1e-5, atol=1e-5
    )


@torch.no_grad()
def test_short_history_of_an_active_user_is_read_from_the_common_start():
    model = trained()
    history = torch.tensor([[4]])
    torch.testing.assert_close(
        model.users(history, torch.tensor([1])), model.users(history, torch.tensor([-1]))
    )


@torch.no_grad()
def test_history_up_to_the_base_gives_the_start_of_an_active_user():
    """Spec 2: before any event after the base, the vector is that of the first stage."""
    model = make("plain")
    assert torch.equal(model.users(torch.tensor([[4, 5]]), torch.tensor([1])), model.own[:1])


@torch.no_grad()
def test_gru_has_the_parameters_of_the_specification():
    """Spec test 17: 24,960 for D = 64."""
    model = TwoTimeScale(TwoTimeScaleConfig(n_items=1, width=64, readout="plain"))
    assert sum(one.numel() for one in model.new_users.parameters()) == 24_960
    assert sum(one.numel() for one in nn.GRU(128, 128).parameters()) == 99_072


@torch.no_grad()
def test_gate_bias_keeps_the_state():
    """Spec test 17: with all weights 0 and a bias of 4 of the update gate, s' = 0.982014 s."""
    model = make("plain")
    for weight in model.active_users.parameters():
        weight.zero_()
    model.active_users.bias_hh_l0[WIDTH : 2 * WIDTH] = 4.0
    state = torch.randn(1, WIDTH)
    after = model.step(state, torch.tensor([3]), torch.tensor([1]))
    torch.testing.assert_close(after, state / (1 + math.exp(-4.0)))
    assert 1 / (1 + math.exp(-4.0)) == pytest.approx(0.982014, abs=1e-6)


@torch.no_grad()
def test_state_stays_within_its_bound():
    """Spec test 18: |s'| <= max(|s|, 1) in every coordinate, 10,000 random draws."""
    torch.manual_seed(0)
    model = make("plain")
    for weight in model.new_users.parameters():
        weight.normal_(std=3.0)
    state = torch.randn(10_000, WIDTH) * 2
    after = model.step(state, torch.randint(ITEMS, (10_000,)), torch.full((10_000,), -1))
    bound = state.abs().amax(1).clamp(min=1.0)
    assert bool((after.abs().amax(1) <= bound * (1 + 1e-6)).all())


@torch.no_grad()
def test_plus_begins_as_the_plain_model():
    """Spec test 21: W = [I, 0] changes no bit."""
    plain, plus = make("plain"), make("plus")
    shared = dict(plain.state_dict())
    plus.load_state_dict(shared, strict=False)
    assert torch.equal(plain.starts(USER), plus.starts(USER))
    states = torch.randn(len(USER), WIDTH)
    torch.testing.assert_close(plus.readout(states, HISTORY[:, -1], USER), states, rtol=0, atol=0)


@torch.no_grad()
def test_anchored_begins_as_the_factorisation_and_never_moves_own_vectors():
    """Spec test 30c."""
    model = make("anchored")
    own = model.own.clone()
    before = model.users(HISTORY, USER)
    assert torch.equal(before[1], own[0])
    assert torch.equal(before[4], own[1])
    assert torch.equal(model.own, own)


@torch.no_grad()
@pytest.mark.parametrize("readout", READOUTS)
def test_padding_changes_no_vector(readout):
    """Spec test 22, for vectors."""
    model = trained(readout)
    wide = torch.cat([torch.full((len(HISTORY), 7), -1), HISTORY], dim=1)
    torch.testing.assert_close(model.users(wide, USER), model.users(HISTORY, USER), rtol=1e-5, atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("readout", READOUTS)
def test_items_that_are_none_change_no_state(readout):
    model = trained(readout)
    states = torch.randn(2, WIDTH)
    after = model.step(states, torch.tensor([-1, ITEMS]), torch.tensor([0, 1]))
    assert torch.equal(after, states)


@torch.no_grad()
def test_unknown_users_have_the_last_vector_where_all_users_have_their_own():
    model = make("anchored", all_own=True)
    assert torch.equal(model.users(torch.tensor([[-1]]), torch.tensor([-1])), model.own[-1:])


@torch.no_grad()
def test_model_without_items_or_users_has_finite_vectors():
    for readout in READOUTS:
        model = TwoTimeScale(TwoTimeScaleConfig(n_items=0, width=4, readout=readout)).eval()
        assert bool(model.users(torch.full((2, 3), -1)).isfinite().all())


@pytest.mark.parametrize("readout", READOUTS)
def test_model_is_the_same_after_an_artifact(readout):
    model = trained(readout)
    again = unpacked(packed(model))
    with torch.no_grad():
        assert torch.equal(again.users(HISTORY, USER), model.users(HISTORY, USER))


def test_rows_beyond_the_own_vectors_are_refused():
    tensors = packed(make())
    tensors["model.own_row"] = torch.full((USERS,), 5)
    with pytest.raises(ArtifactError, match="own_row"):
        unpacked(tensors)


@torch.no_grad()
def test_a_transferred_anchored_vector_is_the_state_of_a_new_user_and_a_share_of_the_own_vector():
    """The recurrence begins where that of new users begins, and reads what that reads."""
    model = make()
    model.transfer()
    history, user = torch.tensor([[5, 6, 7]]), torch.tensor([1])  # 7 is after the base
    state = model.states(torch.tensor([[7]]), model.start[None], active=False)[:, 0]
    torch.testing.assert_close(model.users(history, user), state + 0.3 * model.own[:1], rtol=1e-5, atol=1e-6)
