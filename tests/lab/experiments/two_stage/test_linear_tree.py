import numpy as np
import pytest
import torch

from shortlist.lab.experiments.two_stage.linear_tree import (
    LinearPlan,
    TrainTest,
    events_of,
    level_loss,
    train_linear,
)
from shortlist.lab.theory.bounds_inputs import BoundInputs
from shortlist.lab.theory.bounds_measured import tree_losses
from shortlist.models.nodes import norm_report

WINDOWS = (4, 2, 1, 1)


@pytest.fixture(scope="module")
def data(data_setup):
    split = data_setup.dataset.split(protocol="half-history", seed=0)
    return TrainTest(split, sum(WINDOWS), 4, 0, torch.device("cpu"))


def plan(**settings):
    return LinearPlan(**{"steps": 8, "batch_size": 100, "windows": WINDOWS, "min_history": 4, **settings})


def test_training_validation_and_test_users_are_disjoint(data):
    split = data.split
    users = [set(split.train.users.tolist())] + [
        set(events_of(one).users.tolist()) for one in (split.valid, split.test)
    ]
    assert all(users)
    assert not users[0] & users[1] | users[0] & users[2] | users[1] & users[2]


def test_the_theorems_apply_to_a_linear_tree(data):
    index, rows = train_linear(plan(), data)
    norms = norm_report(index.scorer, trained_history=False)
    assert norms.theory_applicable
    inputs = BoundInputs.of_index(index, len(rows), norms)
    history = data.train.histories(rows[:50])
    assert index.state(history, 0)[0].norm(dim=1).tolist() == pytest.approx([1.0] * 50, abs=1e-5)
    assert inputs.range == pytest.approx(inputs.b0)


def test_user_vectors_are_not_trained(data):
    index, _ = train_linear(plan(), data)
    assert torch.equal(index.scorer.items.weight, data.vectors(24))
    assert (data.vectors(24)[:, -1] == 1).all()
    assert data.vectors(1).tolist() == [[1.0]] * index.tree.n_items


def test_training_lowers_the_loss(data):
    some = data.sample(data.train, torch.arange(len(data.train)), 200)
    before, _ = train_linear(plan(steps=0), data)
    after, _ = train_linear(plan(steps=30), data)
    losses = [float(level_loss(one, some.histories, some.targets)) for one in (before, after)]
    assert losses[0] == pytest.approx(
        sum(np.log(before.tree.shape.sizes[1:])), abs=1e-4
    )  # all nodes equally likely
    assert losses[1] < losses[0]


def test_the_loss_is_that_of_whole_levels(data):
    index, _ = train_linear(plan(steps=5), data)
    some = data.sample(data.train, torch.arange(len(data.train)), 60)
    losses = tree_losses(index, some.histories, some.targets, 5)
    assert float(level_loss(index, some.histories, some.targets)) == pytest.approx(
        float(losses.levels.mean()), rel=1e-5
    )


def test_leaves_are_trained_the_same_for_all_branches(data):
    two, eight = (train_linear(plan(branch=branch), data)[0] for branch in (2, 8))
    some = data.sample(data.test, torch.arange(len(data.test)), 100)
    losses = [tree_losses(one, some.histories, some.targets, 5).leaves for one in (two, eight)]
    assert torch.allclose(*losses, atol=1e-6)


def test_node_vectors_stay_within_their_norm_limit(data):
    index, _ = train_linear(plan(limit=0.3, steps=20), data)
    assert norm_report(index.scorer).b0 <= 0.3
    assert norm_report(train_linear(plan(steps=20), data)[0].scorer).b0 > 0.3


def test_a_share_of_users_is_a_subset_of_every_larger_share(data):
    shares = [set(data.training_rows(one).tolist()) for one in (0.05, 0.2, 1.0)]
    assert shares[0] < shares[1] < shares[2]
    assert len(shares[2]) == len(data.train)
    users = [len(torch.unique(data.train.starts[data.training_rows(one)])) for one in (0.05, 1.0)]
    assert users[0] == round(0.05 * users[1])


def test_training_depends_only_on_the_seed(data):
    one, again = (train_linear(plan(), data)[0].scorer.nodes.weight for _ in range(2))
    assert torch.equal(one, again)
