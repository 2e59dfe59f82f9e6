"""Sequence models: the place after the last item is the user, and padding goes behind."""

import pytest
import torch

from shortlist.models.model import ModelConfig
from shortlist.models.sequence.model import SequenceModel, padding_last


class Places(SequenceModel):
    """Foretells the number of items before each place, and the one that stands there."""

    def forward(self, history):
        history = padding_last(history[:, -self.config.max_history :])
        before = (
            torch.cat([torch.full_like(history[:, :1], -1), history], dim=1) if history.shape[1] else None
        )
        items = torch.full((len(history), 1), -1) if before is None else before
        place = torch.arange(items.shape[1]).expand_as(items)
        return torch.stack([place, items], dim=2).float()


def test_padding_goes_behind_and_the_order_stays():
    history = torch.tensor([[-1, 3, -1, 1], [5, 4, 3, 2], [-1, -1, -1, -1]])
    assert padding_last(history).tolist() == [[3, 1, -1, -1], [5, 4, 3, 2], [-1, -1, -1, -1]]
    assert padding_last(history[:, :0]).shape == (3, 0)


@pytest.mark.parametrize(
    ("history", "place", "item"),
    [([3, 1, 2], 3, 2), ([-1, -1, 4], 1, 4), ([6, -1, 99], 1, 6), ([-1, -1, -1], 0, -1), ([], 0, -1)],
)
def test_a_user_is_what_is_foretold_after_the_last_item(history, place, item):
    model = Places(ModelConfig(10, max_history=5), 2)
    assert model.users(torch.tensor([history], dtype=torch.int64)).tolist() == [[place, item]]


def test_users_of_one_batch_end_at_places_of_their_own():
    model = Places(ModelConfig(10, max_history=3), 2)
    told = model.users(torch.tensor([[1, 2, 3, 4], [-1, -1, -1, 7], [-1, -1, -1, -1]]))
    assert told.tolist() == [[3, 4], [1, 7], [0, -1]]


def test_items_are_scored_by_their_own_vectors():
    model = Places(ModelConfig(10, max_history=3), 2)
    assert model.vectors() is model.items.weight
    assert model.vectors().shape == (10, 2)
