"""Sequence models: the position after the last item is the user vector, and padding goes last."""

import pytest
import torch

from shortlist.models.model import ModelConfig
from shortlist.models.sequence.model import SequenceModel, padding_last


class Positions(SequenceModel):
    """Vectors of the number of items before each position, and the last of them."""

    def forward(self, history):
        history = padding_last(history[:, -self.config.max_history :])
        before = (
            torch.cat([torch.full_like(history[:, :1], -1), history], dim=1) if history.shape[1] else None
        )
        items = torch.full((len(history), 1), -1) if before is None else before
        position = torch.arange(items.shape[1]).expand_as(items)
        return torch.stack([position, items], dim=2).float()


def test_padding_goes_last_and_items_keep_their_order():
    history = torch.tensor([[-1, 3, -1, 1], [5, 4, 3, 2], [-1, -1, -1, -1]])
    assert padding_last(history).tolist() == [[3, 1, -1, -1], [5, 4, 3, 2], [-1, -1, -1, -1]]
    assert padding_last(history[:, :0]).shape == (3, 0)


@pytest.mark.parametrize(
    ("history", "position", "item"),
    [([3, 1, 2], 3, 2), ([-1, -1, 4], 1, 4), ([6, -1, 99], 1, 6), ([-1, -1, -1], 0, -1), ([], 0, -1)],
)
def test_user_vector_is_the_position_after_the_last_item(history, position, item):
    model = Positions(ModelConfig(10, max_history=5), 2)
    assert model.users(torch.tensor([history], dtype=torch.int64)).tolist() == [[position, item]]


def test_users_of_a_batch_have_their_own_last_positions():
    model = Positions(ModelConfig(10, max_history=3), 2)
    vectors = model.users(torch.tensor([[1, 2, 3, 4], [-1, -1, -1, 7], [-1, -1, -1, -1]]))
    assert vectors.tolist() == [[3, 4], [1, 7], [0, -1]]


def test_item_vectors_are_the_embeddings():
    model = Positions(ModelConfig(10, max_history=3), 2)
    assert model.vectors() is model.items.weight
    assert model.vectors().shape == (10, 2)
