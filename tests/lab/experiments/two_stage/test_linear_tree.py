import numpy as np
import pytest
import torch

from shortlist.lab.experiments.two_stage.linear_tree import (
    LinearPlan,
    Sides,
    events_of,
    level_loss,
    teach_linear,
)
from shortlist.lab.theory.bounds_inputs import BoundInputs
from shortlist.lab.theory.bounds_measured import tree_losses
from shortlist.models.nodes import norm_report

WINDOWS = (4, 2, 1, 1)


@pytest.fixture(scope="module")
def sides(ground):
    split = ground.dataset.split(protocol="half-history", seed=0)
    return Sides(split, sum(WINDOWS), 4, 0, torch.device("cpu"))


def plan(**given):
    return LinearPlan(**{"steps": 8, "batch_size": 100, "windows": WINDOWS, "min_history": 4, **given})


def test_training_test_and_validation_users_share_nobody(sides):
    split = sides.split
    users = [set(split.train.users.tolist())] + [
        set(events_of(one).users.tolist()) for one in (split.valid, split.test)
    ]
    assert all(users)
    assert not users[0] & users[1] | users[0] & users[2] | users[1] & users[2]


def test_the_theorems_speak_of_such_a_tree(sides):
    index, shown = teach_linear(plan(), sides)
    norms = norm_report(index.scorer, trained_history=False)
    assert norms.theory_applicable
    told = BoundInputs.of_index(index, len(shown), norms)
    history = sides.train.histories(shown[:50])
    assert index.state(history, 0)[0].norm(dim=1).tolist() == pytest.approx([1.0] * 50, abs=1e-5)
    assert told.range == pytest.approx(told.b0)


def test_nobody_learns_what_stands_for_a_user(sides):
    index, _ = teach_linear(plan(), sides)
    assert torch.equal(index.scorer.items.weight, sides.vectors(24))
    assert (sides.vectors(24)[:, -1] == 1).all()
    assert sides.vectors(1).tolist() == [[1.0]] * index.tree.n_items


def test_lessons_help(sides):
    some = sides.sample(sides.train, torch.arange(len(sides.train)), 200)
    before, _ = teach_linear(plan(steps=0), sides)
    after, _ = teach_linear(plan(steps=30), sides)
    losses = [float(level_loss(one, some.histories, some.labels)) for one in (before, after)]
    assert losses[0] == pytest.approx(
        sum(np.log(before.tree.shape.sizes[1:])), abs=1e-4
    )  # every node as likely
    assert losses[1] < losses[0]


def test_the_loss_is_that_of_whole_levels(sides):
    index, _ = teach_linear(plan(steps=5), sides)
    some = sides.sample(sides.train, torch.arange(len(sides.train)), 60)
    told = tree_losses(index, some.histories, some.labels, 5)
    assert float(level_loss(index, some.histories, some.labels)) == pytest.approx(
        float(told.levels.mean()), rel=1e-5
    )


def test_leaves_learn_the_same_whatever_the_branches(sides):
    two, eight = (teach_linear(plan(branch=branch), sides)[0] for branch in (2, 8))
    some = sides.sample(sides.test, torch.arange(len(sides.test)), 100)
    losses = [tree_losses(one, some.histories, some.labels, 5).leaves for one in (two, eight)]
    assert torch.allclose(*losses, atol=1e-6)


def test_vectors_keep_to_their_limit(sides):
    index, _ = teach_linear(plan(limit=0.3, steps=20), sides)
    assert norm_report(index.scorer).b0 <= 0.3
    assert norm_report(teach_linear(plan(steps=20), sides)[0].scorer).b0 > 0.3


def test_a_share_is_one_of_users_and_part_of_every_larger_share(sides):
    shares = [set(sides.shown(one).tolist()) for one in (0.05, 0.2, 1.0)]
    assert shares[0] < shares[1] < shares[2]
    assert len(shares[2]) == len(sides.train)
    users = [len(torch.unique(sides.train.starts[sides.shown(one)])) for one in (0.05, 1.0)]
    assert users[0] == round(0.05 * users[1])


def test_a_lesson_is_a_function_of_its_seed(sides):
    one, again = (teach_linear(plan(), sides)[0].scorer.nodes.weight for _ in range(2))
    assert torch.equal(one, again)
