"""Training of experts on pools that were taken from a gate; the gate is dropped."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.models.mixture import Gate, PoolMixture
from shortlist.nominate.pools import Pools
from shortlist.progress import Progress, silent
from shortlist.train.loop.checkpoint import LoopState
from shortlist.train.loop.loop import Loop
from shortlist.train.pools.fitting.fit_sgd import batches_of, optimizer_of, parts_of
from shortlist.train.pools.fitting.objective import Batch
from shortlist.train.pools.fitting.settings import PoolTraining
from shortlist.train.pools.fitting.triples import Triples
from shortlist.train.pools.weights import Nominations, WeightRule

SHARE = 0.25  # of the epochs of the training before
RULES = ("all", "own_pool", "mix", "gate")


@dataclass(frozen=True, eq=False)
class FineTuned:
    """A mixture with hard pools, and the validation loss after every epoch."""

    model: PoolMixture
    validation: tuple[
        float, ...
    ]  # minus the weighted loss, larger is better; empty without validation examples
    epochs: int
    steps: int


def with_pools(model: PoolMixture, pools: Pools) -> PoolMixture:
    """A copy with hard pools and no gate; an item of several pools counts equally for each of them."""
    expected = (model.n_experts, model.n_items)
    if pools.matrix.shape != expected:
        raise ConfigError(
            f"pools: the mixture has (nominators, items) {expected}, the pools {pools.matrix.shape}"
        )
    members = torch.from_numpy(pools.matrix.T.copy()).to(model.log_sigma.device)
    made = copy.deepcopy(model)
    made.gate = Gate("uniform", *expected, pools=members).to(model.log_sigma)
    return made


def finetune(
    model: PoolMixture,
    pools: Pools,
    rule: WeightRule | str,
    triples: Triples,
    valid: Triples | None = None,
    training: PoolTraining | None = None,
    *,
    share: float = SHARE,
    progress: Progress = silent,
) -> FineTuned:
    """Train the experts on pools for a share of the epochs of `training`; the given mixture stays as it is.

    The loss is that of every expert on every example, weighted by the rule. `own_pool` trains an expert on the items of
    its pool; `gate` on the same items, as much as the gate's weight of the expert without looking at the reward.
    """
    rule = WeightRule.parse(rule) if isinstance(rule, str) else rule
    if rule.kind not in RULES:
        raise ConfigError(
            f"finetune: expected the rule {', '.join(RULES)}, got {rule.kind!r}; pools have no log"
        )
    training = training or PoolTraining()
    epochs = max(1, round(share * training.epochs))
    teacher = copy.deepcopy(model).to(triples.device)
    made = with_pools(teacher, pools)

    def loss_of(batch: Batch) -> Tensor:
        return weighted_loss(made, batch, _weights(rule, teacher, made.gate.pools, batch))

    batches, steps = batches_of(triples, training.batch_size, training.seed + 1, loss_of)
    torch.manual_seed(training.seed)
    state = Loop(epochs, training.learning_rate, 0.0, training.patience).train(
        LoopState(made, optimizer_of(made, training)),
        batches,
        steps,
        "pools",
        progress,
        None if valid is None else lambda: _mean(loss_of, valid),
    )
    return FineTuned(made, tuple(state.validation), state.epoch, state.epoch * steps)


def weighted_loss(model: PoolMixture, batch: Batch, weights: Tensor) -> Tensor:
    """Minus the log density of every expert [B, N], by weights [B, N]; the mean over examples."""
    losses = -model.log_density(model.experts(batch.contexts, batch.items), batch.rewards)
    return batch.mean((weights * losses).sum(-1))


@torch.no_grad()
def _weights(rule: WeightRule, teacher: PoolMixture, pools: Tensor, batch: Batch) -> Tensor:
    in_pool = pools[batch.items]
    known = Nominations(in_pool, in_pool)
    if rule.kind == "gate":
        inside = teacher.gate(batch.contexts, batch.items).exp() * in_pool
        known = replace(known, responsibility=inside)
    return rule.weights(known)


@torch.no_grad()
def _mean(loss_of: Callable[[Batch], Tensor], valid: Triples) -> float:
    """Minus the loss of all examples."""
    total, weight = 0.0, 0.0
    for part in parts_of(valid):
        own = float(len(part.items) if part.weights is None else part.weights.sum())
        total += float(loss_of(part)) * own
        weight += own
    return -total / weight
