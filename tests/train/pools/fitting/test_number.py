"""The number of nominators of a mixture: chosen by likelihood, pruned where they are not used."""

from dataclasses import replace

import pytest
import torch

from shortlist.errors import ConfigError, DataError
from shortlist.models.mixture import FrozenTable, Gate, PoolMixture, TwoTowerExperts, feature_subsets
from shortlist.models.mixture.gate import KINDS
from shortlist.models.mixture.stored import packed_mixture, unpacked_mixture
from shortlist.train.pools import PoolTraining, fit_number, pools_from_gate, prune, with_pools
from shortlist.train.pools.fitting.number import mean_likelihood, mean_responsibilities
from tests.train.pools.worlds import A, D, N, mixture, outcomes

QUICK = PoolTraining(epochs=4, batch_size=120, learning_rate=0.02, restarts=1)


def unused(kind: str = "item", **settings: object) -> PoolMixture:
    """A mixture whose second nominator has almost no weight anywhere."""
    features = torch.rand(A, 5, generator=torch.Generator().manual_seed(1)) if kind == "features" else None
    torch.manual_seed(0)
    experts = TwoTowerExperts(feature_subsets(D, N, 4, seed=0), A, 4)
    made = PoolMixture(experts, Gate(kind, N, A, D, item_features=features), **settings)  # type: ignore[arg-type]
    made.gate.bias[1] = -20.0
    if hasattr(made.gate, "items"):
        made.gate.items.data[:, 1] -= 20.0
    if kind == "features":
        made.gate.outer.bias.data[1] -= 20.0
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_an_unused_nominator_is_pruned_and_the_others_predict_as_before(kind: str) -> None:
    model, triples = unused(kind), outcomes(20)
    pruned = prune(model, triples)
    assert pruned.n_experts == pruned.gate.n_experts == N - 1
    assert model.n_experts == N
    x = triples.contexts[:50]
    torch.testing.assert_close(pruned.mixture_scores(x), model.mixture_scores(x), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(pruned.gate.all(x).exp().sum(-1), torch.ones(50, A))


def test_shared_items_and_a_sigma_of_each_nominator_are_pruned_too() -> None:
    torch.manual_seed(0)
    experts = TwoTowerExperts(feature_subsets(D, N, 4, seed=0), A, 4, shared_items=True)
    model = PoolMixture(experts, Gate("item", N, A), torch.tensor([0.2, 0.3, 0.4]), learn_sigma=True)
    model.gate.items.data[:, 0] -= 30.0
    pruned = prune(model, outcomes(20))
    torch.testing.assert_close(pruned.sigma, torch.tensor([0.3, 0.4]))
    assert isinstance(pruned.log_sigma, torch.nn.Parameter)
    stored = unpacked_mixture(packed_mixture(pruned))
    x = outcomes(2).contexts
    torch.testing.assert_close(stored.mixture_scores(x), pruned.mixture_scores(x))


def test_a_mixture_that_uses_all_nominators_is_returned_as_it_is() -> None:
    model = mixture()
    assert prune(model, outcomes(20)) is model
    assert prune(unused(), outcomes(20), least=0.0).n_experts == N


def test_responsibilities_follow_the_weights_of_examples() -> None:
    model, triples = mixture(), outcomes(20)
    shares = mean_responsibilities(model, triples)
    torch.testing.assert_close(shares.sum(), torch.tensor(1.0, dtype=torch.float64))
    first = replace(triples, weights=(triples.items == 0).float())
    alone = triples.take(triples.items == 0)
    torch.testing.assert_close(mean_responsibilities(model, first), mean_responsibilities(model, alone))
    assert mean_likelihood(model, first) == pytest.approx(mean_likelihood(model, alone), rel=1e-5)


def test_the_number_with_the_highest_validation_likelihood_is_chosen() -> None:
    triples, valid = outcomes(60), outcomes(30, seed=1)

    def make(number: int) -> PoolMixture:
        torch.manual_seed(0)
        experts = TwoTowerExperts(feature_subsets(D, number, 3, seed=0), A, 4)
        return PoolMixture(experts, Gate("item", number, A))

    found = fit_number(make, triples, valid, QUICK, numbers=(4, 1, 2))
    assert set(found.fits) == set(found.likelihood) == {1, 2, 4}
    best = max(found.likelihood.values())
    assert found.likelihood[found.number] == best
    assert found.best.model.n_experts == found.number
    assert mean_likelihood(found.best.model, valid) == pytest.approx(best)


def test_likelihoods_under_other_sigmas_are_not_compared() -> None:
    def make(number: int) -> PoolMixture:
        experts = TwoTowerExperts(feature_subsets(D, number, 3, seed=0), A, 4)
        return PoolMixture(experts, Gate("item", number, A), 0.1 * number)

    with pytest.raises(ConfigError, match="one fixed sigma"):
        fit_number(make, outcomes(10), outcomes(5), QUICK, numbers=(1, 2))
    with pytest.raises(ConfigError, match="at least one number"):
        fit_number(make, outcomes(10), outcomes(5), QUICK, numbers=())


def test_what_cannot_be_pruned_is_refused() -> None:
    triples = outcomes(10)
    table = PoolMixture(FrozenTable(torch.rand(A, N)), unused().gate)
    with pytest.raises(ConfigError, match="only two-tower experts"):
        prune(table, triples)
    with pytest.raises(ConfigError, match="from 0 to 1"):
        prune(mixture(), triples, least=2.0)
    with pytest.raises(DataError, match="got none"):
        prune(mixture(), triples.take(torch.zeros(len(triples), dtype=torch.bool)))
    pools = pools_from_gate(torch.rand(N, A))
    one = triples.take(torch.from_numpy(pools.matrix[0])[triples.items])
    with pytest.raises(ConfigError, match="prune before pools"):
        prune(with_pools(mixture(), pools), one)
