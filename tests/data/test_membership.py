import torch

from shortlist.data.membership import is_in


def test_membership_equals_that_of_sets():
    generator = torch.Generator().manual_seed(0)
    items = torch.randint(-1, 30, (20, 15), generator=generator)
    relevant = torch.randint(-1, 30, (20, 6), generator=generator)
    expected = [
        [item >= 0 and item in set(members) for item in row]
        for row, members in zip(items.tolist(), relevant.tolist(), strict=True)
    ]
    assert is_in(items, relevant).tolist() == expected


def test_nothing_is_in_an_empty_set():
    assert not is_in(torch.tensor([[1, 2]]), torch.empty(1, 0, dtype=torch.int64)).any()
