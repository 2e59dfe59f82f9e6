"""Lists of a full-stage log as lists of nodes: graded targets of every level, and negatives of every stage.

The label of a node is the largest label of the listed items below it, so a level ranks its nodes as the log ranks the
best item that each of them leads to.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Interactions
from shortlist.data.windows import gather
from shortlist.train.logged.instances import retrieval_instances
from shortlist.train.logged.training_log import TrainingLog
from shortlist.train.loop.losses import weighted_mean
from shortlist.train.objectives.full_stage import FullStageSettings
from shortlist.train.objectives.instances import InstanceBatch, InstanceSampler
from shortlist.train.objectives.listwise import ssm
from shortlist.train.objectives.registry import Objective
from shortlist.train.tree.samplers.sampler import path
from shortlist.train.tree.step import TrainStep


@dataclass(frozen=True, eq=False)
class LoggedLists:
    """One list per logged positive, in a batch for every step; a function of the seed and the step."""

    sampler: InstanceSampler
    objective: Objective | None  # None: sampled softmax of the positive
    histories: Tensor  # [R, K] items before each request, -1 = padding
    fingerprint: str  # of the log and the settings
    epochs: dict[int, list[InstanceBatch]] = field(default_factory=dict)  # the batches of the last epoch used

    @classmethod
    def of(
        cls,
        settings: FullStageSettings,
        log: TrainingLog,
        events: Interactions,
        max_history: int,
        batch_size: int,
        seed: int,
        device: torch.device,
    ) -> "LoggedLists":
        """The lists of a log; histories are the events before each request."""
        sampler = retrieval_instances(settings, log, events, batch_size, seed)
        starts, ends = events.starts[log.log.user_id].astype(np.int64), log.history_ends(events)
        histories = torch.from_numpy(gather(events, starts, ends, max_history).astype(np.int64))
        objective = settings.list_loss(sampler.relevant_from)
        objective = None if objective is None else objective.to(device)
        return cls(sampler, objective, histories.to(device), f"{log.fingerprint} {settings}")

    def loss(self, step: TrainStep, number: int) -> Tensor:
        """The objective of the batch of one training step: over levels as in the plan, the mean over lists."""
        batch = self.batch(number).to(self.histories.device)
        nodes, labels, mask = node_lists(step, batch)  # [U, L, M]
        logits = step.logits(self.histories[batch.users], nodes)
        weight = batch.weight[:, None, :].expand(mask.shape)
        flat = [one.flatten(0, 1) for one in (logits, labels, mask, weight)]
        losses = self._per_list(flat).view(mask.shape[:2])
        per_list = losses.sum(1) if step.plan.reduction == "sum" else losses.mean(1)
        return weighted_mean(per_list, self.sampler.strength(batch))

    def _per_list(self, given: list[Tensor]) -> Tensor:
        scores, labels, mask, weight = given
        if self.objective is not None:
            losses: Tensor = self.objective(scores.float(), labels, mask, weight)
            return losses
        return ssm(scores.float(), labels, mask, weight, relevant_from=self.sampler.relevant_from)

    def batch(self, number: int) -> InstanceBatch:
        """The instances of a step; an epoch visits each list once."""
        count = -(-len(self.sampler) // self.sampler.batch_size)
        epoch, at = divmod(number, count)
        if epoch not in self.epochs:
            self.epochs.clear()
            self.epochs[epoch] = list(self.sampler.batches(epoch))
        return self.epochs[epoch][at]


def node_lists(step: TrainStep, batch: InstanceBatch) -> tuple[Tensor, Tensor, Tensor]:
    """The nodes above the listed items at every trained level, their labels, and which are there [U, L, M] each.

    A node above several listed items is there once, with the largest of their labels.
    """
    tree, levels = step.index.tree, step.levels
    leaves = tree.leaves(batch.items)  # [U, M]
    found = (batch.mask & (leaves >= 0))[:, None, :]  # an item may have no leaf
    above = path(tree.shape, levels, leaves.clamp(min=0).flatten())  # [U * M, L]
    nodes = above.view(*leaves.shape, len(levels)).transpose(1, 2)  # [U, L, M]
    same = (nodes[:, :, :, None] == nodes[:, :, None, :]) & found[:, :, None, :]
    labels = batch.labels[:, None, None, :].masked_fill(~same, -torch.inf).amax(3)
    earlier = torch.ones(same.shape[2:], dtype=torch.bool, device=same.device).tril(-1)
    mask = found & ~(same & earlier).any(3)
    return nodes, labels.masked_fill(~mask, 0.0), mask
