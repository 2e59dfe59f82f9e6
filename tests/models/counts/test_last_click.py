import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.models.counts.last_click import LastClick, LastClickConfig
from shortlist.models.registry import packed, unpacked


@pytest.fixture
def model():
    """After 0 came 1 three times and 2 once, after 1 came 3 once; 3 has half of all events."""
    made = LastClick(LastClickConfig(5, pairs=3, backoff=2.0))
    made.starts.copy_(torch.tensor([0, 2, 3, 3, 3, 3]))
    made.next_items.copy_(torch.tensor([1, 2, 3]))
    made.counts.copy_(torch.tensor([3.0, 1.0, 1.0]))
    made.total.copy_(torch.tensor([4.0, 1.0, 0.0, 0.0, 0.0]))
    made.popularity.copy_(torch.tensor([0.2, 0.2, 0.1, 0.5, 0.0]))
    return made.eval()


def test_scores_are_counts_mixed_with_popularity(model):
    told = model.scores(torch.tensor([[2, 0]]))
    expected = torch.tensor([[0.4, 3.4, 1.2, 1.0, 0.0]]) / 6.0
    assert torch.allclose(told, expected)
    assert told.sum().item() == pytest.approx(1.0)


def test_only_the_last_item_matters(model):
    histories = torch.tensor([[4, 2, 0], [-1, -1, 0], [3, 0, -1], [0, 99, -1]])
    told = model.scores(histories)
    assert torch.equal(told, told[:1].expand(4, -1))


def test_without_a_history_or_a_next_item_the_answer_is_popularity(model):
    told = model.scores(torch.tensor([[-1, -1], [-1, 4], [7, -1]]))
    assert torch.allclose(told, model.popularity.expand(3, -1))
    assert torch.allclose(model.scores(torch.empty(2, 0, dtype=torch.int64)), model.popularity.expand(2, -1))


def test_an_answer_does_not_depend_on_who_else_is_asked_for(model):
    histories = torch.tensor([[0], [1], [2], [-1]])
    alone = torch.cat([model.scores(one[None]) for one in histories])
    assert torch.equal(model.scores(histories), alone)
    assert model.scores(histories[:0]).shape == (0, 5)


def test_what_followed_is_told_with_its_counts(model):
    rows, counts, total = model.followed(torch.tensor([[0], [1], [4]]))
    assert rows.tolist() == [[1, 2], [3, -1], [-1, -1]]
    assert counts.tolist() == [[3.0, 1.0], [1.0, 0.0], [0.0, 0.0]]
    assert total.tolist() == [4.0, 1.0, 0.0]


def test_it_comes_back_from_its_tensors(model):
    again = unpacked(packed(model))
    assert isinstance(again, LastClick)
    assert torch.equal(again.scores(torch.tensor([[0]])), model.scores(torch.tensor([[0]])))


def test_no_items_are_no_scores():
    assert LastClick(LastClickConfig(0)).scores(torch.tensor([[0]])).shape == (1, 0)


@pytest.mark.parametrize("wrong", [{"pairs": -1}, {"backoff": 0.0}, {"backoff": float("nan")}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError, match="backoff above 0"):
        LastClickConfig(3, **wrong)
