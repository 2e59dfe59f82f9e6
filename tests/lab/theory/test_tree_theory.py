import json

import pytest

from shortlist.artifact.as_json import as_json
from shortlist.errors import DataError
from shortlist.grammar import leaves
from shortlist.index.tree import search
from shortlist.lab.theory.tree_theory import LevelLead, leads, tree_theory
from shortlist.nominate import TreeNominator
from shortlist.pipeline import load_recommender
from shortlist.pipeline.batch.held_out import longest_history
from shortlist.train.tree.plan import plan_of

PLAN = plan_of("dtr-u", windows=(4, 2, 1, 1), negatives=8, min_history=1)


@pytest.fixture(scope="module")
def index(tree_bundle):
    stages = leaves(load_recommender(tree_bundle).pipeline)
    return next(one.index for one in stages if isinstance(one, TreeNominator))


@pytest.fixture(scope="module")
def split(world):
    return world.split()


def test_theory_of_a_trained_tree_is_written_as_json(index, split):
    result = tree_theory(index, PLAN, split.train, split.test, 10, 8, seed=0)
    sampled = [one for one in result.levels if not one.whole]
    assert {one.sampler for one in sampled} == {"uniform", "tree"}
    for one in sampled:
        gap = one.estimates
        assert gap.gap - 4 * gap.error <= gap.kl_plus <= gap.kl + 1e-12
    assert [one.level for one in result.leads] == list(range(1, index.tree.shape.height + 1))
    assert "vacuous" in result.bounds.headline
    plain = as_json(result)
    assert 0 <= plain["bounds"]["measured"]["this tree"]["error"]["mean"] <= 1
    assert json.dumps(plain, allow_nan=False)


def test_levels_are_measured_on_training_instances(index, split):
    result = tree_theory(index, PLAN, split.train, split.test, 10, 8, seed=3)
    assert result.instances == 200
    assert result.sampler == "uniform"
    assert {level.estimates.instances for level in result.levels} == {200}
    again = tree_theory(index, PLAN, split.train, split.test, 10, 8, seed=3)
    assert as_json(again) == as_json(result)


def test_an_item_is_found_iff_it_leads_on_every_level(index, split):
    users = split.test
    histories, relevant = users.query(width=longest_history(users)).history, users.relevant()[:, 0]
    found = (search(index, histories, 10, beam=8).items == relevant[:, None]).any(1)
    for one in range(len(relevant)):
        result = leads(index, histories[one : one + 1], relevant[one : one + 1], 10, 8)
        leading = all(level.q50 is None or level.q50 > 0 for level in result)
        assert leading == bool(found[one])


def test_a_level_that_fits_into_the_beam_has_no_lead(index, split):
    users = split.test
    histories, relevant = users.query(width=longest_history(users)).history, users.relevant()[:, 0]
    result = leads(index, histories, relevant, 10, 8)
    assert result[0] == LevelLead(1, 0, q10=None, q50=None, q90=None, negative=None)
    assert result[-1].q10 <= result[-1].q50 <= result[-1].q90


def test_a_tree_without_relevant_items_is_refused(index, split):
    none = split.test.take(slice(0, 0))
    with pytest.raises(DataError, match="no leaf"):
        tree_theory(index, PLAN, split.train, none, 10, 8)
