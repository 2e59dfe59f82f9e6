"""Rankers of a small trial, and the items they rank first."""

import pytest
import torch

from shortlist.lab.experiments.trees.trial import Trial
from shortlist.lab.experiments.two_stage.rankers import (
    _batches,
    _loss,
    first_items,
    first_of_catalogue,
    train_ranker,
)
from shortlist.lab.experiments.two_stage.trial import SMALL, Arm, TwoStages


@pytest.fixture(scope="module")
def stages(data_setup):
    return TwoStages(Trial(data_setup, 0, device="cpu"), SMALL)


@pytest.fixture(scope="module")
def trained(stages):
    return train_ranker(stages, Arm(16))


def later_items(stages, row):
    """The items of an instance's user after its target, found in the log."""
    end = int(stages.windows.ends[stages.rows[row]])
    stop = int(stages.events.starts[stages.events.users[end] + 1])
    return sorted(set(stages.events.items[end + 1 : stop].tolist()))


def with_several_later_items(stages):
    return [row for row in range(0, len(stages.rows), 7) if len(later_items(stages, row)) > 2][:32]


def loss_with_candidates(stages, model, rows, chosen):
    """The loss of instances whose candidates, and so whose negatives, are the chosen items of each."""
    width = SMALL.negatives
    candidates = torch.full((len(stages.rows), width), -1)
    for row in rows:
        items = chosen(row)
        candidates[row] = torch.tensor([items[at % len(items)] for at in range(width)])
    weight = torch.ones(len(stages.rows))
    return _loss(stages, model, Arm(negatives="candidates"), torch.tensor(rows), weight, candidates)


def test_no_later_item_of_a_user_is_a_negative(stages, trained):
    rows = with_several_later_items(stages)
    assert len(rows) > 10
    loss = loss_with_candidates(stages, trained.model, rows, lambda row: later_items(stages, row))
    assert loss.item() == 0.0


def test_items_that_a_user_never_interacts_with_are_negatives(stages, trained):
    rows = with_several_later_items(stages)
    users = stages.events.users[stages.windows.ends[stages.rows]]

    def unseen(row):
        begin, stop = stages.events.starts[users[row]], stages.events.starts[users[row] + 1]
        return sorted(set(range(stages.n_items)) - set(stages.events.items[begin:stop].tolist()))

    assert loss_with_candidates(stages, trained.model, rows, unseen).item() > 0.1


def test_instances_without_any_negative_have_finite_gradients(stages, trained):
    rows = with_several_later_items(stages)
    trained.model.zero_grad()
    loss_with_candidates(stages, trained.model, rows, lambda row: later_items(stages, row)).backward()
    assert all(
        bool(torch.isfinite(one.grad).all()) for one in trained.model.parameters() if one.grad is not None
    )


def test_training_with_the_same_seed_is_repeatable(stages, trained):
    again = train_ranker(stages, Arm(16))
    pairs = zip(again.model.parameters(), trained.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert again.history == trained.history


def test_a_trained_ranker_reports_its_instances_and_epochs(stages, trained):
    assert trained.instances == int(stages.flags("crossfit").hit(16).sum())
    assert trained.history.max_epochs == SMALL.epochs
    assert len(trained.history.validation) == trained.history.epochs


@pytest.mark.parametrize("negatives", ["candidates", "both"])
def test_other_negatives_give_another_ranker(stages, trained, negatives):
    model = train_ranker(stages, Arm(16, negatives)).model
    pairs = zip(model.parameters(), trained.model.parameters(), strict=True)
    assert not all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("arm", [Arm(1), Arm(16), Arm(16, subset=True)])
def test_a_filter_is_the_mean_loss_of_the_instances_it_leaves(stages, monkeypatch, arm):
    """I31: gradients of strict filters are not larger than others, so gradient clipping treats all arms alike."""
    seen = []
    monkeypatch.setattr(
        "shortlist.lab.experiments.two_stage.rankers._loss",
        lambda *given: seen.append(given[4][given[3]]) or torch.zeros(()),
    )
    loss = next(_batches(stages, None, arm, stages.weights(arm))(0))
    loss()
    assert seen[0].tolist() == pytest.approx([1.0] * len(seen[0]))


def test_the_first_of_one_candidate_is_the_retrievers_and_the_first_of_all_the_rankers(stages, trained):
    """I17."""
    held_out = stages.trial.split.test
    found = stages.candidates(held_out)
    first = first_items(stages, trained.model, held_out, found, (1, 24))
    assert torch.equal(first[:, 0], found[:, 0])
    history = held_out.query(width=stages.max_history).history
    scores = trained.model.score_rows(history, found.clamp(min=0))
    slow = [
        int(items[values.masked_fill(items < 0, -torch.inf).argmax()])
        for items, values in zip(found, scores, strict=True)
    ]
    assert first[:, 1].tolist() == slow


def test_the_first_of_the_catalogue_is_the_best_item_outside_the_history(stages, trained):
    held_out = stages.trial.split.test
    first = first_of_catalogue(stages, trained.model, held_out)
    scores = trained.model.scores(held_out.query(width=stages.max_history).history)
    for row in range(0, len(held_out), 5):
        seen = held_out.events.items[held_out.starts[row] : held_out.cuts[row]].tolist()
        left = scores[row].clone()
        left[seen] = -torch.inf
        assert int(first[row]) == int(left.argmax())
