"""Rankers of a small trial, and what they put first."""

import pytest
import torch

from shortlist.lab.experiments.trees.common import Trial
from shortlist.lab.experiments.two_stage.common import SMALL, Arm, TwoStages
from shortlist.lab.experiments.two_stage.rankers import _batches, everywhere, firsts, ranker


@pytest.fixture(scope="module")
def stages(ground):
    return TwoStages(Trial(ground, 0, device="cpu"), SMALL)


@pytest.fixture(scope="module")
def taught(stages):
    return ranker(stages, Arm(16))


def test_the_same_arm_is_taught_alike(stages, taught):
    model, told = ranker(stages, Arm(16))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), taught[0].parameters(), strict=True))
    assert told["judged"] == taught[1]["judged"]


def test_what_an_arm_learned_from_is_told(stages, taught):
    assert taught[1]["instances"] == int(stages.flags("crossfit").hit(16).sum())
    assert taught[1]["most"] == SMALL.epochs


@pytest.mark.parametrize("negatives", ["candidates", "both"])
def test_other_negatives_are_taught_too(stages, taught, negatives):
    model, _ = ranker(stages, Arm(16, negatives))
    assert not all(torch.equal(a, b) for a, b in zip(model.parameters(), taught[0].parameters(), strict=True))


@pytest.mark.parametrize("arm", [Arm(1), Arm(16), Arm(16, subset=True)])
def test_a_filter_is_the_mean_loss_of_what_it_leaves(stages, monkeypatch, arm):
    """I31: gradients of strict filters are not larger than others, so clipping treats all arms alike."""
    seen = []
    monkeypatch.setattr(
        "shortlist.lab.experiments.two_stage.rankers._loss",
        lambda *given: seen.append(given[4][given[3]]) or torch.zeros(()),
    )
    loss = next(_batches(stages, None, arm, stages.weights(arm))(0))
    loss()
    assert seen[0].tolist() == pytest.approx([1.0] * len(seen[0]))


def test_the_first_of_one_is_the_retrievers_and_the_first_of_all_the_rankers(stages, taught):
    """I17."""
    cases = stages.trial.split.test
    found = stages.candidates(cases)
    got = firsts(stages, taught[0], cases, found, (1, 24))
    assert torch.equal(got[:, 0], found[:, 0])
    scores = taught[0].score_rows(cases.query(width=stages.max_history).history, found.clamp(min=0))
    slow = [
        int(row[where.masked_fill(row < 0, -torch.inf).argmax()])
        for row, where in zip(found, scores, strict=True)
    ]
    assert got[:, 1].tolist() == slow


def test_everywhere_leaves_out_what_was_seen_and_takes_the_best_of_the_rest(stages, taught):
    cases = stages.trial.split.test
    got = everywhere(stages, taught[0], cases)
    scores = taught[0].scores(cases.query(width=stages.max_history).history)
    for row in range(0, len(cases), 5):
        seen = cases.events.items[cases.starts[row] : cases.cuts[row]].tolist()
        left = scores[row].clone()
        left[seen] = -torch.inf
        assert int(got[row]) == int(left.argmax())
