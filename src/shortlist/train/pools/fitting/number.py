"""How many nominators a mixture has: chosen on validation examples, and pruned to those that are used."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shortlist.errors import ConfigError, DataError
from shortlist.models.mixture import PoolMixture, TwoTowerExperts
from shortlist.progress import Progress, silent
from shortlist.train.pools.fitting.fit_sgd import PoolFit, fit_sgd, parts_of
from shortlist.train.pools.fitting.settings import PoolTraining
from shortlist.train.pools.fitting.triples import Triples

NUMBERS = (1, 2, 5, 10, 20)
LEAST_USED = 0.2  # of an equal share


@dataclass(frozen=True, eq=False)
class NumberFit:
    """Mixtures with different numbers of nominators."""

    fits: Mapping[int, PoolFit]
    likelihood: Mapping[int, float]  # mean log-likelihood of validation examples, by number

    @property
    def number(self) -> int:
        """The number with the highest likelihood, the smaller one of equals."""
        return max(sorted(self.likelihood), key=lambda number: self.likelihood[number])

    @property
    def best(self) -> PoolFit:
        """The mixture with that number."""
        return self.fits[self.number]


def fit_number(
    make: Callable[[int], PoolMixture],
    triples: Triples,
    valid: Triples,
    training: PoolTraining | None = None,
    numbers: Sequence[int] = NUMBERS,
    progress: Progress = silent,
) -> NumberFit:
    """Train a mixture of each number of nominators, with the same settings.

    They are compared by the likelihood of the mixture, whatever the objective is: averaged responsibilities of another
    number of nominators are not on its scale. `make` must give all of them the same fixed sigma.
    """
    if not numbers:
        raise ConfigError("pools: expected at least one number of nominators, got none")
    fits = {number: fit_sgd(make(number), triples, valid, training, progress) for number in numbers}
    sigmas = {float(one.model.sigma.max()) for one in fits.values()}
    if len(sigmas) > 1 or any(one.model.learn_sigma for one in fits.values()):
        raise ConfigError("pools: likelihoods compare only under one fixed sigma; give all mixtures the same")
    return NumberFit(fits, {number: mean_likelihood(one.model, valid) for number, one in fits.items()})


@torch.no_grad()
def mean_likelihood(model: PoolMixture, triples: Triples) -> float:
    """The mean log-likelihood of the rewards of examples, by their weights."""
    total, weight = 0.0, 0.0
    for part in parts_of(triples):
        own = model.log_likelihood(part.contexts, part.items, part.rewards)
        count = float(len(own) if part.weights is None else part.weights.sum())
        total += float(part.mean(own)) * count
        weight += count
    return total / weight


@torch.no_grad()
def mean_responsibilities(model: PoolMixture, triples: Triples) -> Tensor:
    """The mean responsibility of every nominator for examples [N], by their weights."""
    total = model.log_sigma.new_zeros(model.n_experts, dtype=torch.float64)
    for part in parts_of(triples):
        own = model.responsibilities(part.contexts, part.items, part.rewards).double()
        total += (own if part.weights is None else own * part.weights[:, None]).sum(0)
    return total / total.sum()


def prune(model: PoolMixture, triples: Triples, least: float = LEAST_USED) -> PoolMixture:
    """A mixture without the nominators whose mean responsibility is below `least` of an equal share, 1 / N.

    The weights of the others add up to 1 again. The given mixture stays as it is, and is returned if all are used.
    """
    if not 0 <= least <= 1:
        raise ConfigError(f"pools: expected a least share from 0 to 1 to prune by, got {least}")
    if not len(triples):
        raise DataError("pools: pruning needs examples, got none")
    kept = (mean_responsibilities(model, triples) >= least / model.n_experts).nonzero()[:, 0]
    if len(kept) == model.n_experts:
        return model
    if not isinstance(model.experts, TwoTowerExperts):
        raise ConfigError(
            f"pools: only two-tower experts can be pruned, got {type(model.experts).__name__}; leave frozen ones out "
            "where they are joined"
        )
    made = copy.deepcopy(model)
    made.experts, made.gate = model.experts.kept(kept), model.gate.kept(kept)
    if len(model.log_sigma) > 1:
        own = model.log_sigma.detach()[kept]
        made.log_sigma = nn.Parameter(own) if model.learn_sigma else own
    return made
