import torch

from shortlist.diagnose.tree.beam_losses import SearchSettings
from shortlist.diagnose.tree.level_sums import BatchDiagnosis, _centred_sums, added
from tests.index.tree.tabular import random_pairs


def test_sums_over_users_do_not_depend_on_the_batches():
    one = BatchDiagnosis(random_pairs(40), SearchSettings(beam=4, k=5), beams=(2, 4, 8), negatives=6)
    generator = torch.Generator().manual_seed(0)
    histories, relevant = (torch.randint(0, 40, (9, size), generator=generator) for size in (3, 4))
    whole = one.run(histories, relevant).sums
    parts = added([one.run(histories[some], relevant[some]).sums for some in torch.arange(9).split(4)])
    for name, one_go, in_parts in zip(whole._fields, whole, parts, strict=True):
        torch.testing.assert_close(one_go, in_parts, equal_nan=True, msg=name)


def test_centred_sums_subtract_each_users_mean_over_leaves_with_items():
    leaves = torch.tensor([[1.0, 3.0, -torch.inf], [5.0, 5.0, -torch.inf]])
    squares, by_leaf = _centred_sums(leaves)
    assert squares.item() == 2.0  # (1 - 2)^2 + (3 - 2)^2, nothing from the second user
    assert by_leaf.tolist() == [-1.0, 1.0, 0.0]
