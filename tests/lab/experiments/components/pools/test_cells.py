from dataclasses import replace

import pytest
import torch

from shortlist.lab.experiments.components.pools.cells import make_cells
from shortlist.lab.experiments.components.pools.data import TEST, Sizes, simulated
from shortlist.lab.experiments.components.pools.methods import (
    BERNOULLI,
    ENSEMBLE,
    FULL,
    ITEM,
    ITEM_LIKELIHOOD,
    LIKELIHOOD,
    MEAN_SQUARES,
    MOE_ITEM,
    RANDOM,
    SHARED,
    SINGLE,
    USER_ITEM,
    Method,
)
from shortlist.lab.experiments.components.pools.objective import CellObjective, balance, effective
from shortlist.lab.experiments.components.pools.points import Point
from shortlist.lab.experiments.components.pools.scoring import mean_quality, nominated, references
from shortlist.models.mixture import (
    Gate,
    PoolMixture,
    TwoTowerExperts,
    balance_loss,
    effective_experts,
    nominate,
)
from shortlist.simulate.labels import slate_quality
from shortlist.train.pools import PoolTraining
from shortlist.train.pools.fitting.objective import Batch, Objective

POINT = Point(examples=12, width=3, subset=6, nominators=4)
RATES, SEED, RATE = 2, 1, 1


@pytest.fixture(scope="module")
def tables():
    return simulated(replace(Sizes.small(), rows=(60, 20, 25)), 1.0, [0, 1], torch.device("cpu"))


def made(method, tables):
    """Cells with values that differ between all of them."""
    model, parameters = make_cells(method, POINT, tables, RATES)
    generator = torch.Generator().manual_seed(3)
    moved = {
        name: one + 0.3 * torch.randn(one.shape, generator=generator) for name, one in parameters.items()
    }
    return model, moved


def alone(method, model, parameters, tables):
    """The mixture of one cell."""
    mask = model.mask[SEED, :, 0, :, 0].bool()
    n_experts, width = parameters["weight"].shape[3:]
    experts = TwoTowerExperts(mask, tables.arms, width, shared_items=method.shared_items)
    pools = None
    if model.weights is not None:
        pools = model.weights[SEED, :, 0] > 0
    kind = "uniform" if model.weights is not None else method.gate
    gate = Gate(kind, n_experts, tables.arms, tables.width, pools=pools)
    own = {name: one[SEED, :, RATE] for name, one in parameters.items()}
    experts.load_state_dict(
        {"features": mask, "weight": own["weight"], "constant": own["constant"][0], "items": own["items"]}
    )
    state = gate.state_dict() | {
        name.removeprefix("gate."): one for name, one in own.items() if name.startswith("gate.")
    }
    gate.load_state_dict(state)
    outcome = "bernoulli" if method.objective == BERNOULLI else "gaussian"
    return PoolMixture(experts, gate, method.sigma * tables.deviation, outcome=outcome)


def batch_of(tables):
    rows = tables.examples(POINT.examples)[:, :, :5]
    x, rewards = tables.drawn(rows, torch.arange(2)[:, None, None])
    items = torch.arange(tables.arms)[:, None].expand(-1, 5)
    return x, rewards, Batch(x[SEED].flatten(0, 1), items.flatten(), rewards[SEED].flatten())


TRAINED = [
    Method(f"{gate} {objective}", gate, objective, sigma=0.7)
    for gate in (ITEM, USER_ITEM)
    for objective in (LIKELIHOOD, ITEM_LIKELIHOOD, MEAN_SQUARES, BERNOULLI)
]


@pytest.mark.parametrize(
    "method", [*TRAINED, SHARED, RANDOM, ENSEMBLE, SINGLE, FULL], ids=lambda one: one.name
)
def test_loss_and_gradient_of_a_cell_are_those_of_the_mixture_alone(method, tables):
    model, parameters = made(method, tables)
    mixture = alone(method, model, parameters, tables)
    x, rewards, batch = batch_of(tables)
    for one in parameters.values():
        one.requires_grad_(True)
    loss = CellObjective.of(method, model, tables.deviation, parameters).loss(parameters, x, rewards)
    objective = "likelihood" if method.objective == BERNOULLI else method.objective
    training = PoolTraining(objective=objective, balance=0.0)
    expected = Objective(mixture, training).loss(batch)
    assert loss.shape == (2, RATES)
    assert loss[SEED, RATE].item() == pytest.approx(expected.item(), rel=1e-4)
    expected.backward()
    loss.sum().backward()
    assert torch.allclose(parameters["items"].grad[SEED, :, RATE], mixture.experts.items.grad, atol=1e-5)
    assert torch.allclose(parameters["weight"].grad[SEED, :, RATE], mixture.experts.weight.grad, atol=1e-5)
    if "gate.items" in parameters:
        assert torch.allclose(
            parameters["gate.items"].grad[SEED, :, RATE], mixture.gate.items.grad, atol=1e-5
        )


@pytest.mark.parametrize("method", [*TRAINED, SHARED, RANDOM, ENSEMBLE], ids=lambda one: one.name)
def test_lists_of_a_cell_are_those_of_the_mixture_alone(method, tables):
    model, parameters = made(method, tables)
    mixture = alone(method, model, parameters, tables)
    contexts = tables.features[TEST]
    scores = model.mixture(parameters, contexts)[SEED, :, RATE]
    assert torch.allclose(scores, mixture.mixture_scores(contexts[SEED]), atol=1e-5)
    gate, outcomes = model.every(parameters, contexts)
    assert torch.allclose((gate * outcomes).sum(-1)[SEED, :, RATE], scores, atol=1e-5)
    _, values = nominate(mixture, contexts[SEED], 2, "nominate", limit=5)
    own = nominated(model, parameters, contexts, 2)[SEED, :, RATE]
    best = own.topk(values.shape[1])
    assert torch.allclose(best.values, values, atol=1e-5)
    precision, recall = mean_quality(model, parameters, tables, TEST, 5)
    found = slate_quality(mixture.mixture_scores(contexts[SEED]), tables.labels[TEST][SEED])
    assert precision[SEED, RATE].item() == pytest.approx(found.precision.mean().item())
    assert recall[SEED, RATE].item() == pytest.approx(found.recall.mean().item())


def test_cells_begin_equal_for_all_rates_and_with_what_their_experts_read(tables):
    model, parameters = make_cells(MOE_ITEM, POINT, tables, RATES)
    for one in parameters.values():
        assert torch.equal(one[:, :, 0], one[:, :, 1])
        assert not torch.equal(one[0], one[1])
    assert model.mask.sum((1, 2, 4)).tolist() == [[6.0] * 4] * 2
    single, wide = make_cells(SINGLE, POINT, tables, RATES)
    assert (single.n_experts, wide["items"].shape[-1]) == (1, 12)
    assert torch.equal(single.mask[..., 0, :], model.mask[..., 0, :])
    full, _ = make_cells(FULL, POINT, tables, RATES)
    assert bool((full.mask == 1).all())


def test_experts_that_read_blocks_share_out_the_features(tables):
    model, _ = make_cells(MOE_ITEM, replace(POINT, blocks=True), tables, 1)
    assert bool((model.mask.sum(3) == 1).all())
    assert model.mask[0, :5, 0, 0, 0].tolist() == [1.0] * 5


def test_balance_and_effective_experts_are_those_of_one_mixture():
    log_p = torch.randn(2, 5, 3, 2, 4, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    assert balance(log_p)[1, 0].item() == pytest.approx(balance_loss(log_p[1, :, :, 0].flatten(0, 1)).item())
    weights = log_p[:, :, 0].exp()
    assert effective(weights)[1, 0].item() == pytest.approx(
        effective_experts(weights[1, :, 0].mean(0)).item()
    )


def test_references_are_ordered(tables):
    found = references(tables)
    popular, best, ceiling = (
        found[name].mean(0) for name in ("popularity", "best by all features", "ceiling")
    )
    assert bool((popular < best).all())
    assert bool((best < ceiling).all())
