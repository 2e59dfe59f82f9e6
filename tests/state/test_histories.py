import torch

from shortlist.state import UserHistories


def test_history_of_a_user_is_his_part_of_the_items():
    histories = UserHistories(torch.tensor([0, 2, 2, 3]), torch.tensor([7, 8, 9]))
    assert [histories.of(user) for user in (-1, 0, 1, 2)] == [[], [7, 8], [], [9]]
