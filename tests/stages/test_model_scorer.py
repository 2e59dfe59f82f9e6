"""The model scorer: the scores of its model for the candidates."""

import pytest
import torch

from shortlist.models.collaborative.ease import EASE, EASEConfig
from shortlist.models.model import Model
from shortlist.models.sequence.sasrec import SASRec, SASRecConfig
from shortlist.stages import ModelScorer
from shortlist.testing.stages import check_stage
from tests.worlds import N_ITEMS, found, listed, query_of, run_checked


def sasrec() -> Model:
    torch.manual_seed(0)
    return SASRec(SASRecConfig(N_ITEMS, max_history=6, width=8)).eval()


def ease() -> Model:
    model = EASE(EASEConfig(N_ITEMS))
    model.weights.copy_(torch.randn(N_ITEMS, N_ITEMS, generator=torch.Generator().manual_seed(0)))
    return model.eval()


@pytest.mark.parametrize("make", [sasrec, ease])
@torch.no_grad()
def test_candidates_have_the_scores_of_the_model(make):
    model, query = make(), query_of([3, 4], [])
    candidates = found([0.0, None, 0.0], [0.0, 0.0, 0.0])
    scores = ModelScorer(model).score(query, candidates)
    full = model.scores(query.history, query.user)
    assert torch.allclose(scores[candidates.valid], full[:, :3][candidates.valid], atol=1e-5)


@pytest.mark.parametrize("make", [sasrec, ease])
def test_stage_keeps_its_contract_and_its_scores_when_rebuilt(make):
    stage = ModelScorer(make(), name="pre")
    check_stage(stage, N_ITEMS)
    rebuilt = ModelScorer.build(stage.settings(), stage.tensors())
    query, candidates = query_of([1, 2]), found([0.0] * 5)
    assert torch.equal(rebuilt.score(query, candidates), stage.score(query, candidates))


def test_empty_history_has_finite_scores():
    slate = run_checked(listed("a", [1, 2, 3]) >> ModelScorer(sasrec()) % 2, query_of([]))
    assert bool(torch.isfinite(slate.scores).all())
