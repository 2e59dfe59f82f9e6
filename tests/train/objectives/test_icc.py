import pytest
import torch
from hypothesis import given, settings

from shortlist.errors import ConfigError
from shortlist.train.objectives import icc, icc_public_scores, icc_scores, ranknet
from shortlist.train.objectives.icc import gates
from tests.train.objectives.cases import S2, S, Z, central_differences, full, gradient, lists, row

ALL = full(row(S))
STAGES = [row(S), row(S2)]


def test_two_stage_public_scores_of_list_a():
    """Specification 6, test 16."""
    expected = row((0.027027, -0.152319, 0.893981, 0.013967, 0.002371, -0.999955))
    assert torch.allclose(icc_public_scores(*STAGES, ALL, (4, 2), 0.1), expected, atol=1e-6, rtol=0)


def slow_icc(stages, caps, width):
    """The mixture of the specification, gate of the last stage included, item by item."""
    found = []
    for item in range(len(stages[0])):
        passed, whole = 1.0, 0.0
        for scores, cap in zip(stages, caps, strict=True):
            kappa = sorted(scores, reverse=True)[cap - 1]
            gate = 1 / (
                1 + torch.exp(torch.tensor((kappa - scores[item]) / width, dtype=torch.float64)).item()
            )
            whole += passed * (1 - gate) * scores[item]
            passed *= gate
        found.append(whole + passed * stages[-1][item])
    return found


@pytest.mark.parametrize("caps", [(5, 3, 1), (4, 4, 2)])
def test_scores_of_three_stages_are_those_of_the_formula(caps):
    third = (0.1, 0.8, -0.4, 0.2, 0.6, -0.2)
    stages = [*STAGES, row(third)]
    expected = row(slow_icc([S, S2, third], caps, 0.3))
    assert torch.allclose(icc_scores(stages, ALL, caps, 0.3), expected, atol=1e-12)
    assert icc_scores(stages, ALL, caps[:2], 0.3).equal(icc_scores(stages, ALL, caps, 0.3))


def test_loss_is_ranknet_on_the_score_of_the_cascade():
    whole = icc_scores(STAGES, ALL, (4,), 0.1)
    assert torch.allclose(icc(STAGES, row(Z), ALL, caps=(4, 2)), ranknet(whole, row(Z), ALL))


def test_gradient_is_that_of_central_differences_with_frozen_cut_offs():
    kappa = 0.0  # the 4th largest score of list A

    def frozen(scores):
        gate = torch.sigmoid((scores - kappa) / 0.5)
        return ranknet((1 - gate) * scores + gate * STAGES[1], row(Z), ALL)

    grad = gradient(lambda s: icc([s, STAGES[1]], row(Z), ALL, caps=(4, 2), width=0.5), STAGES[0])
    assert torch.allclose(grad, central_differences(frozen, STAGES[0]), atol=1e-8, rtol=0)


@given(lists())
@settings(max_examples=30, deadline=None)
def test_padding_anywhere_is_as_a_shorter_list(case):
    scores, labels, mask = case
    poisoned = scores.masked_fill(~mask, torch.nan)

    def loss(own, labels, mask):
        return icc([own, own.cos()], labels, mask, caps=(3, 2))

    found, grad = loss(poisoned, labels, mask), gradient(lambda s: loss(s, labels, mask), scores)
    assert torch.isfinite(grad).all()
    assert grad[~mask].abs().sum() == 0
    for at, valid in enumerate(mask):
        own = scores[at][valid][None]
        assert torch.allclose(loss(own, labels[at][valid][None], full(own))[0], found[at], atol=1e-10)


def test_all_items_of_a_short_list_pass():
    scores, mask = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[True, False, True]])
    assert gates(scores, mask, 3, 0.1)[mask].tolist() == [1, 1]
    assert gates(scores, mask, 4, 0.1)[mask].tolist() == [1, 1]


def test_wrong_capacities_are_refused():
    with pytest.raises(ConfigError, match="got 2 stages and 4 capacities"):
        icc_scores(STAGES, ALL, (4, 3, 2, 1))
    with pytest.raises(ConfigError, match="at least 1, got 0"):
        icc_scores(STAGES, ALL, (0, 2))
