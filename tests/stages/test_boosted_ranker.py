"""The boosted ranker as a stage: the same after a trip through its tensors, each candidate scored alone."""

import pytest
import torch

from shortlist.errors import ArtifactError
from shortlist.models.ranking.boosted_trees import Trees
from shortlist.stages import BoostedScorer
from shortlist.stages.boosted import read_sheet
from shortlist.testing.stages import check_stage
from tests.stages.sheets import sheet
from tests.stages.test_calibrated import logistic
from tests.worlds import N_ITEMS, asked, listed, run_checked

POOL = listed("a", [1, 2, 3]) + listed("b", [3, 4])


def stumps(count: int) -> Trees:
    """A tree for every feature that asks whether it is above 0."""
    root = torch.arange(count) * 3
    at = torch.arange(3 * count)
    top = at % 3 == 0
    left, right = torch.where(top, at + 1, at), torch.where(top, at + 2, at)
    value = torch.where(top, 0.0, torch.randn(3 * count, generator=torch.Generator().manual_seed(0)).double())
    return Trees(torch.where(top, at // 3, 0), torch.zeros(3 * count).double(), left, right, value, root)


def scorer(**more) -> BoostedScorer:
    made = sheet()
    return BoostedScorer(made, stumps(made.size + made.columns.codes.shape[1]), name="rank", **more)


@pytest.mark.parametrize("more", [{}, {"calibration": logistic(2.0, 1.0)}])
def test_it_keeps_the_contract_and_scores_the_same_after_a_trip_through_its_tensors(more):
    stage = scorer(**more)
    check_stage(stage, N_ITEMS, ("a", "b"))
    back = BoostedScorer.build(stage.settings(), stage.tensors())
    query = asked([5, 6], [])
    assert back.settings() == stage.settings()
    assert torch.equal(run_checked(POOL >> back, query).scores, run_checked(POOL >> stage, query).scores)
    assert back.probabilities == stage.probabilities


def test_the_score_is_that_of_the_trees_over_the_sheet_and_the_codes():
    stage, query = scorer(), asked([5, 6], [])
    field = run_checked(POOL, query).candidates
    told = read_sheet(stage.sheet, query, field)
    assert torch.equal(told[..., :-1], stage.sheet(query, field))
    assert torch.equal(told[..., -1].long(), stage.sheet.columns.codes[field.items.clamp(min=0), 0])
    assert torch.equal(stage.score(query, field), stage.trees(told))


def test_rivals_say_nothing_to_the_last_bit():
    stage, query = scorer(), asked([5, 6], [7])
    field = run_checked(POOL, query).candidates
    turn = torch.arange(field.shape[1] - 1, -1, -1).expand(field.shape)
    assert torch.equal(stage.score(query, field.take(turn)).flip(1), stage.score(query, field))


def test_damaged_trees_are_refused():
    stage = scorer()
    broken = stage.tensors() | {"trees.left": torch.zeros_like(stage.trees.left)}
    with pytest.raises(ArtifactError, match="a node leads nowhere"):
        BoostedScorer.build(stage.settings(), broken)
    for value in (torch.tensor(1.0), stage.trees.value.half(), torch.full_like(stage.trees.value, torch.nan)):
        with pytest.raises(ArtifactError, match="a node leads nowhere"):
            BoostedScorer.build(stage.settings(), stage.tensors() | {"trees.value": value})
    with pytest.raises(ArtifactError, match="boosted trees: their tensors lack"):
        BoostedScorer.build(stage.settings(), stage.sheet.tensors())
