"""Base class of trainers of retrieval that take an objective and learn from a full-stage log beside the events."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Interactions
from shortlist.settings import setting
from shortlist.train.logged.instances import RETRIEVAL, retrieval_instances
from shortlist.train.logged.training_log import TrainingLog
from shortlist.train.loop.device import device_of
from shortlist.train.loop.loop import Batches
from shortlist.train.loop.losses import weighted_mean
from shortlist.train.loop.trainer import Fit, LoopTrainer
from shortlist.train.objectives.cuts import LoggedCuts
from shortlist.train.objectives.full_stage import SOFTMAX, FullStageSettings
from shortlist.train.objectives.instances import InstanceBatch, InstanceSampler, StagedBatch
from shortlist.train.objectives.listwise import ssm
from shortlist.train.objectives.registry import NEXT_OBJECTIVES, OBJECTIVES, Objective

ScoreInstances = Callable[[InstanceBatch], Tensor]
"""Scores of the items of instances [B, L]; the users of the instances are numbers of requests."""


@dataclass(frozen=True)
class RetrievalTrainer(FullStageSettings, LoopTrainer):
    """Trains on events, and on lists of logged requests: one positive, and negatives of every stage.

    With an objective, every event is a list too: the item and sampled negatives.
    """

    objective: str = setting(
        SOFTMAX,
        "What is minimised: softmax is the loss of the trainer on events, and sampled softmax on logged requests; "
        "others are for lists of an event with sampled negatives, and of logged requests. lcron, icc and rankflow "
        "are for logged requests, with the scores of the next stage; events: softmax.",
        choices=(SOFTMAX, *OBJECTIVES, *NEXT_OBJECTIVES),
    )
    list_negatives: int = setting(
        5, "Sampled negatives of an event with another objective than softmax.", least=1, most=100_000
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.list_loss()  # refuses parameters that the objective does not read

    @property
    def lists_events(self) -> bool:
        """Whether an event is a list too, with sampled negatives."""
        return self.objective in OBJECTIVES

    def list_objective(self, relevant_from: float = 1.0) -> Objective:
        """The objective; the weight a of arf and lcron stays 1, because the optimiser has the model only."""
        return super().list_objective(relevant_from).without_parameters()

    @abstractmethod
    def instance_scores(self, model: Any, events: Interactions, log: TrainingLog) -> ScoreInstances:
        """How a model scores the items of logged requests."""

    def list_mean(self, scores: Tensor, valid: Tensor, weights: Tensor | None) -> Tensor:
        """The objective of lists of an event and its negatives [B, 1 + M], the mean over events."""
        objective = self.list_loss()
        assert objective is not None
        labels = (torch.arange(scores.shape[1], device=scores.device) == 0).to(scores.dtype)
        return weighted_mean(objective(scores, labels.expand(scores.shape), valid), weights)

    def sampler(self, log: TrainingLog, events: Interactions, seed: int) -> InstanceSampler:
        """The lists of logged requests."""
        return retrieval_instances(self, log, events, self.batch_size, seed)

    def with_log(self, batches: Batches, steps: int, model: Any, data: Fit) -> tuple[Batches, int]:
        if data.log is None:
            return batches, steps
        sampler = self.sampler(data.log, data.events, data.seed)
        objective, relevant = self.list_loss(sampler.relevant_from), sampler.relevant_from
        scores, device = self.instance_scores(model, data.events, data.log), device_of(self.device)
        more = -(-len(sampler) // self.batch_size)

        def loss(batch: InstanceBatch) -> Tensor:
            given = (scores(batch), batch.labels, batch.mask, batch.weight)
            if objective is None:
                return weighted_mean(ssm(*given, relevant_from=relevant), sampler.strength(batch))
            losses = objective(*given, cuts_of(batch, sampler.scores_of))
            return weighted_mean(losses, sampler.strength(batch))

        def both(epoch: int) -> Iterator[Callable[[], Tensor]]:
            order = np.random.default_rng((data.seed, epoch, 5)).permutation(steps + more) < steps
            from_events = batches(epoch)
            from_log = (partial(loss, batch.to(device)) for batch in sampler.batches(epoch))
            for of_event in order:
                step = next(from_events if of_event else from_log, None)
                if step is not None:
                    yield partial(
                        step
                    )  # a new function: steps that alternate are not worth recording on a GPU

        return both, steps + more


def cuts_of(batch: InstanceBatch, following: int | None) -> LoggedCuts | None:
    """What the log says about the cut of retrieval, and of stage `following` that scores its items."""
    if not isinstance(batch, StagedBatch):
        return None
    if following is None:
        return LoggedCuts(batch.stage >= RETRIEVAL)
    return LoggedCuts(batch.stage >= RETRIEVAL, batch.stage >= following, batch.score)
