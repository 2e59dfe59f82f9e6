"""The network ranker as a stage: the same after a trip through its tensors, each candidate scored alone."""

import pytest
import torch

from shortlist.errors import ArtifactError
from shortlist.models.ranking.mlp_ranker import MLPRanker, MLPRankerConfig
from shortlist.stages import MLPScorer
from shortlist.testing.stages import check_stage
from tests.stages.sheets import sheet
from tests.stages.test_calibrated import logistic
from tests.worlds import N_ITEMS, asked, listed, run_checked

POOL = listed("a", [1, 2, 3]) + listed("b", [3, 4])


def scorer(**more) -> MLPScorer:
    torch.manual_seed(0)
    made = sheet()
    columns = made.columns
    config = MLPRankerConfig(N_ITEMS, made.size, columns.sizes, columns.n_tags, width=8, hidden=(16,))
    return MLPScorer(made, MLPRanker(config).eval(), name="rank", **more)


@pytest.mark.parametrize("more", [{}, {"calibration": logistic(2.0, 1.0)}])
def test_it_keeps_the_contract_and_scores_the_same_after_a_trip_through_its_tensors(more):
    stage = scorer(**more)
    check_stage(stage, N_ITEMS, ("a", "b"))
    assert stage.settings() == {
        "name": "rank",
        "nominators": ["a", "b"],
        "columns": ["price", "kind", "genres"],
    }
    back = MLPScorer.build(stage.settings(), stage.tensors())
    query = asked([5, 6], [])
    assert torch.equal(run_checked(POOL >> back, query).scores, run_checked(POOL >> stage, query).scores)
    assert back.probabilities == stage.probabilities


def test_rivals_say_nothing():
    stage, query = scorer(), asked([5, 6], [7])
    field = run_checked(POOL, query).candidates
    told = stage.score(query, field)
    turn = torch.arange(field.shape[1] - 1, -1, -1).expand(field.shape)
    assert torch.allclose(stage.score(query, field.take(turn)).flip(1), told, atol=1e-6)
    one = stage.score(query, field.take(turn[:, :1]))
    assert torch.allclose(one, told[:, -1:], atol=1e-6)


def test_what_the_nominators_and_the_columns_say_counts():
    stage, query = scorer(), asked([5, 6])
    field = run_checked(POOL, query).candidates
    told = stage.score(query, field)
    silent = field.add(
        {"a.rank": torch.full(field.shape, torch.nan), "a.score": torch.full(field.shape, torch.nan)}
    )
    assert not torch.equal(stage.score(query, silent), told)
    stage.sheet.columns.numbers[:] = stage.sheet.columns.numbers + 1
    assert not torch.equal(stage.score(query, field), told)


def test_damaged_tensors_are_refused():
    stage = scorer()
    with pytest.raises(ArtifactError, match="mlp-ranker: its tensors lack 'about'"):
        MLPScorer.build({}, {})
    with pytest.raises(ArtifactError, match="settings and weights do not fit"):
        MLPScorer.build(stage.settings(), stage.tensors() | {"network.items.weight": torch.zeros(3, 3)})


def test_a_sheet_that_its_network_cannot_read_is_refused():
    stage = scorer()
    codes = stage.sheet.columns.codes
    with pytest.raises(ArtifactError, match=r"its network reads .* its sheet tells"):
        MLPScorer.build(stage.settings(), stage.tensors() | {"columns.codes": codes + 1000})
    with pytest.raises(ArtifactError, match=r"its network reads .* its sheet tells"):
        MLPScorer.build(stage.settings() | {"nominators": ["a"]}, stage.tensors())
