import json

import pytest

from shortlist.evaluate.evaluation import longest
from shortlist.index.tree import search
from shortlist.lab.theory.tree_theory import leads, theory_told, tree_theory
from shortlist.nominate import TreeNominator
from shortlist.pipeline import load_recommender
from shortlist.pipeline.recipe import leaves
from shortlist.train.tree.plan import plan_of

PLAN = plan_of("dtr-u", windows=(4, 2, 1, 1), negatives=8, min_history=1)


@pytest.fixture(scope="module")
def index(tree_bundle):
    stages = leaves(load_recommender(tree_bundle).pipeline)
    return next(one.index for one in stages if isinstance(one, TreeNominator))


@pytest.fixture(scope="module")
def split(world):
    return world.split()


def test_gaps_leads_and_bounds_of_a_trained_tree_are_told_in_plain_values(index, split):
    told = theory_told(index, PLAN, split.train, split.test, 10, 8, seed=0)
    drawn = [one for one in told["levels"] if not one["whole"]]
    assert {one["sampler"] for one in drawn} == {"uniform", "tree"}
    for one in drawn:
        assert one["gap"] - 4 * one["error"] <= one["kl_plus"] <= one["kl"] + 1e-12
    assert [one["level"] for one in told["leads"]] == list(range(1, index.tree.shape.height + 1))
    assert "vacuous" in told["bounds"]["headline"]
    assert 0 <= told["bounds"]["beside"]["this tree"]["error"]["mean"] <= 1
    assert json.dumps(told, allow_nan=False)


def test_the_levels_are_those_of_the_instances_it_learned_from(index, split):
    told = tree_theory(index, PLAN, split.train, split.test, 10, 8, seed=3)
    assert told.instances == 200
    assert told.sampler == "uniform"
    assert {one.found.instances for one in told.levels} == {200}
    again = tree_theory(index, PLAN, split.train, split.test, 10, 8, seed=3)
    assert again.as_dict() == told.as_dict()


def test_an_item_is_found_exactly_where_it_leads_on_every_level(index, split):
    cases = split.test
    histories, wanted = cases.query(width=longest(cases)).history, cases.relevant()[:, 0]
    found = (search(index, histories, 10, beam=8).items == wanted[:, None]).any(1)
    for one in range(len(wanted)):
        told = leads(index, histories[one : one + 1], wanted[one : one + 1], 10, 8)
        leading = all(level["q50"] is None or level["q50"] > 0 for level in told)
        assert leading == bool(found[one])


def test_a_level_that_fits_into_the_beam_has_no_lead(index, split):
    cases = split.test
    histories, wanted = cases.query(width=longest(cases)).history, cases.relevant()[:, 0]
    told = leads(index, histories, wanted, 10, 8)
    assert told[0] == {"level": 1, "instances": 0, "q10": None, "q50": None, "q90": None, "trail": None}
    assert told[-1]["q10"] <= told[-1]["q50"] <= told[-1]["q90"]


def test_a_tree_without_a_recipe_or_without_what_is_wanted_says_why(index, split):
    assert "does not say how" in theory_told(index, None)["why"]
    none = split.test.take(slice(0, 0))
    assert "no leaf" in theory_told(index, PLAN, split.train, none, 10, 8)["why"]
