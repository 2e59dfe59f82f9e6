import json

import pytest

from shortlist.evaluate.evaluation import longest_history
from shortlist.grammar import leaves
from shortlist.index.tree import search
from shortlist.lab.theory.tree_theory import leads, theory_report, tree_theory
from shortlist.nominate import TreeNominator
from shortlist.pipeline import load_recommender
from shortlist.train.tree.plan import plan_of

PLAN = plan_of("dtr-u", windows=(4, 2, 1, 1), negatives=8, min_history=1)


@pytest.fixture(scope="module")
def index(tree_bundle):
    stages = leaves(load_recommender(tree_bundle).pipeline)
    return next(one.index for one in stages if isinstance(one, TreeNominator))


@pytest.fixture(scope="module")
def split(world):
    return world.split()


def test_theory_report_of_a_trained_tree_is_plain_values(index, split):
    result = theory_report(index, PLAN, split.train, split.test, 10, 8, seed=0)
    sampled = [one for one in result["levels"] if not one["whole"]]
    assert {one["sampler"] for one in sampled} == {"uniform", "tree"}
    for one in sampled:
        assert one["gap"] - 4 * one["error"] <= one["kl_plus"] <= one["kl"] + 1e-12
    assert [one["level"] for one in result["leads"]] == list(range(1, index.tree.shape.height + 1))
    assert "vacuous" in result["bounds"]["headline"]
    assert 0 <= result["bounds"]["measured"]["this tree"]["error"]["mean"] <= 1
    assert json.dumps(result, allow_nan=False)


def test_levels_are_measured_on_training_instances(index, split):
    result = tree_theory(index, PLAN, split.train, split.test, 10, 8, seed=3)
    assert result.instances == 200
    assert result.sampler == "uniform"
    assert {level.estimates.instances for level in result.levels} == {200}
    again = tree_theory(index, PLAN, split.train, split.test, 10, 8, seed=3)
    assert again.as_dict() == result.as_dict()


def test_an_item_is_found_iff_it_leads_on_every_level(index, split):
    cases = split.test
    histories, relevant = cases.query(width=longest_history(cases)).history, cases.relevant()[:, 0]
    found = (search(index, histories, 10, beam=8).items == relevant[:, None]).any(1)
    for one in range(len(relevant)):
        result = leads(index, histories[one : one + 1], relevant[one : one + 1], 10, 8)
        leading = all(level["q50"] is None or level["q50"] > 0 for level in result)
        assert leading == bool(found[one])


def test_a_level_that_fits_into_the_beam_has_no_lead(index, split):
    cases = split.test
    histories, relevant = cases.query(width=longest_history(cases)).history, cases.relevant()[:, 0]
    result = leads(index, histories, relevant, 10, 8)
    assert result[0] == {"level": 1, "instances": 0, "q10": None, "q50": None, "q90": None, "negative": None}
    assert result[-1]["q10"] <= result[-1]["q50"] <= result[-1]["q90"]


def test_a_report_without_plan_or_relevant_items_gives_the_reason(index, split):
    assert "does not record how" in theory_report(index, None)["reason"]
    none = split.test.take(slice(0, 0))
    assert "no leaf" in theory_report(index, PLAN, split.train, none, 10, 8)["reason"]
