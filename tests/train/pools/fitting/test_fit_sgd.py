"""Gradient training of mixtures: it learns, keeps the best, and leaves its input as it is."""

import pytest
import torch

from shortlist.errors import ConfigError, DataError
from shortlist.models.mixture import FrozenTable, Gate, PoolMixture
from shortlist.train.pools import PoolTraining, Triples, fit_sgd
from shortlist.train.pools.fitting.objective import Batch, Objective
from tests.train.pools.worlds import A, N, mixture, outcomes

QUICK = PoolTraining(epochs=12, batch_size=120, learning_rate=0.02, restarts=1)


def squares(model: PoolMixture, triples: Triples) -> float:
    mean = model.mixture_mean(triples.contexts[triples.rows], triples.items)
    return ((mean - triples.rewards) ** 2).mean().item()


@pytest.mark.parametrize("outcome", ["gaussian", "bernoulli"])
@pytest.mark.parametrize("objective", ["likelihood", "item-likelihood", "mean-squares"])
def test_every_objective_predicts_better_than_the_mean_outcome(objective: str, outcome: str) -> None:
    training, valid = outcomes(100), outcomes(40, seed=1)
    settings = PoolTraining(objective=objective, epochs=12, batch_size=120, learning_rate=0.02, restarts=1)
    fit = fit_sgd(mixture("user_item", outcome=outcome), training, valid, settings)
    assert squares(fit.model, valid) < 0.9 * valid.rewards.var().item()
    assert len(fit.load) == fit.epochs == len(fit.validation)
    assert all(1 <= one <= N + 1e-4 for one in fit.effective_experts)
    assert fit.model.widening.item() == 1


def test_the_given_mixture_is_not_changed_and_the_same_seed_gives_the_same_fit() -> None:
    model, triples = mixture(), outcomes(20)
    before = {name: one.clone() for name, one in model.state_dict().items()}
    few = PoolTraining(epochs=2, batch_size=120, restarts=1)
    one, other = fit_sgd(model, triples, training=few), fit_sgd(model, triples, training=few)
    assert all(torch.equal(before[name], now) for name, now in model.state_dict().items())
    assert all(
        torch.equal(a, b) for a, b in zip(one.model.parameters(), other.model.parameters(), strict=True)
    )
    assert one.steps == 2 * (len(triples) // 120)
    assert one.validation == ()


def test_the_best_restart_is_kept() -> None:
    triples, valid = outcomes(20), outcomes(10, seed=1)
    fits = fit_sgd(mixture(), triples, valid, PoolTraining(epochs=3, batch_size=60, restarts=3))
    alone = fit_sgd(mixture(), triples, valid, PoolTraining(epochs=3, batch_size=60, restarts=1))
    assert fits.value >= alone.value
    assert fits.value == max(fits.validation)


def test_a_gate_rate_of_0_leaves_the_gate_as_it_is() -> None:
    model = mixture()
    slow = PoolTraining(epochs=2, batch_size=120, gate_rate=0.0, restarts=1)
    fit = fit_sgd(model, outcomes(20), training=slow)
    assert torch.equal(fit.model.gate.items, model.gate.items)
    assert not torch.equal(fit.model.experts.items, model.experts.items)  # type: ignore[arg-type]


def test_item_responsibilities_are_the_same_for_all_outcomes_of_an_item() -> None:
    model = mixture()
    objective = Objective(model, PoolTraining(objective="item-likelihood", item_memory=0.0))
    triples = outcomes(10)
    batch = Batch(triples.contexts, triples.items, triples.rewards)
    objective.loss(batch)
    own = model.responsibilities(batch.contexts, batch.items, batch.rewards)
    expected = torch.stack([own[batch.items == item].mean(0) for item in range(A)])
    assert torch.allclose(objective.of_items, expected, atol=1e-6)


def test_item_responsibilities_with_pools_have_finite_gradients() -> None:
    pools = torch.nn.functional.one_hot(torch.arange(A) % N, N).bool()
    model = PoolMixture(mixture().experts, Gate("item", N, A, pools=pools))
    objective = Objective(model, PoolTraining(objective="item-likelihood"))
    triples = outcomes(5)
    objective.loss(Batch(triples.contexts, triples.items, triples.rewards)).backward()  # type: ignore[no-untyped-call]
    assert all(bool(one.grad.isfinite().all()) for one in model.parameters() if one.grad is not None)


def test_weight_2_counts_as_two_examples() -> None:
    triples = outcomes(4)
    half = len(triples) // 2
    doubled = torch.ones(len(triples))
    doubled[:half] = 2
    weighted = Triples(triples.contexts, triples.rows, triples.items, triples.rewards, doubled)
    repeated = triples.take(torch.cat([torch.arange(half), torch.arange(len(triples))]))
    values = []
    for one in (weighted, repeated):
        batch = Batch(one.contexts[one.rows], one.items, one.rewards, one.weights)
        values.append(Objective(mixture(), PoolTraining()).value(batch).item())
    assert values[0] == pytest.approx(values[1], abs=1e-5)


def test_entropy_and_widening_are_gone_at_the_end() -> None:
    settings = PoolTraining(epochs=3, batch_size=60, entropy=0.1, widening=4.0, restarts=1)
    assert fit_sgd(mixture(), outcomes(20), outcomes(5, seed=1), settings).model.widening.item() == 1


def test_training_that_cannot_begin_is_refused() -> None:
    frozen = PoolMixture(FrozenTable(torch.zeros(A, N)), Gate("uniform", N, A))
    with pytest.raises(ConfigError, match="nothing to train"):
        fit_sgd(frozen, outcomes(5), training=QUICK)
    with pytest.raises(DataError, match="at least one training example"):
        fit_sgd(mixture(), outcomes(5).take(torch.zeros(0, dtype=torch.int64)), training=QUICK)
    with pytest.raises(ConfigError, match="objective must be one of likelihood"):
        PoolTraining(objective="loss")
