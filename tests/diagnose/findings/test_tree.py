from dataclasses import replace

import numpy as np
import pytest

from shortlist.diagnose.findings.tree import tree_findings
from shortlist.diagnose.tree.diagnosis import diagnose_tree
from tests.diagnose.tree.small_trees import catalog_of, constant, max_heap_index, random_held_out
from tests.index.tree.tabular import random_rows


def diagnosed(index, categories=None, **settings):
    n = index.tree.n_items
    catalog = catalog_of(np.arange(n) % 4 if categories is None else categories)
    return diagnose_tree(index, random_held_out(12, n), catalog, **{"beam": 4, "k": 6, **settings})


@pytest.fixture(scope="module")
def tree():
    return diagnosed(random_rows(12, 60, seed=1))


def test_losses_are_ordered_by_size_with_the_knob_that_addresses_them(tree):
    found = tree_findings(tree)
    shares = [one.share for one in found if one.share is not None]
    assert shares == sorted(shares, reverse=True)
    assert "The scorer misses" in found[0].what
    beam = next(one for one in found if "The beam loses" in one.what)
    assert f"{tree.losses.beam:,} of {tree.losses.relevant:,}" in beam.what
    assert "beam = 8 scores" in beam.knob
    assert "branch = 4" in beam.knob


def test_shares_add_up_to_scorer_and_beam_losses(tree):
    losses = replace(tree.losses, absent=3, beyond_k=2)
    shares = sum(one.share for one in tree_findings(replace(tree, losses=losses)) if one.share)
    assert shares == pytest.approx((losses.scorer + losses.beam) / losses.relevant)


def test_a_collapse_comes_first():
    found = tree_findings(diagnosed(constant(12, 60)))
    assert found[0].what.startswith("Alarm")


def test_with_max_heap_scores_a_narrower_beam_is_advised():
    found = tree_findings(diagnosed(max_heap_index(12, 60), beam=12))
    assert not any("The beam loses" in one.what for one in found)
    assert any("beam = 6 scores" in one.knob for one in found)


def test_a_wider_beam_that_returns_no_more_is_not_advised(tree):
    less = tuple(replace(one, returned=10 - one.beam) for one in tree.widths)
    knob = next(one.knob for one in tree_findings(replace(tree, widths=less)) if "The beam" in one.what)
    assert "it returns 2 relevant items, the current beam 6. So it does not help here" in knob
    more = tuple(replace(one, returned=one.beam) for one in tree.widths)
    knob = next(one.knob for one in tree_findings(replace(tree, widths=more)) if "The beam" in one.what)
    assert "it returns 8 relevant items, the current beam 4." in knob
    assert "does not help" not in knob


def test_a_small_beam_loss_gives_no_advice(tree):
    losses = replace(tree.losses, relevant=10_000)
    beam = next(one for one in tree_findings(replace(tree, losses=losses)) if "The beam" in one.what)
    assert "will hardly help" in beam.knob


def test_findings_on_labels_negatives_and_categories(tree):
    levels = tuple(replace(one, label=0.01, kl_tree=3.0, kl_uniform=1.0) for one in tree.levels)
    text = " ".join(one.what for one in tree_findings(replace(tree, levels=levels)))
    assert "level 3 with 1%" in text
    assert "KL 3.00 against 1.00" in text
    assert "no purer in categories" in text
    pure = replace(tree, levels=tuple(replace(one, purity=0.99, purity_random=0.2) for one in tree.levels))
    assert "no purer" not in " ".join(one.what for one in tree_findings(pure))
