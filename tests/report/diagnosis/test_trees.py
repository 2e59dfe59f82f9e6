import pytest

from shortlist.lab.theory.bounds_compare import compare_branches
from shortlist.lab.theory.bounds_inputs import BoundInputs, bottom_aligned
from shortlist.lab.theory.bounds_measured import Beside
from shortlist.metrics.estimate import Estimate
from shortlist.report.diagnosis.trees import (
    bound_parts,
    lead_parts,
    sampler_line,
    sampler_parts,
    theory_lines,
    trees,
)
from shortlist.report.page import Html, Section, page


def level(sampler, gap, whole=False):
    told = {"sampler": sampler, "level": 5, "size": 40, "whole": whole, "gap": gap, "error": 0.001}
    return told | {"delta": gap, "kl_plus": 2 * gap, "kl": 3 * gap, "loss": 2.0, "negatives": 8}


def theory(**changes):
    inputs = BoundInputs(1000, bottom_aligned(200, 2), 2, n_users=50, departures=("it has biases",))
    bounds = compare_branches(inputs, force=True).as_dict()
    beside = Beside(Estimate(0.4, 0.3, 0.5), 0.6, Estimate(0.1, 0.05, 0.15), "of the margin, 0 to 1")
    bounds["beside"] = {"this tree": beside.as_dict()}
    lead = {"level": 5, "instances": 30, "q10": -1.0, "q50": 0.5, "q90": 2.0, "trail": 0.25}
    empty = {"level": 1, "instances": 0, "q10": None, "q50": None, "q90": None, "trail": None}
    told = {"instances": 200, "negatives": 8, "sampler": "uniform", "loss": "softmax", "bounds": bounds}
    return told | {"levels": [level("uniform", 0.2), level("tree", 0.1)], "leads": [empty, lead]} | changes


def text(parts):
    return " ".join(one.text if isinstance(one, Html) else one for one in parts)


def test_the_first_line_of_the_bounds_says_that_they_are_vacuous():
    parts = bound_parts(theory()["bounds"])
    assert "bounds are vacuous" in parts[0]
    assert "Why a theorem does not: it has biases." in parts


def test_bounds_and_errors_share_no_table():
    parts = bound_parts(theory()["bounds"])
    tables = [one.text for one in parts if isinstance(one, Html)]
    assert len(tables) == 1
    assert "40.0%" not in tables[0]
    assert "in 40.0% [30.0%, 50.0%] of the held-out requests" in text(parts)
    assert "8 branches" in tables[0]


def test_the_sampler_is_told_for_the_way_it_learned_beside_the_other():
    assert sampler_line(theory()) == (
        "Drawn all alike, the losses of all levels together look 0.200 nats smaller than the 2.00 they are (10.0%); "
        "drawn by the tree, 0.100."
    )
    assert sampler_line(theory(sampler="tree")).startswith("Drawn by the tree")
    assert "all alike (as it learned)" in text(sampler_parts(theory()))


def test_other_samplers_and_losses_are_said_to_be_other():
    said = text(sampler_parts(theory(sampler="beam", loss="binary")))
    assert "another way to draw, 'beam'" in said
    assert "with the loss 'binary'" in said
    assert "as it learned" not in said


def test_levels_taken_whole_cost_nothing():
    whole = theory(levels=[level("uniform", 0.0, True), level("tree", 0.0, True)])
    assert "nothing was left to chance" in text(sampler_parts(whole))
    assert "costs nothing" in sampler_line(whole)


def test_levels_that_lose_nothing_have_no_lead_to_tell():
    said = text(lead_parts(theory()))
    assert "25%" in said
    assert "+0.50" in said
    assert lead_parts(theory(leads=theory()["leads"][:1])) == []


@pytest.mark.parametrize("told", [{}, {"why": "the bundle does not say how this tree was trained"}])
def test_a_tree_without_theory_has_its_other_sections(told, monkeypatch):
    kept = [Section("In short", ["words"])]
    monkeypatch.setattr("shortlist.report.diagnosis.trees.tree_sections", lambda tree: kept)
    assert [one.title for one in trees({"trees": {"oak": {"theory": told}}})] == ["The tree 'oak': in short"]
    assert theory_lines(told) == ((f"sampler and bounds: {told['why']}",) if told else ())


def test_a_tree_with_theory_has_three_sections_more(monkeypatch):
    monkeypatch.setattr("shortlist.report.diagnosis.trees.tree_sections", lambda tree: [])
    sections = trees({"trees": {"oak": {"theory": theory()}}})
    assert len(sections) == 3
    assert page("Trees", sections).count("<h2>The tree &#x27;oak&#x27;: ") == 3
    assert [line.split(":")[0] for line in theory_lines(theory())] == ["sampler", "bounds"]
