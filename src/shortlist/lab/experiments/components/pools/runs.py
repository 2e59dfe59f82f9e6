"""Training and measurement of one system at one point, for all seeds."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from shortlist.lab.experiments.components.pools.cells import CellModel, Parameters, make_cells
from shortlist.lab.experiments.components.pools.data import TEST, SeedTables
from shortlist.lab.experiments.components.pools.methods import AT_RANDOM, ERROR, POOLS, Method
from shortlist.lab.experiments.components.pools.objective import effective
from shortlist.lab.experiments.components.pools.points import Point
from shortlist.lab.experiments.components.pools.scoring import mean_quality
from shortlist.lab.experiments.components.pools.training import Kept, Schedule, Trainer
from shortlist.train.pools.distil import pools_from_gate

METRICS = (
    "precision@5",
    "recall@5",
    "precision@5 of nominated",
    "recall@5 of nominated",
    "validation precision@5",
    "effective experts",
    "gate on own block",
)
BEFORE = ", before fine-tuning"
COMPARED, PART = 1000, 20  # examples of each item on which experts are compared, and at a time
WATCHED = 200  # validation rows on which a gate of contexts is averaged


@dataclass(frozen=True, eq=False)
class Outcome:
    """The values of `METRICS` for each seed, and how the training of each went."""

    name: str
    values: Tensor  # [S, metrics]
    facts: tuple[dict[str, Any], ...]


@dataclass(eq=False)
class Run:
    """The training of a system at a point, with all seeds and learning rates side by side."""

    method: Method
    point: Point
    tables: SeedTables
    schedule: Schedule
    use: list[Tensor] = field(default_factory=list)  # effective experts [S, L] at each evaluation

    def outcomes(self) -> list[Outcome]:
        """What was reached; for distilled pools also before the experts were trained on them."""
        model, parameters = make_cells(self.method, self.point, self.tables, len(self.schedule.rates))
        rows = self.tables.examples(self.point.examples)
        trainer = Trainer(self.method, model, self.tables, rows, parameters, self.schedule)
        trainer.watch = lambda step, parameters: self._watch(model, parameters)
        if not self.method.distilled:
            trainer.run(self.schedule.steps)
            return [self._measured(self.method.name, model, trainer.kept, trainer.done)]
        trainer.run(round((1 - self.schedule.distilled_share) * self.schedule.steps))
        hard = self._distilled(model, trainer.kept.parameters, rows)
        taken = {name: one.clone() for name, one in trainer.kept.parameters.items() if name[:5] != "gate."}
        before = Kept(taken, trainer.kept.quality.clone(), trainer.kept.step.clone())
        copies = {name: one.clone() for name, one in taken.items()}
        tuned = Trainer(self.method, hard, self.tables, rows, copies, self.schedule, done=trainer.done)
        tuned.run(self.schedule.steps - trainer.done)
        return [
            self._measured(self.method.name, hard, tuned.kept, tuned.done),
            self._measured(self.method.name + BEFORE, hard, before, trainer.done),
        ]

    @torch.no_grad()
    def _distilled(self, model: CellModel, parameters: Parameters, rows: Tensor) -> CellModel:
        """The same experts with hard pools, at most 1.2 times as large as equal ones."""
        if self.method.distilled == AT_RANDOM:
            return CellModel(POOLS, model.logistic, model.mask, self.tables.random_pools(model.n_experts))
        weights = model.item_weights(parameters)
        if self.method.distilled == ERROR:
            weights = -self._errors(model, parameters, rows)
        assert weights is not None
        hard = torch.zeros_like(weights)
        for seed, of_seed in enumerate(weights):
            for rate in range(of_seed.shape[1]):
                pools = torch.from_numpy(pools_from_gate(of_seed[:, rate].T).matrix)
                hard[seed, :, rate] = pools.T.to(hard)
        return CellModel(POOLS, model.logistic, model.mask, hard)

    def _errors(self, model: CellModel, parameters: Parameters, rows: Tensor) -> Tensor:
        """The mean squared error of every expert on the training examples of every item [S, A, L, N]."""
        seeds = torch.arange(len(rows), device=rows.device)[:, None, None]
        total, used = None, rows[:, :, :COMPARED]
        for start in range(0, used.shape[2], PART):
            x, rewards = self.tables.drawn(used[:, :, start : start + PART], seeds)
            errors = (rewards[..., None, None] - model.predictions(parameters, x)).square().sum(2)
            total = errors if total is None else total + errors
        assert total is not None
        return total / used.shape[2]

    @torch.no_grad()
    def _watch(self, model: CellModel, parameters: Parameters) -> None:
        self.use.append(effective(self._weights(model, parameters)))

    def _weights(self, model: CellModel, parameters: Parameters) -> Tensor:
        """Weights of experts for items [S, A, L, N], means over some rows for a gate of contexts."""
        own = model.item_weights(parameters)
        if own is not None:
            return own.expand(-1, -1, parameters["items"].shape[2], -1)
        gate, _ = model.every(parameters, self.tables.features[1][:, :WATCHED])
        return gate.mean(1).transpose(1, 2)

    @torch.no_grad()
    def _measured(self, name: str, model: CellModel, kept: Kept, last: int) -> Outcome:
        """Test values of the learning rate with the best validation precision of each seed."""
        best = kept.quality.argmax(1)  # [S]
        chosen = {key: _of_rate(one, best) for key, one in kept.parameters.items()}
        weights = model.weights
        if weights is not None and weights.shape[2] > 1:
            weights = _of_rate(weights, best)
        own = CellModel(model.gate, model.logistic, model.mask, weights)
        found = [*mean_quality(own, chosen, self.tables, TEST)]
        found += mean_quality(own, chosen, self.tables, TEST, mode="nominate")
        of_items = self._weights(own, chosen)  # [S, A, 1, N]
        found += [kept.quality.gather(1, best[:, None]), effective(of_items), self._on_block(of_items)]
        facts = [
            {
                "rate": self.schedule.rates[int(best[seed])],
                "step": int(kept.step[seed, best[seed]]),
                "last": last,
                "effective": [float(one[seed, best[seed]]) for one in self.use],
            }
            for seed in range(len(best))
        ]
        return Outcome(name, torch.cat(found, 1).double().cpu(), tuple(facts))

    def _on_block(self, weights: Tensor) -> Tensor:
        """The mean weight of the expert that reads the block of a label [S, 1], 0 for random subsets."""
        if not self.point.blocks or weights.shape[3] == 1:
            return torch.zeros_like(weights[:, 0, :, 0])
        block = torch.arange(self.tables.arms, device=weights.device) % weights.shape[3]
        return weights.gather(3, block[None, :, None, None].expand(*weights.shape[:3], 1)).mean((1, 3))


def _of_rate(one: Tensor, rate: Tensor) -> Tensor:
    """The values of one learning rate for each seed [S, X, 1, ...] from those of all [S, X, L, ...]."""
    return torch.stack([of_seed[:, int(at)] for of_seed, at in zip(one, rate, strict=True)])[:, :, None]
