from dataclasses import replace

import numpy as np
import pytest

from shortlist.diagnose.findings.tree import tree_findings
from shortlist.diagnose.tree.diagnosis import diagnose_tree
from tests.diagnose.tree.heaps import constant, described, perfect_heap, random_cases
from tests.index.tree.tabular import random_rows


def look(index, categories=None, **settings):
    n = index.tree.n_items
    catalog = described(np.arange(n) % 4 if categories is None else categories)
    return diagnose_tree(index, random_cases(12, n), catalog, **{"beam": 4, "k": 6, **settings})


@pytest.fixture(scope="module")
def told():
    return look(random_rows(12, 60, seed=1))


def test_losses_come_by_size_and_say_which_knob_addresses_them(told):
    found = tree_findings(told)
    shares = [one.share for one in found if one.share is not None]
    assert shares == sorted(shares, reverse=True)
    assert "The scorer misses" in found[0].what
    search = next(one for one in found if "The beam loses" in one.what)
    assert f"{told.account.search:,} of {told.account.wanted:,}" in search.what
    assert "beam = 8 scores" in search.knob
    assert "branch = 4" in search.knob


def test_the_shares_are_those_of_the_account(told):
    account = replace(told.account, absent=3, crowded=2)
    losses = sum(one.share for one in tree_findings(replace(told, account=account)) if one.share)
    assert losses == pytest.approx((account.model + account.search) / account.wanted)


def test_the_alarm_comes_first():
    found = tree_findings(look(constant(12, 60)))
    assert found[0].what.startswith("Alarm")


def test_a_perfect_heap_loses_nothing_to_search_and_needs_no_wider_beam():
    found = tree_findings(look(perfect_heap(12, 60), beam=12))
    assert not any("The beam loses" in one.what for one in found)
    assert any("beam = 6 scores" in one.knob for one in found)


def test_a_wider_beam_that_finds_no_more_is_not_praised(told):
    less = tuple(replace(one, found=10 - one.beam) for one in told.widths)
    knob = next(one.knob for one in tree_findings(replace(told, widths=less)) if "The beam" in one.what)
    assert "it finds 2, this one 6. So it does not help here" in knob
    more = tuple(replace(one, found=one.beam) for one in told.widths)
    knob = next(one.knob for one in tree_findings(replace(told, widths=more)) if "The beam" in one.what)
    assert "it finds 8, this one 4." in knob
    assert "does not help" not in knob


def test_a_small_search_loss_asks_for_nothing(told):
    account = replace(told.account, wanted=10_000)
    search = next(one for one in tree_findings(replace(told, account=account)) if "The beam" in one.what)
    assert "will hardly help" in search.knob


def test_training_is_told_of_starved_labels_poor_proposals_and_mixed_categories(told):
    levels = tuple(replace(one, label=0.01, kl_tree=3.0, kl_uniform=1.0) for one in told.levels)
    said = " ".join(one.what for one in tree_findings(replace(told, levels=levels)))
    assert "level 3 with 1%" in said
    assert "KL 3.00 against 1.00" in said
    assert "no purer in categories" in said
    pure = replace(told, levels=tuple(replace(one, purity=0.99, purity_chance=0.2) for one in told.levels))
    assert "no purer" not in " ".join(one.what for one in tree_findings(pure))
