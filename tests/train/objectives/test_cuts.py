"""Objectives of a stage with the next one fixed, against those of both stages, and their inputs from a log."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shortlist.train.objectives import arf, icc, lcron, make_objective, rankflow, ranknet
from shortlist.train.objectives.cuts import BELOW, LoggedCuts
from shortlist.train.objectives.full_stage import FullStageSettings
from shortlist.train.objectives.icc import gates
from shortlist.train.objectives.neuralsort import inclusion, lcron_terms
from tests.train.objectives.cases import S2, S, Y, Z, full, row

MASK = full(row(S))


def first(count: int) -> torch.Tensor:
    """True for the `count` items with the largest scores of list A, as a log would keep them."""
    return row(S) >= row(S).sort(descending=True).values[:, count - 1]


def cuts(kept: int = 4, kept_next: int = 2, scores: torch.Tensor | None = None) -> LoggedCuts:
    return LoggedCuts(first(kept), first(kept_next), row(S2) if scores is None else scores)


def loss(name: str, scores: torch.Tensor, given: LoggedCuts | None, **settings: object) -> torch.Tensor:
    objective = FullStageSettings(objective=name, **settings).list_loss(relevant_from=1.0)
    return objective(scores, row(Y), MASK, None, given)


def test_lcron_of_a_fixed_next_stage_has_the_gradient_of_lcron_of_both_stages():
    own, both = (row(S).requires_grad_() for _ in range(2))
    loss("lcron", own, cuts(), cap=4, next_cap=2).sum().backward()
    lcron([both, row(S2)], row(Y), MASK, caps=(4, 2)).sum().backward()
    assert torch.allclose(own.grad, both.grad, atol=1e-10)


def test_lcron_of_a_fixed_next_stage_leaves_out_the_loss_of_that_stage_alone():
    """The numbers of spec test 13: L_e2e = .8661725279 and L_single of the first stage 1.7044817580."""
    found = loss("lcron", row(S), cuts(), cap=4, next_cap=2).item()
    assert found == pytest.approx(0.8661725279 + 1.7044817580 / 2, abs=1e-8)
    _, own = lcron_terms([row(S), row(S2)], row(Y), MASK, caps=(4, 2))
    assert own[0, 1].item() == pytest.approx(0.7560372864, abs=1e-8)


def test_icc_of_a_fixed_next_stage_is_icc_of_both_stages_with_items_that_pass_above_others():
    """The fourth score of list A is 0 and the lowest of the next stage -.3."""
    expected = icc([row(S), row(S2) + 0.3], row(Y), MASK, caps=(4,), width=0.1, reduction="mean")
    assert torch.allclose(loss("icc", row(S), cuts()), expected)


def test_icc_does_not_reward_a_stage_that_drops_the_best_items():
    """All score high, the relevant ones lowest: the plain form is near 0, because those keep their own score."""
    reversed_scores = 1000 - 10 * row(Y) - row(S)
    plain = icc([reversed_scores, row(S2)], row(Y), MASK, caps=(4,), width=0.1, reduction="mean")
    good = loss("icc", 10 * row(Y), cuts())
    assert plain.item() < 0.01 < good.item() < loss("icc", reversed_scores, cuts()).item() / 5


@pytest.mark.parametrize("objective", ["icc", "lcron", "arf"])
def test_adding_a_constant_to_all_scores_changes_nothing(objective):
    assert torch.allclose(loss(objective, row(S) + 100, cuts()), loss(objective, row(S), cuts()))


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_rankflow_adds_the_teacher_term_to_the_own_loss(share):
    term = rankflow(row(S), row(S2), MASK, k=2, alpha=share)
    own = make_objective("bce")(row(S), row(Y), MASK)
    assert torch.allclose(loss("rankflow", row(S), cuts(), top_share=share, own_loss="bce"), own + term)


def test_rankflow_terms_are_those_of_the_spec():
    """Spec test 17: the top-k term with k = 2 is .4932489460, the squared error .305."""
    own = make_objective("bpr")(row(S), row(Y), MASK).item()
    top = loss("rankflow", row(S), cuts(), top_share=1.0).item() - own
    squares = loss("rankflow", row(S), cuts(), top_share=0.0).item() - own
    assert (top, squares) == (pytest.approx(0.4932489460, abs=1e-8), pytest.approx(0.305, abs=1e-8))


def test_items_that_the_next_stage_never_scored_have_no_squared_error_and_are_below_all_others():
    scores = row(S2).clone()
    scores[0, 2:4] = torch.nan
    given = cuts(scores=scores)
    assert given.filled(MASK)[0, 2].item() == pytest.approx(0.0 - BELOW)
    known = MASK.clone()
    known[0, 2:4] = False
    expected = rankflow(row(S), row(S2), known, k=2, alpha=0.0) + make_objective("bpr")(row(S), row(Y), MASK)
    assert torch.allclose(loss("rankflow", row(S), given, top_share=0.0), expected)


def test_list_without_any_score_of_the_next_stage_has_the_own_loss_only():
    given = cuts(scores=torch.full_like(row(S2), torch.nan))
    own = make_objective("bpr")(row(S), row(Y), MASK)
    assert torch.allclose(loss("rankflow", row(S), given), own)
    assert torch.isfinite(loss("lcron", row(S), given)).all()
    assert torch.isfinite(loss("icc", row(S), given)).all()


def test_capacities_are_those_of_the_log_unless_they_are_chosen():
    assert torch.allclose(loss("arf", row(S), cuts()), arf(row(S), row(Y), MASK, cap=4))
    assert torch.allclose(loss("arf", row(S), cuts(), cap=3), arf(row(S), row(Y), MASK, cap=3))
    assert torch.allclose(loss("arf", row(S), None), arf(row(S), row(Y), MASK, cap=2))  # two relevant items
    assert torch.allclose(loss("icc", row(S), cuts(), cap=3), loss("icc", row(S), cuts(3)))
    assert torch.allclose(loss("rankflow", row(S), cuts(), next_cap=3), loss("rankflow", row(S), cuts(4, 3)))


def test_lcron_keeps_as_many_items_as_are_relevant_unless_a_number_is_chosen():
    chosen = loss("lcron", row(S), cuts(), cap=2, next_cap=2)  # two items are relevant
    assert torch.allclose(chosen, loss("lcron", row(S), cuts()))
    assert not torch.allclose(chosen, loss("lcron", row(S), cuts(), cap=4))


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_one_capacity_per_list_is_the_same_as_lists_one_by_one(sizes):
    many = row(S).expand(len(sizes), 6)
    caps = torch.tensor(sizes)[:, None]
    for function in (
        lambda cap, one: inclusion(one, full(one), cap).top,
        lambda cap, one: gates(one, full(one), cap, 0.1),
        lambda cap, one: arf(one, row(Z).expand(len(one), 6), full(one), cap=cap, relevant_from=3.0)[:, None],
        lambda cap, one: rankflow(one, row(S2).expand(len(one), 6), full(one), k=cap)[:, None],
    ):
        single = torch.cat([function(size, row(S)) for size in sizes])
        assert torch.allclose(function(caps, many), single)


def test_gate_of_a_perfect_first_stage_passes_the_order_of_the_next_one():
    """With a narrow gate, items that pass are ranked by the next stage: ICC is RankNet on its scores."""
    kept = LoggedCuts(MASK, MASK, row(S2))
    assert torch.allclose(
        loss("icc", row(S), kept, cap=100), ranknet(row(S2), row(Y), MASK, reduction="mean")
    )
