"""Trainer of tree nominators: a method by name, and settings that override it."""

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from shortlist.errors import DataError
from shortlist.index.tree import TreeIndex, pifa, project
from shortlist.models.sequence.sasrec import SASRec, SASRecConfig
from shortlist.nominate import TreeNominator
from shortlist.settings import Setting, check_settings, setting, settings_of
from shortlist.train.context import TrainContext
from shortlist.train.fingerprint import fingerprint
from shortlist.train.logged.targets import with_logged_targets
from shortlist.train.logged.training_log import TrainingLog
from shortlist.train.loop.convergence import FitSummary, history_of
from shortlist.train.loop.device import DEVICES, device_of
from shortlist.train.loop.horizon import horizon_of, horizons, remember
from shortlist.train.models.sequence import SequenceTrainer
from shortlist.train.objectives.full_stage import SOFTMAX, FullStageSettings, LoggedListSettings
from shortlist.train.objectives.registry import OBJECTIVES
from shortlist.train.tree.instances import windows_of
from shortlist.train.tree.logged_lists import LoggedLists
from shortlist.train.tree.plan import METHODS, PROFILES, SETTINGS, TreePlan, plan_of
from shortlist.train.tree.rectify import Estimator
from shortlist.train.tree.training import TreeTraining, scorer_config
from shortlist.train.tree.training_set import TreeTrainingSet

CHECKPOINT_SECONDS = 30.0  # between two checkpoints
TRIAL = 0.1  # share of all steps that every label horizon is tried for
VECTORS = 64  # width of the item vectors that the order "vectors" clusters
CONTINUED, CONTINUED_WITH_VALIDATION = 0.2, 0.5  # of the steps from the start
NO_LISTS = "none"
OBJECTIVE_NAMES = (NO_LISTS, SOFTMAX, *(name for name, one in OBJECTIVES.items() if not one.learned))
OF_THE_STAGE = ("beam", "product")  # settings of a plan that the nominator holds


@dataclass(frozen=True, init=False)
class TreeTrainer(LoggedListSettings):
    """Trains a `TreeNominator` with the settings of a method and a profile; `overrides` are settings of `TreePlan`.

    `TreeTrainer("dtr-u", scorer="linear", epochs=3)` takes all settings by name, as a recipe does. `epochs` are
    counted over all rounds and set the steps of a round. Early stopping uses validation users. Weights of events
    multiply losses, and log-likelihoods in tree updates.
    """

    uses_weights: ClassVar[bool | None] = True
    reads_histories: ClassVar[bool] = True

    method: str = setting("dtr-t-rl", "Training method.", choices=tuple(METHODS))
    profile: str = setting(
        "sound", "Defaults: ours, those of the DTR paper or of its code.", choices=tuple(PROFILES)
    )
    device: str = setting("auto", "Device to train on; auto takes a GPU if there is one.", choices=DEVICES)
    epochs: int | None = setting(
        None, "Epochs over all rounds; by default `steps` per round.", least=1, most=100_000
    )
    minutes: float = setting(
        0.0, "Training stops at the first step after this time; 0 = no limit.", least=0, most=1e6
    )
    objective: str = setting(
        SOFTMAX,
        "What is minimised on lists of a full-stage log at every level, beside the loss of events; softmax: sampled "
        "softmax of the positive; none: no lists, logged positives are targets only.",
        choices=OBJECTIVE_NAMES,
    )
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def __init__(self, method: str | None = None, **settings: Any) -> None:
        given = {**({} if method is None else {"method": method}), **settings}
        check_settings(given, self.declared(), "tree")
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
        for own in settings_of(type(self)):
            object.__setattr__(self, own.name, values.pop(own.name, own.default))
        object.__setattr__(self, "overrides", values)
        self.plan()  # refuses combinations that do not exist before anything is trained

    @classmethod
    def declared(cls) -> tuple[Setting, ...]:
        """The settings of a recipe: the trainer's own, those of lists of a log, then those of the plan."""
        own, logged = settings_of(cls), {one.name for one in settings_of(LoggedListSettings)}
        ordered = sorted(own, key=lambda one: one.name in logged)
        return (*ordered, *(one for one in SETTINGS if one.name not in OF_THE_STAGE))

    def with_settings(self, **settings: Any) -> Self:
        """The same trainer with some settings changed."""
        own = {one.name: getattr(self, one.name) for one in settings_of(type(self))}
        return type(self)(**{**own, **self.overrides, **settings})

    def plan(self, **more: Any) -> TreePlan:
        """All settings."""
        return plan_of(self.method, self.profile, **{**self.overrides, **more})

    def check_data(self, settings: Mapping[str, Any], context: TrainContext) -> None:
        """Refuse a device that is not there or lacks the precision, and events that are too few."""
        plan = self.plan()
        plan.check_device(device_of(self.device).type)
        self._with_epochs(context, plan)

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> TreeNominator:
        """A trained tree; one that is never updated continues from the tree of the stage in `context.warm`.

        Positive feedback of a full-stage log gives further leaf targets, and its lists graded labels of nodes.
        """
        log, context = context.log, with_logged_targets(context)
        until = time.monotonic() + 60 * self.minutes if self.minutes else math.inf
        name = str(settings.get("name", "tree"))
        plan = self._with_epochs(context, self.plan(beam=int(settings.get("beam", TreePlan.beam))))
        training_set = TreeTrainingSet(context.events, context.categories, valid=context.valid)
        if log is not None and self.objective != NO_LISTS:
            training_set = replace(training_set, lists=self._lists(log, context, plan))
        warm = _continued(plan, context.warm.get(name), context.events.n_items)
        if warm is not None:
            share = CONTINUED if context.valid is None else CONTINUED_WITH_VALIDATION
            plan = _shorter(plan, share)
            training_set = replace(training_set, order=order_of(warm), weights=warm.scorer.state_dict())
        elif plan.order == "vectors":
            vectors = project(pifa(context.events.weighted_matrix()), VECTORS, context.seed)
            training_set = replace(training_set, vectors=vectors)
        if plan.labels == "rectified":
            estimator = self._estimator(context, plan.sasrec_width, f"{name}.sasrec")
            training_set = replace(training_set, estimator=estimator)
        if plan.ahead == 0:
            plan = replace(plan, ahead=self._horizon(plan, training_set, context, name))
        if plan.labels == "model" and plan.update == "none":
            order, weights = self._pretrained(plan, training_set, context, f"{name}.jtm")
            training_set = replace(training_set, order=order, weights=weights)
        index = self._train(plan, training_set, context, name, until, warm is not None).to("cpu")
        remember(index.scorer, FitSummary(0, ahead=plan.ahead))
        return TreeNominator(index, **{"product": plan.product, **settings})

    def _lists(self, log: TrainingLog, context: TrainContext, plan: TreePlan) -> LoggedLists:
        """The lists of a log, with the histories that the scorer reads."""
        names = ("objective", *(one.name for one in settings_of(LoggedListSettings)))
        settings = FullStageSettings(**{name: getattr(self, name) for name in names})
        sizes = (sum(plan.windows), plan.batch_size, context.seed)
        return LoggedLists.of(settings, log, context.events, *sizes, device_of(self.device))

    def _with_epochs(self, context: TrainContext, plan: TreePlan) -> TreePlan:
        """The plan with the steps of `epochs`, evaluated at the end of each round."""
        sizes = (sum(plan.windows), plan.min_history, plan.instances, max(plan.ahead, 1))
        count = len(windows_of(context.events, *sizes))
        if not count:
            raise DataError(
                f"tree: expected users with more than {plan.min_history} events to train on, got none; "
                "lower min_history, or remove the tree"
            )
        if self.epochs is None:
            return plan
        steps = max(1, self.epochs * count // (min(plan.batch_size, count) * plan.rounds))
        return replace(plan, steps=steps, eval_every=steps, warmup=min(plan.warmup, steps))

    def _horizon(
        self, plan: TreePlan, training_set: TreeTrainingSet, context: TrainContext, name: str
    ) -> int:
        """The label horizon of the fit that this one continues, or the one with the best F1 after short trainings."""
        before, choices = horizon_of(context.warm.get(name)), horizons(context.valid)
        if before or len(choices) == 1:
            return before or choices[0]
        steps = max(1, int(TRIAL * plan.total))
        # A tree that labels with its own scores is trained from another one: it is tried with plain labels.
        labels = "plain" if plan.labels == "model" else plan.labels
        short = replace(plan, labels=labels, eval_every=steps, patience=0)
        scores = {}
        for ahead in choices:
            trial = TreeTraining(
                replace(short, ahead=ahead), training_set, context.seed, self.device, context.progress
            )
            trial.run(until=steps)
            scores[ahead] = max(trial.validation, default=0.0)
        return max(scores, key=scores.__getitem__)

    def _estimator(self, context: TrainContext, width: int, name: str) -> Estimator:
        """A small SASRec model whose scores rectify labels."""
        trainer = SequenceTrainer(model=SASRec, config=SASRecConfig(width=width), device=self.device)
        if name in context.best_epochs:
            trainer = replace(trainer, epochs=context.best_epochs[name])
        folder = self._checkpoint_folder(context, "sasrec", trainer.settings())
        model: SASRec = trainer.learn(
            context.events, context.valid, context.seed, context.progress, folder=folder
        )
        context.note(name, history_of(model.validation, trainer.epochs, trainer.patience))
        return model.scores

    def _checkpoint_folder(self, context: TrainContext, what: str, config: Mapping[str, Any]) -> Path | None:
        """The folder of a checkpoint; it depends on validation users and device too."""
        return context.checkpoint_folder(
            what, config, fingerprint(context.valid), device_of(self.device).type
        )

    def _train(
        self,
        plan: TreePlan,
        training_set: TreeTrainingSet,
        context: TrainContext,
        name: str,
        until: float = math.inf,
        warm: bool = False,
    ) -> TreeIndex:
        """A trained tree, resumed from its checkpoint if there is one; its history counts evaluations as epochs."""
        best = None if warm else context.best_epochs.get(name)
        lists = "" if training_set.lists is None else training_set.lists.fingerprint
        folder = self._checkpoint_folder(context, "tree", {**asdict(plan), "until": best, "lists": lists})
        training = TreeTraining(
            plan,
            training_set,
            context.seed,
            self.device,
            context.progress,
            folder=folder,
            checkpoint_seconds=CHECKPOINT_SECONDS,
            deadline=until,
        )
        index = training.run(until=None if best is None else best * plan.eval_every)
        evaluations = -(-plan.total // plan.eval_every)
        summary = FitSummary(evaluations, training.out_of_time, plan.ahead)
        context.note(name, history_of(training.validation, evaluations, plan.patience, summary))
        return index

    def _pretrained(
        self, plan: TreePlan, training_set: TreeTrainingSet, context: TrainContext, name: str
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Tree and scorer of JTM, which OTM starts from: its labels are its own scores, useless before training."""
        rate = self.overrides.get("learning_rate") or plan_of("jtm", self.profile).learning_rate
        before = replace(plan, labels="plain", learning_rate=rate, **METHODS["jtm"])
        index = self._train(before, training_set, context, name)
        return order_of(index), index.scorer.state_dict()


def order_of(index: TreeIndex) -> Tensor:
    """The items of a tree in the order of leaves."""
    order = index.tree.item_of_leaf
    return order[order >= 0].cpu().to(torch.int64)


def _continued(plan: TreePlan, before: Any, n_items: int) -> TreeIndex | None:
    """The tree that a training continues, None where it begins anew: a tree that is updated has no fixed leaves."""
    index = getattr(before, "index", None)
    if plan.update != "none" or plan.labels == "model" or not isinstance(index, TreeIndex):
        return None
    same = index.tree.n_items == n_items and index.scorer.config == scorer_config(
        plan, index.tree.shape, n_items
    )
    return index if same else None


def _shorter(plan: TreePlan, share: float) -> TreePlan:
    """The plan with a share of its steps, at least one."""
    steps = max(1, math.ceil(share * plan.steps))
    return replace(
        plan, steps=steps, eval_every=min(plan.eval_every, steps), warmup=min(plan.warmup, steps // 5)
    )
