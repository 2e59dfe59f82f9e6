"""BERT4Rec: a masked position attends to both sides, masked items do not leak, the user is the mask at the end."""

import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.models.sequence.bert4rec import BERT4Rec, BERT4RecConfig


@pytest.fixture(scope="module")
def model() -> BERT4Rec:
    torch.manual_seed(0)
    new = BERT4Rec(BERT4RecConfig(20, max_history=6, width=8)).eval()
    torch.nn.init.normal_(new.mask_token)
    return new


def masked_at(*positions, width=5):
    return torch.tensor([[position in positions for position in range(width)]])


@torch.no_grad()
def test_user_vector_is_the_mask_after_the_last_item(model):
    by_hand = model(torch.tensor([[3, 1, 4, 1, -1]]), masked_at(4))[:, -1]
    assert torch.equal(model.users(torch.tensor([[3, 1, 4, 1]])), by_hand)
    wide = model(torch.tensor([[-1, -1, 3, 1, 4, 1, -1]]), masked_at(6, width=7))[:, -1]
    assert torch.allclose(wide, by_hand, atol=1e-6)
    assert torch.allclose(model.users(torch.tensor([[-1, 3, 1, 99, 4, 1]])), by_hand, atol=1e-6)


@torch.no_grad()
def test_masked_item_does_not_leak(model):
    one, two = torch.tensor([[3, 1, 4, 1, 5]]), torch.tensor([[3, 1, 9, 1, 5]])
    assert torch.equal(model(one, masked_at(2)), model(two, masked_at(2)))
    assert not torch.allclose(model(one, masked_at()), model(two, masked_at()), atol=1e-3)


@torch.no_grad()
@pytest.mark.parametrize("changed", [0, 1, 3, 4])
def test_masked_position_attends_to_both_sides(model, changed):
    sequence = torch.tensor([[3, 1, 4, 1, 5]])
    other = sequence.clone()
    other[0, changed] = 17
    one, two = (model(rows, masked_at(2))[0, 2] for rows in (sequence, other))
    assert not torch.allclose(one, two, atol=1e-3)


@torch.no_grad()
def test_padding_at_the_front_is_ignored(model):
    sequence, unpadded = torch.tensor([[-1, -1, 3, 1, 4]]), torch.tensor([[3, 1, 4]])
    vectors = model(sequence, masked_at(3))[:, 2:]
    assert torch.allclose(vectors, model(unpadded, masked_at(1, width=3)), atol=1e-6)


@torch.no_grad()
def test_positions_count_from_the_end(model):
    """The item just before the mask has the same position in every history."""
    assert not torch.allclose(
        model.users(torch.tensor([[1, 2, 3]])), model.users(torch.tensor([[2, 1, 3]])), atol=1e-4
    )
    changed = BERT4Rec.build(model.settings(), model.state_dict())
    changed.positions[:-4] = 9.0  # a history of three items does not reach them
    short = torch.tensor([[1, 2, 3]])
    assert torch.equal(changed.users(short), model.users(short))


@torch.no_grad()
def test_padding_alone_equals_a_single_mask(model):
    alone = model(torch.tensor([[-1]]), masked_at(0, width=1))[:, 0]
    for history in ([], [-1], [-1] * 6, [99, -1]):
        vectors = model.users(torch.tensor([history], dtype=torch.int64))
        assert torch.allclose(vectors, alone, atol=1e-6)
    assert model(torch.full((1, 4), -1), masked_at(width=4)).isfinite().all()


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ConfigError, match="heads must divide width, got 3 heads and width 64"):
        BERT4RecConfig(n_items=5, heads=3)
