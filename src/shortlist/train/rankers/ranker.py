"""The trainer of all rankers: from requests with out-of-fold candidates to a calibrated scorer.

A ranker type is its stage and a small subclass: `NetworkRankerTrainer` for networks that are trained by gradients,
`RankerTrainer` for everything else.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError
from shortlist.pipeline.about import TrainingHistory
from shortlist.settings import check_fields, setting
from shortlist.stages.calibrated import Calibrated
from shortlist.stages.catalog_columns import CatalogColumns
from shortlist.train.context import TrainContext
from shortlist.train.fingerprint import fingerprint
from shortlist.train.loop.checkpoint import LoopState
from shortlist.train.loop.convergence import history_of
from shortlist.train.loop.device import device_of
from shortlist.train.loop.loop import Loop
from shortlist.train.loop.losses import listwise_loss, target_losses
from shortlist.train.objectives.registry import Objective
from shortlist.train.rankers.calibrate import calibrated
from shortlist.train.rankers.training_data.training_set import ListSampling, RankingLists, TrainingSet

CALIBRATIONS = ("none", "platt", "isotonic")

Score = Callable[[Query, Candidates], Tensor]
"""Logits of candidates [B, K], with gradients."""


@dataclass(frozen=True)
class RankerTrainer(ListSampling):
    """Trains a ranker on the training set, stops early by the validation requests, and calibrates on those.

    Weights of events multiply the losses of targets. Validation and calibration count every target once.
    """

    title: ClassVar[str] = "ranker"
    uses_weights: ClassVar[bool | None] = True

    epochs: int = setting(20, "Largest number of epochs.", least=1, most=100_000)
    learning_rate: float = setting(1e-3, "Learning rate.", least=1e-9, most=10)
    weight_decay: float = setting(1e-4, "Weight decay.", least=0, most=10)
    patience: int = setting(3, "Epochs without improvement before training stops.", least=1, most=100_000)
    calibrate: str = setting("none", "How scores are calibrated to probabilities.", choices=CALIBRATIONS)
    minutes: float = setting(
        0.0, "Training stops at the first step after this time; 0 = no limit.", least=0, most=1e6
    )

    def __post_init__(self) -> None:
        check_fields(self, self.title)
        self.list_loss()  # refuses parameters that the objective does not read

    def check_data(self, settings: Mapping[str, Any], context: TrainContext) -> None:
        """Refuse a device that is not there, and columns that the catalogue does not have."""
        device_of(getattr(self, "device", "cpu"))
        if settings.get("columns"):
            CatalogColumns.of(context.catalog, context.events.popularity > 0, list(settings["columns"]))

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> Any:
        """The trained stage."""
        what = str(settings.get("name", self.title))
        training_set = self.training_set(context, what)
        retrieved = (
            training_set.retrieved
        )  # refuse requests without retrieved targets before anything is trained
        stage, history = self.fit_stage(settings, context, training_set)
        history = replace(
            history,
            mode=self.mode,
            negatives=self.negatives,
            retrieved=retrieved,
            warnings=(*history.warnings, *training_set.warnings),
        )
        context.note(what, history)
        return calibrated(stage, self.calibrate, training_set.validation, what)

    def training_set(self, context: TrainContext, what: str) -> TrainingSet:
        """The requests of the context as lists to rank."""
        if not context.batches:
            raise ConfigError(
                f"{what}: a ranker is trained on candidates of nominators and got none; put it after a nominator"
            )
        return TrainingSet(self, context.batches, len(context.catalog), context.seed, what)

    @abstractmethod
    def fit_stage(
        self, settings: Mapping[str, Any], context: TrainContext, training_set: TrainingSet
    ) -> tuple[Calibrated, TrainingHistory]:
        """The trained stage before calibration, and its training history."""


@dataclass(frozen=True)
class NetworkRankerTrainer(RankerTrainer):
    """Trains a network by the listwise softmax loss, or by another objective."""

    @abstractmethod
    def untrained(
        self, settings: Mapping[str, Any], context: TrainContext, training_set: TrainingSet
    ) -> Calibrated:
        """The stage with initial weights."""

    @abstractmethod
    def network(self, stage: Any) -> nn.Module:
        """The network of a stage, which is trained in place."""

    def logits(self, stage: Any) -> Score:
        """The function whose loss is minimised; by default the raw scores."""
        score: Score = stage.raw
        return score

    def fit_stage(
        self, settings: Mapping[str, Any], context: TrainContext, training_set: TrainingSet
    ) -> tuple[Calibrated, TrainingHistory]:
        torch.manual_seed(context.seed)
        stage = self.untrained(settings, context, training_set)
        start = fingerprint(self.network(stage).state_dict())
        folder = context.checkpoint_folder(training_set.what, repr(self), settings, start)
        history = self.train(self.network(stage), self.logits(stage), context, training_set, folder)
        return stage, history

    def _has_cuts(self, training_set: TrainingSet) -> bool:
        """Whether the requests have what the objective reads; without a log, softmax stands in for lcron and others."""
        return not self.with_next or all(one.logged is not None for one in training_set.batches)

    def train(
        self,
        network: nn.Module,
        score: Score,
        context: TrainContext,
        training_set: TrainingSet,
        folder: Path | None = None,
    ) -> TrainingHistory:
        """Train a network in place; it keeps the weights with the lowest loss on the validation requests."""
        steps = len(training_set.training)
        objective = self.list_loss(training_set.relevant_from) if self._has_cuts(training_set) else None

        def batches(epoch: int) -> Iterator[Callable[[], Tensor]]:
            for number in np.random.default_rng((context.seed, epoch)).permutation(steps):
                lists = training_set.lists(int(number), epoch)
                if lists is not None:
                    yield lambda lists=lists: ranking_loss(score, lists, objective)  # type: ignore[misc]

        loop = Loop(self.epochs, self.learning_rate, self.weight_decay, self.patience, self.minutes)
        validate = _validation(score, training_set, objective) if training_set.validation else None
        trained = _with_parameters(network, objective)
        state = LoopState(trained, loop.optimizer(trained))
        loop.train(state, batches, steps, training_set.what, context.progress, validate, folder=folder)
        return history_of(state.validation, self.epochs, self.patience, state.summary)


def ranking_loss(score: Score, lists: RankingLists, objective: Objective | None = None) -> Tensor:
    """The weighted mean over targets of the softmax loss of a target against all negatives of its list.

    With an objective, the weighted mean over lists; the weight of a list is the mean weight of its targets.
    """
    scores = score(lists.query, lists.found) + lists.logit_shift
    if objective is not None:
        per_list: Tensor = objective(scores, *lists.graded, lists.cuts)  # [L]
        weight = lists.list_weight
        return (per_list * weight).sum() / weight.sum().clamp(min=1e-12)
    if lists.inclusion is not None:
        scores = torch.where(lists.is_target, scores, scores + lists.inclusion.log())
    losses = target_losses(scores, lists.is_target, lists.found.valid)  # [L, M]
    return torch.where(lists.weight > 0, losses * lists.weight, 0.0).sum() / lists.weight.sum().clamp(
        min=1e-12
    )


def _with_parameters(network: nn.Module, objective: Objective | None) -> nn.Module:
    """What is trained: the network, and the parameters of an objective that has some."""
    learned = objective is not None and any(True for _ in objective.parameters())
    return nn.ModuleList([network, objective]) if learned and objective is not None else network


def _validation(
    score: Score, training_set: TrainingSet, objective: Objective | None = None
) -> Callable[[], float]:
    """Minus the loss over all candidates of the validation requests; the listwise softmax without an objective."""

    @torch.no_grad()
    def validate() -> float:
        if objective is not None:
            return -float(
                torch.stack(
                    [ranking_loss(score, one, objective) for one in training_set.validation_lists]
                ).sum()
            )
        losses = [
            listwise_loss(score(one.query, one.found), one.is_target, one.found.valid)
            for one in training_set.validation
        ]
        return -float(torch.stack(losses).sum())

    return validate
