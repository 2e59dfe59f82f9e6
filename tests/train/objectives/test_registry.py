from dataclasses import dataclass

import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.settings import check_settings, setting, settings_of
from shortlist.train.objectives import (
    JOINT_OBJECTIVES,
    OBJECTIVES,
    ObjectiveSettings,
    lambdarank,
    lcron,
    make_joint_objective,
    make_objective,
)
from tests.train.objectives.cases import S2, S, Y, Z, full, list_a, row


@dataclass(frozen=True)
class AnyTrainer(ObjectiveSettings):
    """A trainer that inherits the choice of an objective."""

    objective: str = "lambdarank"
    epochs: int = setting(3, "Epochs.", least=1)


def test_trainer_inherits_the_objective_and_its_parameters_as_settings():
    declared = {one.name: one for one in settings_of(AnyTrainer)}
    assert declared["objective"].default == "lambdarank"
    assert declared["objective"].choices == tuple(OBJECTIVES)
    check_settings({"objective": "margin", "margin": 0.1, "epochs": 2}, tuple(declared.values()), "recipe")
    with pytest.raises(ConfigError, match="gain must be one of exp, linear, got 'log'"):
        check_settings({"gain": "log"}, tuple(declared.values()), "recipe")


def test_objective_has_the_parameters_of_its_settings():
    objective = AnyTrainer(gain="linear", reduction="sum").list_objective()
    assert objective(*list_a()).item() == pytest.approx(0.5058968800, abs=1e-8)
    assert torch.equal(make_objective("lambdarank")(*list_a()), lambdarank(*list_a(), reduction="mean"))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_returns_one_loss_per_list_with_a_gradient(name):
    scores, labels, mask = list_a(torch.float32)
    objective = make_objective(name, relevant_from=3.0)
    losses = objective(scores.expand(3, 6), labels.expand(3, 6), mask.expand(3, 6), torch.ones(3, 6))
    losses.sum().backward()
    assert losses.shape == (3,)
    assert losses.dtype == torch.float32
    assert scores.grad.abs().sum() > 0
    assert all(one.grad is not None for one in objective.parameters())


@pytest.mark.parametrize("name", JOINT_OBJECTIVES)
def test_every_joint_objective_has_a_gradient_for_all_stages(name):
    stages = [row(S).requires_grad_(), row(S2).requires_grad_()]
    losses = make_joint_objective(name, (4, 2), relevant_from=3.0)(stages, row(Z), full(row(S)))
    losses.sum().backward()
    assert all(one.grad.abs().sum() > 0 for one in stages)


def test_joint_objective_learns_one_a_per_stage():
    objective = make_joint_objective("lcron", (4, 2), tau=2.0)
    assert [tuple(one.shape) for one in objective.parameters()] == [(2,)]
    stages = [row(S), row(S2)]
    expected = lcron(stages, row(Y), full(row(S)), caps=(4, 2), tau=2.0)
    assert torch.allclose(objective(stages, row(Y), full(row(S))), expected)


def test_only_objectives_with_learned_weights_have_parameters():
    learned = {name for name in OBJECTIVES if list(make_objective(name).parameters())}
    assert learned == {"arf"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_objective("lambda"), "objective must be one of ranknet"),
        (lambda: make_objective("ranknet", gain="linear"), "'ranknet' does not read gain; it reads sigma"),
        (lambda: make_objective("bpr", sigma=2.0), "'bpr' does not read sigma; it reads no parameters"),
        (lambda: make_objective("bpr", sigmas=2.0), "unknown setting 'sigmas'"),
        (lambda: make_objective("lambdarank", sigma=-1.0), "sigma must lie between"),
        (
            lambda: make_joint_objective("arf", (4,)),
            "joint objective 'arf'; expected one of lcron",
        ),
        (lambda: make_joint_objective("lcron", (4,), sigma=1.0), "'lcron' does not read sigma; it reads tau"),
    ],
)
def test_names_and_parameters_that_do_not_exist_are_refused(call, message):
    with pytest.raises(ConfigError, match=message):
        call()
