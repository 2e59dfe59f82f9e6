import torch

from shortlist.diagnose.tree.beam_losses import SearchSettings
from shortlist.diagnose.tree.level_sums import Looking, _spread, added
from tests.index.tree.tabular import random_pairs


def test_what_is_summed_over_users_does_not_depend_on_the_batches():
    one = Looking(random_pairs(40), SearchSettings(beam=4, k=5), beams=(2, 4, 8), negatives=6)
    generator = torch.Generator().manual_seed(0)
    histories, truth = (torch.randint(0, 40, (9, size), generator=generator) for size in (3, 4))
    whole = one.at(histories, truth).sums
    parts = added([one.at(histories[some], truth[some]).sums for some in torch.arange(9).split(4)])
    for name, one_go, in_parts in zip(whole._fields, whole, parts, strict=True):
        torch.testing.assert_close(one_go, in_parts, equal_nan=True, msg=name)


def test_spread_is_taken_around_each_users_mean_over_leaves_with_items():
    leaves = torch.tensor([[1.0, 3.0, -torch.inf], [5.0, 5.0, -torch.inf]])
    squares, by_leaf = _spread(leaves)
    assert squares.item() == 2.0  # (1 - 2)^2 + (3 - 2)^2, nothing from the second user
    assert by_leaf.tolist() == [-1.0, 1.0, 0.0]
