import torch

from shortlist.train.two_time_scale.new_items import follow


def test_items_without_events_follow_the_map_of_the_others():
    torch.manual_seed(0)
    old, matrix, shift = torch.randn(200, 5), torch.randn(5, 5), torch.randn(5)
    moved = old @ matrix + shift
    trained = torch.arange(200) < 150
    new = torch.where(trained[:, None], moved, -100.0)  # what steps did to items that are negatives alone
    found = follow(old, new, trained)
    assert torch.equal(found[trained], moved[trained])
    torch.testing.assert_close(found[~trained], moved[~trained], rtol=0.02, atol=0.05)


def test_few_items_move_by_the_mean_of_the_others():
    old, new = torch.zeros(3, 4), torch.ones(3, 4)
    found = follow(old, new, torch.tensor([True, True, False]))
    torch.testing.assert_close(found, new)


def test_items_of_a_log_with_all_or_no_events_stay_as_they_are():
    old, new = torch.zeros(2, 2), torch.ones(2, 2)
    assert torch.equal(follow(old, new, torch.tensor([True, True])), new)
    assert torch.equal(follow(old, new, torch.tensor([False, False])), old)
    assert follow(old[:0], new[:0], torch.zeros(0, dtype=torch.bool)).shape == (0, 2)
