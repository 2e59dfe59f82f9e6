import math

import pytest
import torch
from hypothesis import given, settings

from shortlist.errors import ConfigError
from shortlist.train.objectives.ndcg import (
    gains,
    ideal_dcg,
    lambdaloss_weights,
    lambdarank_weights,
    loss2_weights,
)
from tests.train.objectives.cases import S, Z, full, lists, row, slow_dcg, slow_ranks

LIST = row(S), row(Z), full(row(S))


def swapped(order, i, j):
    return [j if one == i else i if one == j else one for one in order]


@pytest.mark.parametrize("gain", ["exp", "linear"])
@pytest.mark.parametrize("truncation", [0, 2, 4])
def test_weight_of_a_pair_is_the_change_of_ndcg_by_swapping_it(gain, truncation):
    """Specification 6, test 8: all pairs, error below 1e-12."""
    values = [2**z - 1 if gain == "exp" else z for z in Z]
    order = sorted(range(6), key=lambda item: -S[item])
    top = truncation or 6
    ideal = slow_dcg(sorted(values, reverse=True), list(range(6)), top)
    weights = lambdarank_weights(*LIST, gain, truncation)[0]
    for i in range(6):
        for j in range(6):
            change = abs(slow_dcg(values, swapped(order, i, j), top) - slow_dcg(values, order, top)) / ideal
            assert weights[i, j].item() == pytest.approx(change, abs=1e-12)


@given(lists(ties=True))
@settings(max_examples=40, deadline=None)
def test_loss2_weights_are_those_of_the_formula(case):
    scores, labels, mask = case
    weights = loss2_weights(scores, labels, mask)
    for at, valid in enumerate(mask):
        own, values = scores[at][valid].tolist(), [2**z - 1 for z in labels[at][valid].tolist()]
        rank = slow_ranks(own)
        ideal = slow_dcg(sorted(values, reverse=True), list(range(len(values)))) or 1.0
        found = weights[at][valid][:, valid]
        for i, one in enumerate(rank):
            for j, other in enumerate(rank):
                d = abs(one - other)
                step = 1 / math.log2(1 + d) - 1 / math.log2(2 + d) if d else 0.0
                expected = abs(values[i] - values[j]) / ideal * step
                assert found[i, j].item() == pytest.approx(expected, abs=1e-12)


def test_kinds_of_lambdaloss_are_sums_of_the_two_weights():
    near, swap = loss2_weights(*LIST), lambdarank_weights(*LIST)
    assert torch.allclose(lambdaloss_weights(*LIST, "loss2"), near)
    assert torch.allclose(lambdaloss_weights(*LIST, "loss2++", mu=3.0), 3 * near + swap)
    assert torch.allclose(lambdaloss_weights(*LIST, "mixed", share=0.8), 0.2 * near + 0.8 * swap)


def test_truncated_weights_are_0_for_pairs_with_both_ranks_beyond():
    beyond = torch.tensor([rank > 2 for rank in slow_ranks(list(S))])
    both = beyond[:, None] & beyond[None, :]
    for kind in ("loss2", "loss2++", "mixed"):
        assert lambdaloss_weights(*LIST, kind, truncation=2)[0][both].abs().max() == 0


def test_mixed_divides_by_the_ideal_dcg_of_the_whole_list():
    values = gains(LIST[1], LIST[2], "exp", torch.float64)
    ratio = (ideal_dcg(values, 2) / ideal_dcg(values, 0)).item()
    whole = lambdaloss_weights(*LIST, "mixed", share=1.0, truncation=2)
    assert torch.allclose(whole, ratio * lambdarank_weights(*LIST, truncation=2))


def test_weights_have_no_gradient():
    scores = row(S).requires_grad_()
    assert not lambdaloss_weights(scores, *LIST[1:]).requires_grad


def test_list_without_gain_has_weights_0():
    zero = torch.zeros_like(LIST[1])
    assert lambdarank_weights(LIST[0], zero, LIST[2]).abs().max() == 0


def test_unknown_names_are_refused():
    with pytest.raises(ConfigError, match="gain must be one of exp, linear"):
        lambdarank_weights(*LIST, "log")
    with pytest.raises(ConfigError, match="kind must be one of loss2"):
        lambdaloss_weights(*LIST, "loss3")
