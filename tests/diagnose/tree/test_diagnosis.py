import json

import numpy as np
import pytest
import torch

from shortlist.diagnose.tree.diagnosis import diagnose_tree
from shortlist.diagnose.tree.max_heap import level_scores
from shortlist.errors import DataError
from shortlist.train.tree import label_weights, log_proposal, proposal_kl
from tests.diagnose.tree.small_trees import constant, described, held_out, perfect_heap, random_cases
from tests.index.tree.tabular import nobody, random_pairs, random_rows


def look(index, users=12, seed=0, **settings):
    n = index.tree.n_items
    catalog = described(np.arange(n) % 4)
    return diagnose_tree(index, random_cases(users, n, seed), catalog, users=users, seed=seed, **settings)


@pytest.mark.parametrize(("branch", "spare"), [(2, 0.0), (3, 0.0), (2, 0.4)])
def test_a_perfect_heap_has_no_violations_and_no_regret(branch, spare):
    told = look(perfect_heap(12, 60, branch, spare=spare), beam=5, k=5)
    assert [level.violations for level in told.levels] == [0.0] * told.height
    assert all(level.top_kept == 1 and level.top_lost == 0 == level.search_lost for level in told.levels)
    assert told.regret == 0
    assert told.account.search == told.account.lucky == 0
    assert [width.regret for width in told.widths if width.beam >= 5] == [0.0] * 3


@pytest.mark.parametrize("seed", range(3))
def test_losses_by_level_add_up_to_the_regret_and_to_the_search_loss(seed):
    told = look(random_rows(12, 60, 2, seed), seed=seed, beam=4, k=6)
    assert sum(level.top_lost for level in told.levels) == round(told.regret * 12 * 6) > 0
    assert sum(level.search_lost for level in told.levels) == told.account.search
    lost = sum(level.wanted_lost for level in told.levels)
    assert lost == told.account.wanted - told.account.found
    kept = [1.0] + [level.top_kept for level in told.levels]
    for before, after, level in zip(kept[:-1], kept[1:], told.levels, strict=True):
        assert before - after == pytest.approx(level.top_lost / 72)
    assert kept[-1] == pytest.approx(1 - told.regret)


def test_levels_that_fit_into_the_beam_lose_nothing_and_are_marked():
    told = look(random_rows(12, 60), beam=8, k=6)
    assert [level.decides for level in told.levels] == [level.nodes > 8 for level in told.levels]
    assert all(level.top_lost == 0 for level in told.levels if not level.decides)


def test_the_beam_in_use_is_among_the_widths_and_the_widest_loses_least():
    told = look(random_rows(12, 60), beam=15, k=6)
    assert [width.beam for width in told.widths] == [4, 8, 15, 30, 60]
    here = told.widths[2]
    assert (here.regret, here.found) == (told.regret, told.account.found)
    assert told.widths[-1].regret == 0  # all leaves
    scored = [width.scored for width in told.widths]
    assert scored == sorted(scored)


def test_labels_and_divergences_are_means_over_users():
    index, cases = random_rows(12, 60, seed=4), random_cases(12, 60)
    told = look(index, negatives=10, beam=4, k=3)
    shape, values = index.tree.shape, level_scores(index, nobody(12))
    scores = values[-1][:, index.tree.leaf_of_item.long()]
    levels = tuple(range(1, shape.height + 1))
    made = label_weights(scores, cases.relevant()[:, 0], index.tree, levels)
    assert [level.label for level in told.levels] == pytest.approx(made.mean(0).tolist())
    proposals = log_proposal(shape, dict(enumerate(values)), shape.start(11))
    for level in told.levels:
        if level.level in proposals:
            expected = proposal_kl(proposals[level.level], values[level.level]).mean()
            assert level.kl_tree == pytest.approx(float(expected), abs=1e-6)
        else:
            assert level.kl_tree is None
    assert told.labels_by == "the tree's own leaf scores"


def test_an_estimator_is_asked_for_the_labels_when_there_is_one():
    told = look(random_rows(12, 60), estimator=lambda history: torch.zeros(len(history), 60))
    assert [level.label for level in told.levels] == [1.0] * told.height  # nothing is better than anything
    assert told.labels_by == "an estimator"


def test_a_small_tree_is_taken_whole_and_has_no_proposal():
    told = look(random_rows(12, 60), negatives=70)
    assert [level.kl_tree for level in told.levels] == [None] * told.height


def test_a_constant_scorer_raises_the_alarm():
    told = look(constant(12, 60), beam=4, k=3)
    assert told.collapse.alarm
    assert told.collapse.overlap == 1
    assert told.collapse.personal == 0
    assert [level.violations for level in told.levels] == [None] * told.height  # no order is right or wrong


def test_batches_of_users_change_nothing(monkeypatch):
    index, cases = random_pairs(60, 2, seed=1), random_cases(20, 60)
    catalog = described(np.arange(60) % 4)
    whole = diagnose_tree(index, cases, catalog, beam=4, k=5).as_dict()
    monkeypatch.setattr("shortlist.diagnose.tree.diagnosis.CELLS", 2000)
    parts = diagnose_tree(index, cases, catalog, beam=4, k=5).as_dict()
    assert json.dumps(whole, default=str)[:200] == json.dumps(parts, default=str)[:200]
    for one, other in zip(whole["levels"], parts["levels"], strict=True):
        assert one == pytest.approx(other)
    assert whole["account"] == parts["account"]
    assert whole["walk"] == parts["walk"]


def test_the_answer_is_plain_and_follows_from_the_seed():
    index = random_rows(12, 60)
    assert look(index, beam=4).as_dict() == look(index, beam=4).as_dict()
    json.dumps(look(index, beam=4).as_dict())


def test_the_sketch_shows_the_top_with_every_item_on_every_level():
    told = look(random_rows(12, 60, 2, spare=0.2))
    for level in {box.level for box in told.sketch}:
        assert sum(box.items for box in told.sketch if box.level == level) == 60
    assert max(box.level for box in told.sketch) == 4


@pytest.mark.parametrize("n", [1, 2, 3])
def test_tiny_trees_can_be_looked_at(n):
    catalog = described(range(n))
    cases = held_out([[0], [0]], [[n - 1], [0]], n)
    told = diagnose_tree(random_rows(2, n), cases, catalog, beam=1, k=1)
    assert len(told.levels) == told.height == [0, 1, 2][n - 1]


def test_path_values_are_looked_at_when_the_tree_is_searched_by_products():
    told = look(random_rows(12, 60), beam=60, k=5, product=True)
    assert told.regret == 0
    assert told.levels[0].violations != look(random_rows(12, 60), beam=60, k=5).levels[0].violations


def test_nobody_with_a_history_is_an_error():
    cases = held_out([[], []], [[1], [2]], 5)
    with pytest.raises(DataError, match="with a history"):
        diagnose_tree(random_rows(2, 5), cases, described(range(5)))
