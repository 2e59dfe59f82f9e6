import torch

from shortlist.data.membership import is_in, largest_of, sums_of


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


def test_sums_of_items_equal_those_of_a_dictionary():
    generator = torch.Generator().manual_seed(0)
    items = torch.randint(0, 12, (20, 9), generator=generator)  # with repeats
    keys = torch.randint(-1, 15, (20, 30), generator=generator)
    values = torch.randint(1, 9, (20, 30), generator=generator).float()
    expected = [
        [sum(value for key, value in zip(own, worth, strict=True) if key == item) for item in row]
        for row, own, worth in zip(items.tolist(), keys.tolist(), values.tolist(), strict=True)
    ]
    assert sums_of(items, keys, values).tolist() == expected
    largest = [
        [max([v for k, v in zip(*pair, strict=True) if k == item], default=0.0) for item in row]
        for row, pair in zip(items.tolist(), zip(keys.tolist(), values.tolist(), strict=True), strict=True)
    ]
    assert largest_of(items, keys, values).tolist() == largest
    assert sums_of(items[:, :0], keys, values).shape == (20, 0)
