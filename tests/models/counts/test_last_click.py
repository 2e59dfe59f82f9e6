import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.models.counts.last_click import LastClick, LastClickConfig
from shortlist.models.registry import packed, unpacked


@pytest.fixture
def model():
    """Item 1 followed 0 three times and 2 once, item 3 followed 1 once; 3 has half of all events."""
    made = LastClick(LastClickConfig(5, pairs=3, backoff=2.0))
    made.starts.copy_(torch.tensor([0, 2, 3, 3, 3, 3]))
    made.next_items.copy_(torch.tensor([1, 2, 3]))
    made.counts.copy_(torch.tensor([3.0, 1.0, 1.0]))
    made.total.copy_(torch.tensor([4.0, 1.0, 0.0, 0.0, 0.0]))
    made.popularity.copy_(torch.tensor([0.2, 0.2, 0.1, 0.5, 0.0]))
    return made.eval()


def test_scores_are_counts_with_popularity_as_backoff(model):
    scores = model.scores(torch.tensor([[2, 0]]))
    expected = torch.tensor([[0.4, 3.4, 1.2, 1.0, 0.0]]) / 6.0
    assert torch.allclose(scores, expected)
    assert scores.sum().item() == pytest.approx(1.0)


def test_only_the_last_item_is_read(model):
    histories = torch.tensor([[4, 2, 0], [-1, -1, 0], [3, 0, -1], [0, 99, -1]])
    scores = model.scores(histories)
    assert torch.equal(scores, scores[:1].expand(4, -1))


def test_empty_history_or_no_next_item_gives_popularity(model):
    scores = model.scores(torch.tensor([[-1, -1], [-1, 4], [7, -1]]))
    assert torch.allclose(scores, model.popularity.expand(3, -1))
    assert torch.allclose(model.scores(torch.empty(2, 0, dtype=torch.int64)), model.popularity.expand(2, -1))


def test_rest_of_the_batch_does_not_change_scores(model):
    histories = torch.tensor([[0], [1], [2], [-1]])
    alone = torch.cat([model.scores(one[None]) for one in histories])
    assert torch.equal(model.scores(histories), alone)
    assert model.scores(histories[:0]).shape == (0, 5)


def test_next_items_come_with_their_counts(model):
    rows, counts, total = model.followed(torch.tensor([[0], [1], [4]]))
    assert rows.tolist() == [[1, 2], [3, -1], [-1, -1]]
    assert counts.tolist() == [[3.0, 1.0], [1.0, 0.0], [0.0, 0.0]]
    assert total.tolist() == [4.0, 1.0, 0.0]


def test_it_is_rebuilt_from_its_tensors(model):
    again = unpacked(packed(model))
    assert isinstance(again, LastClick)
    assert torch.equal(again.scores(torch.tensor([[0]])), model.scores(torch.tensor([[0]])))


def test_empty_catalogue_has_no_scores():
    assert LastClick(LastClickConfig(0)).scores(torch.tensor([[0]])).shape == (1, 0)


@pytest.mark.parametrize("wrong", [{"pairs": -1}, {"backoff": 0.0}, {"backoff": float("nan")}])
def test_invalid_settings_are_refused(wrong):
    with pytest.raises(ConfigError, match=r"pairs must be at least 0|backoff must lie between"):
        LastClickConfig(3, **wrong)
