from dataclasses import replace

import pytest

from shortlist.lab.theory import bounds_checks
from shortlist.lab.theory.bounds_checks import BOUND_CHECKS
from shortlist.lab.theory.checks import CHECKS


@pytest.mark.parametrize("check", BOUND_CHECKS)
def test_the_claim_holds(check):
    found = check()
    assert found.ok, found


def test_all_bound_checks_are_registered():
    assert set(BOUND_CHECKS) <= set(CHECKS)


def test_a_wrong_number_of_pairs_fails_the_check(monkeypatch):
    monkeypatch.setattr(bounds_checks, "same_level_pairs", lambda sizes: sum(sizes) ** 2)
    assert not bounds_checks.pairs_of_both_alignments().ok


def test_a_wrong_corollary_fails_the_check(monkeypatch):
    right = bounds_checks.corollary1
    monkeypatch.setattr(bounds_checks, "corollary1", lambda level, epsilon: right(level, epsilon / 3))
    assert not bounds_checks.proposals_keep_to_the_tight_corollary().ok


def test_a_wrong_divergence_fails_the_check(monkeypatch):
    right = bounds_checks.sampler_gap

    def smaller(*given, **named):
        found = right(*given, **named)
        return replace(found, kl_plus=found.kl_plus / 50 - 0.1)

    monkeypatch.setattr(bounds_checks, "sampler_gap", smaller)
    assert not bounds_checks.sampled_losses_keep_to_the_corrected_divergence().ok


def test_a_wrong_share_fails_the_check(monkeypatch):
    monkeypatch.setattr(bounds_checks, "expected_share", lambda recall, keep: recall + keep)
    assert not bounds_checks.shift_and_effective_share_follow_from_recall().ok


def test_a_lower_complexity_fails_the_check(monkeypatch):
    monkeypatch.setattr(bounds_checks, "SHARED", {1000: 0.032, 100: 0.246})
    assert not bounds_checks.free_nodes_exceed_the_claimed_complexity().ok
