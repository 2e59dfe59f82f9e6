"""GRU4Rec: step by step and all at once give the same vectors."""

import pytest
import torch

from shortlist.models.sequence.gru4rec import GRU4Rec, GRU4RecConfig


@pytest.fixture(scope="module", params=[1, 2], ids=["one layer", "two layers"])
def model(request) -> GRU4Rec:
    torch.manual_seed(0)
    return GRU4Rec(GRU4RecConfig(20, max_history=6, width=8, hidden=5, layers=request.param)).eval()


@torch.no_grad()
def test_step_by_step_equals_all_at_once(model):
    history = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 7, 1, 8, 2, 8]])
    whole = model(history)  # [2, 7, 8]
    steps = [model.start_token.expand(2, -1), *(model.items.weight[one] * 8**0.5 for one in history.T)]
    state = None
    for position, step in enumerate(steps):
        out, state = model.gru(step[:, None], state)
        torch.testing.assert_close(whole[:, position], model.norm(model.output(out[:, 0])), rtol=0, atol=1e-6)


@torch.no_grad()
def test_every_position_equals_a_history_that_ends_there(model):
    history = torch.tensor([[3, 1, 4, 1, 5, 9]])
    positions = model(history)[0]
    for end in range(7):
        assert torch.allclose(model.users(history[:, :end])[0], positions[end], atol=1e-6)


@torch.no_grad()
def test_the_order_of_a_history_matters(model):
    history = torch.tensor([[1, 2, 3, 4]])
    assert not torch.allclose(model.users(history), model.users(history.flip(1)), atol=1e-3)


def test_padding_has_no_gradient(model):
    model.zero_grad()
    model.scores(torch.tensor([[-1, -1, 3, 4]]))[0, 7].backward()
    touched = model.items.weight.grad.abs().sum(1).nonzero().ravel().tolist()
    assert touched == [3, 4, 7]
