import torch

from shortlist.models.counts.popular_window import PopularWindow
from shortlist.models.registry import packed, unpacked

LATELY = torch.tensor([0, 5, 5, 0, 1])
EVER = torch.tensor([7, 5, 9, 2, 1])


def test_items_are_ordered_by_the_window_then_by_all_time():
    told = PopularWindow.of(LATELY, EVER).scores(torch.tensor([[0], [-1]]))
    assert told.argsort(dim=1, descending=True).tolist() == [[2, 1, 4, 0, 3]] * 2


def test_large_counts_lose_nothing_of_the_order():
    many = torch.tensor([100_000_000, 100_000_000, 100_000_001])
    told = PopularWindow.of(many, torch.tensor([1, 2, 0])).scores(torch.tensor([[-1]]))
    assert told.tolist() == [[0.0, 1.0, 2.0]]


def test_items_alike_in_both_have_one_score():
    told = PopularWindow.of(torch.tensor([1, 1, 0]), torch.tensor([4, 4, 4])).scores(torch.tensor([[0]]))
    assert told[0, 0] == told[0, 1] > told[0, 2]


def test_it_comes_back_from_its_tensors():
    model = PopularWindow.of(LATELY, EVER)
    again = unpacked(packed(model))
    assert isinstance(again, PopularWindow)
    assert torch.equal(again.worth, model.worth)


def test_no_items_are_no_scores():
    empty = torch.empty(0, dtype=torch.int64)
    assert PopularWindow.of(empty, empty).scores(torch.tensor([[0]])).shape == (1, 0)
