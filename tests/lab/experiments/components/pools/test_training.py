from dataclasses import replace

import pytest
import torch

from shortlist.lab.experiments.components.pools.cells import make_cells
from shortlist.lab.experiments.components.pools.data import TEST, TRAIN, VALID, Sizes, documents, simulated
from shortlist.lab.experiments.components.pools.methods import (
    BY_ERROR,
    DISTILLED,
    MOE_ITEM,
    RANDOM,
    SQUARES_ITEM,
    Method,
)
from shortlist.lab.experiments.components.pools.points import Point
from shortlist.lab.experiments.components.pools.runs import METRICS, Run
from shortlist.lab.experiments.components.pools.training import (
    WEIGHT_DECAY,
    CellAdam,
    Kept,
    Schedule,
    Trainer,
)
from shortlist.simulate.labels import Eurlex, LabelTable

POINT = Point(examples=12, width=3, subset=6, nominators=4)
SHORT = Schedule(steps=12, evaluate_every=4, batch=64, rates=(1e-2, 3e-2))


@pytest.fixture(scope="module")
def tables():
    return simulated(replace(Sizes.small(), rows=(60, 20, 25)), 1.0, [0, 1], torch.device("cpu"))


def trained(method, tables, schedule):
    model, parameters = make_cells(method, POINT, tables, len(schedule.rates))
    trainer = Trainer(method, model, tables, tables.examples(POINT.examples), parameters, schedule)
    trainer.run(schedule.steps)
    return trainer


def test_steps_of_a_cell_are_those_of_adam_alone():
    generator = torch.Generator().manual_seed(0)
    start = {
        "items": torch.randn(2, 3, 2, 4, generator=generator),
        "gate.items": torch.randn(2, 3, 2, generator=generator),
    }
    cells = {name: one.clone().requires_grad_(True) for name, one in start.items()}
    ours = CellAdam(cells, (1e-2, 5e-2), gate_rate=0.5)
    own = {name: one[1, :, 1].clone().requires_grad_(True) for name, one in start.items()}
    theirs = torch.optim.AdamW(
        [
            {"params": [own["items"]], "lr": 5e-2, "weight_decay": WEIGHT_DECAY},
            {"params": [own["gate.items"]], "lr": 2.5e-2, "weight_decay": 0.0},
        ]
    )
    for _ in range(5):
        ours.step(sum((one - 0.3).square().sum() for one in cells.values()))
        theirs.zero_grad()
        sum((one - 0.3).square().sum() for one in own.values()).backward()
        theirs.step()
    for name, one in own.items():
        assert torch.allclose(cells[name][1, :, 1], one, atol=1e-6)


def test_a_learning_rate_does_not_change_the_cells_of_another(tables):
    both = trained(MOE_ITEM, tables, SHORT)
    one = trained(MOE_ITEM, tables, replace(SHORT, rates=(3e-2,)))
    for name, values in one.parameters.items():
        assert torch.allclose(both.parameters[name][:, :, 1], values[:, :, 0], atol=1e-4)
    assert torch.allclose(both.kept.quality[:, 1], one.kept.quality[:, 0], atol=0.03)


def test_training_lowers_the_loss_and_leaves_features_that_are_not_read_alone(tables):
    trainer = trained(SQUARES_ITEM, tables, replace(SHORT, steps=80))
    x, rewards = tables.drawn(trainer.rows, torch.arange(2)[:, None, None])
    before = make_cells(SQUARES_ITEM, POINT, tables, 2)[1]
    model = trainer.model
    errors = []
    for parameters in (before, trainer.parameters):
        scores = model.predictions(parameters, x) * model.item_weights(parameters)[:, :, None]
        errors.append((rewards[..., None] - scores.sum(-1)).square().mean((1, 2)))
    assert bool((errors[1] < 0.9 * errors[0]).all())
    unread = (trainer.parameters["weight"] - before["weight"]) * (1 - model.mask)
    assert not unread.any()


def test_each_cell_keeps_its_best_values():
    parameters = {"constant": torch.zeros(1, 1, 2, 1, 1)}
    kept = Kept.of(parameters)
    for step, (quality, value) in enumerate(
        [((0.2, 0.5), 1.0), ((0.4, 0.1), 2.0), ((0.3, 0.4), 3.0)], start=1
    ):
        parameters = {"constant": torch.full((1, 1, 2, 1, 1), value)}
        kept.add(parameters, torch.tensor([quality]), step)
    assert kept.parameters["constant"].flatten().tolist() == [2.0, 1.0]
    assert kept.step.tolist() == [[2, 1]]
    assert torch.allclose(kept.quality, torch.tensor([[0.4, 0.5]]))


def test_training_stops_when_no_cell_has_improved_for_long(tables):
    trainer = trained(RANDOM, tables, replace(SHORT, steps=4000, rates=(1e-9,), patience=2))
    assert trainer.done <= 4 * 4


def test_every_example_is_used_once_in_an_order(tables):
    model, parameters = make_cells(RANDOM, POINT, tables, 1)
    rows = tables.examples(POINT.examples)
    trainer = Trainer(RANDOM, model, tables, rows, parameters, replace(SHORT, batch=64))
    columns = trainer._all_columns(7)
    assert columns.shape == (7, 4)  # 64 examples of 16 items
    assert sorted(columns[:3].flatten().tolist()) == list(range(12))
    assert sorted(columns[3:6].flatten().tolist()) == list(range(12))


@pytest.mark.parametrize("method", [DISTILLED, BY_ERROR], ids=lambda one: one.name)
def test_distilled_systems_have_hard_pools_and_as_many_steps(method, tables):
    tuned, before = Run(method, POINT, tables, replace(SHORT, steps=20)).outcomes()
    assert [one.name for one in (tuned, before)] == [method.name, f"{method.name}, before fine-tuning"]
    assert tuned.values.shape == (2, len(METRICS))
    assert all(one["last"] <= 20 for one in tuned.facts)
    assert all(one["step"] <= 16 for one in before.facts)
    assert all(one["step"] >= 16 for one in tuned.facts)


def test_fine_tuning_that_does_not_help_is_not_kept(tables):
    model, parameters = make_cells(RANDOM, POINT, tables, 1)
    start = {name: one.clone() for name, one in parameters.items()}
    rows = tables.examples(POINT.examples)
    trainer = Trainer(RANDOM, model, tables, rows, parameters, replace(SHORT, rates=(0.0,)), done=8)
    trainer.run(8)
    assert bool((trainer.kept.step == 8).all())
    assert torch.equal(trainer.kept.parameters["weight"], start["weight"])


def test_pools_by_error_find_the_experts_that_read_the_right_features():
    """Every label depends on one feature, and each expert reads one."""
    generator = torch.Generator().manual_seed(0)
    parts = []
    for rows in (800, 200, 200):
        x = torch.randn(rows, 4, generator=generator)
        parts.append(LabelTable(x, (x > 0.6).repeat(1, 2)))
    tables = documents(Eurlex(parts[0], parts[2]), [0], torch.device("cpu"))
    point = Point(examples=400, width=2, subset=1, nominators=4, blocks=True)
    schedule = Schedule(steps=150, evaluate_every=30, batch=400, rates=(3e-2,))
    own = METRICS.index("gate on own block")
    found = {one.name: one.values[0] for one in Run(BY_ERROR, point, tables, schedule).outcomes()}
    random = Run(RANDOM, point, tables, schedule).outcomes()[0].values[0]
    assert found[BY_ERROR.name][own] == 1.0
    assert random[own] < 1.0
    assert found[BY_ERROR.name][0] > random[0]


def test_slow_gates_move_less(tables):
    moves = []
    for rate in (1.0, 0.1):
        method = Method("x", "item", "likelihood", gate_rate=rate)
        start = make_cells(method, POINT, tables, 2)[1]["gate.items"]
        moves.append((trained(method, tables, SHORT).parameters["gate.items"] - start).abs().mean().item())
    assert moves[1] < 0.2 * moves[0]


def test_documents_have_other_validation_rows_for_each_seed_and_the_same_test():
    generator = torch.Generator().manual_seed(0)
    train, test = (
        LabelTable(torch.randn(rows, 3, generator=generator), torch.ones(rows, 2, dtype=torch.bool))
        for rows in (40, 9)
    )
    tables = documents(Eurlex(train, test), [0, 1], torch.device("cpu"))
    assert [len(one[0]) for one in tables.features] == [35, 5, 9]
    assert torch.equal(tables.features[TEST][0], tables.features[TEST][1])
    assert not torch.equal(tables.features[VALID][0], tables.features[VALID][1])
    both = torch.cat([tables.features[TRAIN][0], tables.features[VALID][0]])
    assert torch.equal(both.sort(0).values, train.features.sort(0).values)
    assert torch.equal(tables.examples(9)[:, :, :4], tables.examples(4))
