import json

import numpy as np
import pytest
import torch

from shortlist.artifact.as_json import as_json
from shortlist.diagnose.tree.diagnosis import diagnose_tree
from shortlist.diagnose.tree.max_heap import level_scores
from shortlist.errors import DataError
from shortlist.train.tree import label_weights, log_proposal, proposal_kl
from tests.diagnose.tree.small_trees import catalog_of, constant, held_out, max_heap_index, random_held_out
from tests.index.tree.tabular import no_histories, random_pairs, random_rows


def diagnosed(index, users=12, seed=0, **settings):
    n = index.tree.n_items
    catalog = catalog_of(np.arange(n) % 4)
    return diagnose_tree(index, random_held_out(users, n, seed), catalog, users=users, seed=seed, **settings)


@pytest.mark.parametrize(("branch", "spare"), [(2, 0.0), (3, 0.0), (2, 0.4)])
def test_max_heap_scores_have_no_violations_and_no_regret(branch, spare):
    found = diagnosed(max_heap_index(12, 60, branch, spare=spare), beam=5, k=5)
    assert [level.violations for level in found.levels] == [0.0] * found.height
    assert all(level.top_kept == 1 and level.top_lost == 0 == level.beam_lost for level in found.levels)
    assert found.regret == 0
    assert found.losses.beam == found.losses.only_by_beam == 0
    assert [width.regret for width in found.widths if width.beam >= 5] == [0.0] * 3


@pytest.mark.parametrize("seed", range(3))
def test_losses_by_level_add_up_to_regret_and_beam_losses(seed):
    found = diagnosed(random_rows(12, 60, 2, seed), seed=seed, beam=4, k=6)
    assert sum(level.top_lost for level in found.levels) == round(found.regret * 12 * 6) > 0
    assert sum(level.beam_lost for level in found.levels) == found.losses.beam
    lost = sum(level.relevant_lost for level in found.levels)
    assert lost == found.losses.relevant - found.losses.returned
    kept = [1.0] + [level.top_kept for level in found.levels]
    for before, after, level in zip(kept[:-1], kept[1:], found.levels, strict=True):
        assert before - after == pytest.approx(level.top_lost / 72)
    assert kept[-1] == pytest.approx(1 - found.regret)


def test_levels_with_no_more_nodes_than_the_beam_lose_nothing_and_are_marked():
    found = diagnosed(random_rows(12, 60), beam=8, k=6)
    assert [level.decides for level in found.levels] == [level.nodes > 8 for level in found.levels]
    assert all(level.top_lost == 0 for level in found.levels if not level.decides)


def test_the_current_beam_is_among_the_widths_and_the_widest_loses_least():
    found = diagnosed(random_rows(12, 60), beam=15, k=6)
    assert [width.beam for width in found.widths] == [4, 8, 15, 30, 60]
    here = found.widths[2]
    assert (here.regret, here.returned) == (found.regret, found.losses.returned)
    assert found.widths[-1].regret == 0  # all leaves
    scored = [width.scored for width in found.widths]
    assert scored == sorted(scored)


def test_labels_and_kl_are_means_over_users():
    index, cases = random_rows(12, 60, seed=4), random_held_out(12, 60)
    found = diagnosed(index, negatives=10, beam=4, k=3)
    shape, values = index.tree.shape, level_scores(index, no_histories(12))
    scores = values[-1][:, index.tree.leaf_of_item.long()]
    levels = tuple(range(1, shape.height + 1))
    labels = label_weights(scores, cases.relevant()[:, 0], index.tree, levels)
    assert [level.label for level in found.levels] == pytest.approx(labels.mean(0).tolist())
    proposals = log_proposal(shape, dict(enumerate(values)), shape.start(11))
    for level in found.levels:
        if level.level in proposals:
            expected = proposal_kl(proposals[level.level], values[level.level]).mean()
            assert level.kl_tree == pytest.approx(float(expected), abs=1e-6)
        else:
            assert level.kl_tree is None
    assert found.labels_by == "the tree's own leaf scores"


def test_an_estimator_gives_the_labels_if_there_is_one():
    found = diagnosed(random_rows(12, 60), estimator=lambda history: torch.zeros(len(history), 60))
    assert [level.label for level in found.levels] == [1.0] * found.height  # all scores are equal
    assert found.labels_by == "an estimator"


def test_a_small_tree_has_no_sampled_level():
    found = diagnosed(random_rows(12, 60), negatives=70)
    assert [level.kl_tree for level in found.levels] == [None] * found.height


def test_a_constant_scorer_is_an_alarm():
    found = diagnosed(constant(12, 60), beam=4, k=3)
    assert found.collapse.alarm
    assert found.collapse.overlap == 1
    assert found.collapse.personal == 0
    assert [level.violations for level in found.levels] == [None] * found.height  # no pair has an order


def test_batch_sizes_do_not_change_the_diagnosis(monkeypatch):
    index, cases = random_pairs(60, 2, seed=1), random_held_out(20, 60)
    catalog = catalog_of(np.arange(60) % 4)
    whole = diagnose_tree(index, cases, catalog, beam=4, k=5)
    monkeypatch.setattr("shortlist.diagnose.tree.diagnosis.CELLS", 2000)
    parts = diagnose_tree(index, cases, catalog, beam=4, k=5)
    for one, other in zip(whole.levels, parts.levels, strict=True):
        assert vars(one) == pytest.approx(vars(other))
    assert whole.regret == parts.regret
    assert whole.losses == parts.losses
    assert whole.trace == parts.trace


def test_a_diagnosis_has_json_and_follows_from_the_seed():
    index = random_rows(12, 60)
    assert diagnosed(index, beam=4) == diagnosed(index, beam=4)
    assert json.loads(json.dumps(as_json(diagnosed(index, beam=4))))["beam"] == 4


def test_the_top_has_every_item_on_every_level():
    found = diagnosed(random_rows(12, 60, 2, spare=0.2))
    for level in {node.level for node in found.top}:
        assert sum(node.items for node in found.top if node.level == level) == 60
    assert max(node.level for node in found.top) == 4


@pytest.mark.parametrize("n", [1, 2, 3])
def test_tiny_trees_can_be_diagnosed(n):
    catalog = catalog_of(range(n))
    cases = held_out([[0], [0]], [[n - 1], [0]], n)
    found = diagnose_tree(random_rows(2, n), cases, catalog, beam=1, k=1)
    assert len(found.levels) == found.height == [0, 1, 2][n - 1]


def test_path_products_are_diagnosed_for_trees_searched_by_products():
    found = diagnosed(random_rows(12, 60), beam=60, k=5, product=True)
    assert found.regret == 0
    assert found.levels[0].violations != diagnosed(random_rows(12, 60), beam=60, k=5).levels[0].violations


def test_no_user_with_a_history_is_an_error():
    cases = held_out([[], []], [[1], [2]], 5)
    with pytest.raises(DataError, match="with a history"):
        diagnose_tree(random_rows(2, 5), cases, catalog_of(range(5)))
