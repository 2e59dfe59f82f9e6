"""Trainings of the tiny world."""

from dataclasses import replace

import pytest
import torch

from shortlist.lab.experiments.full_stage.arms import PRERANK, PRERANK_ARMS, RETRIEVAL, RETRIEVAL_ARMS
from shortlist.lab.experiments.full_stage.sizes import Budget
from shortlist.lab.experiments.full_stage.train_arm import train_arm

BUDGET = Budget(epochs=10, every=5, batch_size=64, temperatures=(0.1, 0.2), rates=(1e-2,), width=16)
ARMS = {
    RETRIEVAL: {arm.name: arm for arm in RETRIEVAL_ARMS},
    PRERANK: {arm.name: arm for arm in PRERANK_ARMS},
}


@pytest.mark.parametrize("name", ["BPR", "SSM"])
def test_retrieval_learns_more_than_a_random_order(stages, name) -> None:
    data = stages[RETRIEVAL]
    best = train_arm(ARMS[RETRIEVAL][name], data, BUDGET, 0)
    assert data.measured(best.scores)["precision@50"] > 1.2 * data.random()["precision@50"]


@pytest.mark.parametrize("name", ["FS-LR", "BCE, stage negatives"])
def test_pre_ranking_learns_more_than_a_random_order(stages, name) -> None:
    data = stages[PRERANK]
    best = train_arm(ARMS[PRERANK][name], data, BUDGET, 0)
    assert data.measured(best.scores)["precision@50"] > 1.2 * data.random()["precision@50"]


@pytest.mark.parametrize("name", ["SSM", "ARF", "LCRON", "RankFlow 0.5", "ICC"])
def test_a_stack_trains_every_temperature_as_if_it_were_alone(stages, name) -> None:
    data, arm = stages[RETRIEVAL], ARMS[RETRIEVAL][name]
    short = replace(BUDGET, epochs=2, every=2)
    together = train_arm(arm, data, short, 0).values
    for temperature in BUDGET.temperatures:
        alone = train_arm(arm, data, replace(short, temperatures=(temperature,)), 0).values
        for key, rates in alone.items():
            assert together[key] == pytest.approx(rates, abs=2e-3)


def test_all_arms_take_the_same_steps(stages) -> None:
    short = replace(BUDGET, epochs=1)
    steps = {
        train_arm(ARMS[RETRIEVAL][name], stages[RETRIEVAL], short, 0).steps
        for name in ("BPR", "FS-LR", "LCRON")
    }
    assert len(steps) == 1


def test_the_kept_model_is_the_best_of_all_settings_on_validation(stages) -> None:
    data = stages[RETRIEVAL]
    best = train_arm(ARMS[RETRIEVAL]["FS-RN"], data, BUDGET, 0)
    highest = max(value for rates in best.values.values() for value in rates.values())
    assert best.value == highest == pytest.approx(data.precision(best.scores))
    assert best.values[f"{best.temperature:g}"][f"{best.rate:g}"] == highest
    assert torch.isfinite(best.scores).all()


def test_an_arm_stops_when_validation_has_not_improved(stages) -> None:
    data, budget = stages[RETRIEVAL], replace(BUDGET, epochs=60, every=1, patience=2)
    best = train_arm(ARMS[RETRIEVAL]["SSM"], data, budget, 0)
    one_epoch = train_arm(ARMS[RETRIEVAL]["SSM"], data, replace(budget, epochs=1), 0).steps
    assert best.steps == one_epoch * (best.epoch + 2)
    assert best.steps < 60 * one_epoch
