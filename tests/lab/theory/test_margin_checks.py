import pytest
import torch

from shortlist.lab.theory import margin_checks
from shortlist.lab.theory.margin import beam_candidates
from shortlist.lab.theory.margin_checks import MARGIN_CHECKS, failures, found_by_walk, random_trees, richness


@pytest.mark.parametrize("check", MARGIN_CHECKS, ids=lambda check: check.__name__)
def test_every_claim_holds_on_fewer_numbers(check, monkeypatch):
    monkeypatch.setattr(margin_checks, "TREES", 60)
    monkeypatch.setattr(margin_checks, "DRAWS", 4000)
    monkeypatch.setattr(margin_checks, "FLIPS", 800)
    found = check()
    assert found.ok, found


def test_a_search_that_forgets_candidates_is_noticed(monkeypatch):
    def half_as_wide(shape, values, beam):
        return beam_candidates(shape, values, max(1, beam // 2))

    monkeypatch.setattr(margin_checks, "TREES", 60)
    monkeypatch.setattr(margin_checks, "beam_candidates", half_as_wide)
    assert not margin_checks.path_margin_says_what_is_found().ok


def test_a_margin_that_is_too_large_or_too_steep_is_noticed(monkeypatch):
    right = margin_checks.path_margin

    def stretched(*args, cand=None, **more):
        found = right(*args, cand=cand, **more)
        return found if cand is not None else found._replace(value=3 * found.value)

    monkeypatch.setattr(margin_checks, "TREES", 60)
    monkeypatch.setattr(margin_checks, "path_margin", stretched)
    found = margin_checks.full_level_margin_is_smaller_and_smooth()
    assert not found.ok
    assert not found.found.startswith("0 above")
    assert "; 0 steeper" not in found.found


def test_losses_that_are_too_low_are_noticed(monkeypatch):
    monkeypatch.setattr(margin_checks, "DRAWS", 4000)
    monkeypatch.setattr(margin_checks, "margin", lambda *args, **more: torch.zeros(args[0].shape[:2]))
    assert not margin_checks.losses_bound_what_they_stand_for().ok


def test_the_walk_finds_k_leaves_where_there_are_so_many():
    for case in random_trees(20):
        reached = beam_candidates(case.shape, case.values, case.k)[-1][0].sum()
        assert int(found_by_walk(case).sum()) == min(case.k, int(reached))


def test_i14_for_one_place_the_printed_margin_breaks_examples_1_and_3_only():
    first, second, third = failures(1, 2000, seed=0)
    assert second == 0 < min(first, third)


def test_a_single_instance_is_fitted_whatever_its_sign():
    column, row, whole = richness(3, 1, 5, seed=0)
    assert row <= whole == 1.0
    assert row <= column
