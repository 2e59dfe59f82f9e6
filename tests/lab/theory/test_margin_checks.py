import pytest
import torch

from shortlist.lab.theory import margin_checks
from shortlist.lab.theory.margin import beam_candidates
from shortlist.lab.theory.margin_checks import (
    MARGIN_CHECKS,
    complexities,
    failures,
    found_by_search,
    random_trees,
)


@pytest.mark.parametrize("check", MARGIN_CHECKS, ids=lambda check: check.__name__)
def test_every_claim_holds_on_smaller_samples(check, monkeypatch):
    monkeypatch.setattr(margin_checks, "TREES", 60)
    monkeypatch.setattr(margin_checks, "DRAWS", 4000)
    monkeypatch.setattr(margin_checks, "FLIPS", 800)
    found = check()
    assert found.ok, found


def test_a_search_with_missing_candidates_fails_the_check(monkeypatch):
    def half_as_wide(shape, values, beam):
        return beam_candidates(shape, values, max(1, beam // 2))

    monkeypatch.setattr(margin_checks, "TREES", 60)
    monkeypatch.setattr(margin_checks, "beam_candidates", half_as_wide)
    assert not margin_checks.path_margin_predicts_what_is_found().ok


def test_a_margin_too_large_or_too_steep_fails_the_check(monkeypatch):
    right = margin_checks.path_margin

    def stretched(*args, cand=None, **more):
        found = right(*args, cand=cand, **more)
        return found if cand is not None else found._replace(value=3 * found.value)

    monkeypatch.setattr(margin_checks, "TREES", 60)
    monkeypatch.setattr(margin_checks, "path_margin", stretched)
    found = margin_checks.full_level_margin_is_smaller_and_lipschitz()
    assert not found.ok
    assert not found.found.startswith("0 above")
    assert "; 0 steeper" not in found.found


def test_losses_that_are_too_low_fail_the_check(monkeypatch):
    monkeypatch.setattr(margin_checks, "DRAWS", 4000)
    monkeypatch.setattr(margin_checks, "margin", lambda *args, **more: torch.zeros(args[0].shape[:2]))
    assert not margin_checks.losses_bound_the_surrogate().ok


def test_the_list_search_finds_k_leaves():
    for case in random_trees(20):
        reached = beam_candidates(case.shape, case.values, case.k)[-1][0].sum()
        assert int(found_by_search(case).sum()) == min(case.k, int(reached))


def test_i14_for_k_1_the_printed_margin_violates_examples_1_and_3_only():
    first, second, third = failures(1, 2000, seed=0)
    assert second == 0 < min(first, third)


def test_a_single_instance_fits_any_sign():
    column, row, whole = complexities(3, 1, 5, seed=0)
    assert row <= whole == 1.0
    assert row <= column
