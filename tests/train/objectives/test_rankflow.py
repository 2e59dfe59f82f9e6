import pytest
import torch
from hypothesis import given, settings

from shortlist.errors import ConfigError
from shortlist.train.objectives import bce, bpr, rankflow, rankflow_cascade
from tests.train.objectives.cases import S2, S, Y, central_differences, full, gradient, lists, row

EXACT = {"abs": 1e-8, "rel": 0}
ALL = full(row(S))


@pytest.mark.parametrize(
    ("alpha", "expected"), [(1.0, 0.4932489460), (0.0, 0.305), (0.5, (0.4932489460 + 0.305) / 2)]
)
def test_rankflow_of_list_a(alpha, expected):
    """Specification 6, test 17."""
    assert rankflow(row(S), row(S2), ALL, k=2, alpha=alpha).item() == pytest.approx(expected, **EXACT)


def test_teacher_has_no_gradient():
    grad = gradient(
        lambda teacher: rankflow(row(S).requires_grad_(), teacher, ALL, k=2) + 0 * teacher.sum(), row(S2)
    )
    assert grad.abs().sum() == 0


def test_gradient_is_that_of_central_differences():
    def loss(scores):
        return rankflow(scores, row(S2), ALL, k=2, alpha=0.3)

    assert torch.allclose(gradient(loss, row(S)), central_differences(loss, row(S)), atol=1e-8, rtol=0)


def test_top_k_term_is_0_where_all_or_no_items_are_on_top():
    scores, mask = row([1.0, 2.0, 3.0]).repeat(2, 1), torch.tensor([[True, True, False], [False] * 3])
    assert rankflow(scores, scores, mask, k=2, alpha=1.0).tolist() == [0, 0]
    assert gradient(lambda s: rankflow(s, scores, mask, k=2, alpha=1.0), scores).abs().sum() == 0


@given(lists())
@settings(max_examples=30, deadline=None)
def test_padding_anywhere_is_as_a_shorter_list(case):
    scores, _, mask = case
    teacher = (3 * scores).sin().masked_fill(~mask, torch.nan)
    found = rankflow(scores.masked_fill(~mask, torch.nan), teacher, mask, k=2)
    grad = gradient(lambda s: rankflow(s, teacher, mask, k=2), scores)
    assert torch.isfinite(grad).all()
    assert grad[~mask].abs().sum() == 0
    for at, valid in enumerate(mask):
        own = scores[at][valid][None], teacher[at][valid][None]
        assert torch.allclose(rankflow(*own, full(own[0]), k=2)[0], found[at], atol=1e-10)


@pytest.mark.parametrize(("name", "own"), [("bpr", bpr), ("bce", bce)])
def test_cascade_is_the_own_loss_of_every_stage_and_the_term_of_its_teacher(name, own):
    third = row((0.1, 0.8, -0.4, 0.2, 0.6, -0.2))
    stages = [row(S), row(S2), third]
    terms = rankflow(stages[0], stages[1], ALL, k=3) + rankflow(stages[1], third, ALL, k=1)
    expected = sum(own(one, row(Y), ALL) for one in stages) + terms
    assert torch.allclose(rankflow_cascade(stages, row(Y), ALL, caps=(4, 3, 1), own=name), expected)


def test_wrong_settings_of_a_cascade_are_refused():
    with pytest.raises(ConfigError, match="own must be one of bpr, bce, got 'ssm'"):
        rankflow_cascade([row(S)], row(Y), ALL, caps=(4,), own="ssm")
    with pytest.raises(ConfigError, match="got 1 stages and 2 capacities"):
        rankflow_cascade([row(S)], row(Y), ALL, caps=(4, 2))
