"""Candidates judged by a model: its own scores, for the candidates it is given."""

import pytest
import torch

from shortlist.models.collaborative.ease import EASE, LinearConfig
from shortlist.models.model import Model
from shortlist.models.sequence.sasrec import SASRec, SASRecConfig
from shortlist.stages import ModelScorer
from shortlist.testing.stages import check_stage
from tests.worlds import N_ITEMS, asked, found, listed, run_checked


def sasrec() -> Model:
    torch.manual_seed(0)
    return SASRec(SASRecConfig(N_ITEMS, max_history=6, width=8)).eval()


def ease() -> Model:
    model = EASE(LinearConfig(N_ITEMS))
    model.weights.copy_(torch.randn(N_ITEMS, N_ITEMS, generator=torch.Generator().manual_seed(0)))
    return model.eval()


@pytest.mark.parametrize("make", [sasrec, ease])
@torch.no_grad()
def test_candidates_get_the_scores_the_model_gives_them(make):
    model, query = make(), asked([3, 4], [])
    field = found([0.0, None, 0.0], [0.0, 0.0, 0.0])
    scores = ModelScorer(model).score(query, field)
    full = model.scores(query.history, query.user)
    assert torch.allclose(scores[field.valid], full[:, :3][field.valid], atol=1e-5)


@pytest.mark.parametrize("make", [sasrec, ease])
def test_it_keeps_the_contract_and_scores_the_same_after_a_trip_through_its_weights(make):
    stage = ModelScorer(make(), name="pre")
    check_stage(stage, N_ITEMS)
    back = ModelScorer.build(stage.settings(), stage.tensors())
    query, field = asked([1, 2]), found([0.0] * 5)
    assert torch.equal(back.score(query, field), stage.score(query, field))


def test_users_without_history_are_scored_too():
    slate = run_checked(listed("a", [1, 2, 3]) >> ModelScorer(sasrec()) % 2, asked([]))
    assert bool(torch.isfinite(slate.scores).all())
