"""A tree and its scorer, from a recipe: the method by name, and what differs from it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.artifact.store import Artifact, Lineage, load, save
from shortlist.data import sliding
from shortlist.errors import ArtifactError, DataError
from shortlist.index.tree import TreeIndex, pifa, project
from shortlist.models.sequence.sasrec import SASRec
from shortlist.nominate import TreeNominator
from shortlist.train.context import TrainContext, forget
from shortlist.train.loop.convergence import course
from shortlist.train.loop.device import device_of
from shortlist.train.models.sasrec import SASRecTrainer
from shortlist.train.tree.checkpoint import is_kept, mark_of
from shortlist.train.tree.plan import METHODS, TreePlan, plan_of
from shortlist.train.tree.rectify import Estimator
from shortlist.train.tree.rounds import TreeTraining, TreeTrainingSet

KEEP_SECONDS = 30.0  # between two looks at how far a training is
WEIGHTS = "weights.safetensors"
VECTORS = 64  # width of the item vectors that a tree is first laid by, where it is by vectors
OWN = ("method", "profile", "epochs", "device")


@dataclass(frozen=True)
class TreeTrainer:
    """Trains what `method` names; every other field left at None is as the method and the profile say.

    `epochs` are counted over all rounds and set the steps of a round; early stopping looks at held-out users.
    """

    method: str = "dtr-t-rl"
    profile: str = "sound"
    device: str = "auto"
    epochs: int | None = None
    branch: int | None = None
    order: str | None = None
    spare: float | None = None
    leaf_vectors: str | None = None
    scorer: str | None = None
    width: int | None = None
    hidden: int | None = None
    layers: tuple[int, ...] | None = None
    windows: tuple[int, ...] | None = None
    history: str | None = None
    pool: str | None = None
    norm: str | None = None
    output: str | None = None
    dropout: float | None = None
    vectors: str | None = None
    instances: str | None = None
    min_history: int | None = None
    ahead: int | None = None
    forget: float | None = None
    sampler: str | None = None
    negatives: int | None = None
    start: str | None = None
    correction: str | None = None
    taught_beam: int | None = None
    mix: float | None = None
    alpha: float | None = None
    loss: str | None = None
    reduction: str | None = None
    levels: str | None = None
    labels: str | None = None
    rectify: str | None = None
    sasrec_width: int | None = None
    update: str | None = None
    stride: int | None = None
    cap: int | None = None
    priority: str | None = None
    sticky: float | None = None
    guard: bool | None = None
    improve: bool | None = None
    rounds: int | None = None
    steps: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    weight_decay: float | None = None
    optimizer: str | None = None
    warmup: int | None = None
    lr_schedule: str | None = None
    patience: int | None = None

    def __post_init__(self) -> None:
        self.plan()  # a word that does not exist is refused before anything is trained

    def plan(self, **more: Any) -> TreePlan:
        """All switches."""
        told = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in OWN}
        given = {name: value for name, value in told.items() if value is not None}
        return plan_of(self.method, self.profile, **{**given, **more})

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> TreeNominator:
        plan = self._paced(context, self.plan(beam=int(settings.get("beam", TreePlan.beam))))
        lesson = TreeTrainingSet(context.events, context.categories, valid=context.valid)
        if plan.order == "vectors":
            met = pifa(context.events.matrix())
            lesson = replace(lesson, vectors=project(met, VECTORS, context.seed))
        if plan.labels == "rectified":
            lesson = replace(lesson, estimator=self._estimator(context, plan.sasrec_width))
        if plan.labels == "model" and plan.update == "none":
            order, weights = self._before(plan, lesson, context)
            lesson = replace(lesson, order=order, weights=weights)
        what = str(settings.get("name", "tree"))
        index = self._train(plan, lesson, context, what).to("cpu")
        return TreeNominator(index, **{"product": plan.product, **settings})

    def _paced(self, context: TrainContext, plan: TreePlan) -> TreePlan:
        """The plan with the steps that make so many epochs, judged at the end of each round."""
        windows = sliding(context.events, sum(plan.windows) + 1, plan.min_history)
        found = (
            len(np.unique(windows.events.users[windows.ends])) if plan.instances == "last" else len(windows)
        )
        if not found:
            raise DataError(
                f"tree: expected users with more than {plan.min_history} events to learn from, got none; "
                "lower min_history, or leave the tree out"
            )
        if self.epochs is None:
            return plan
        steps = max(1, self.epochs * found // (min(plan.batch_size, found) * plan.rounds))
        return replace(plan, steps=steps, judge_every=steps, warmup=min(plan.warmup, steps))

    def _estimator(self, context: TrainContext, width: int) -> Estimator:
        """A small sequence model that says how likely each item is."""
        trainer = SASRecTrainer(width=width, device=self.device)
        folder = self._place(context, "sasrec", vars(trainer))
        if folder is not None and is_kept(folder):
            kept = _whole(folder)
            return SASRec.build(kept.about, kept.tensors(WEIGHTS)).to(device_of(self.device)).scores
        model: SASRec = trainer.learn(context.events, context.valid, context.seed, context.progress)
        if folder is not None:
            lineage = Lineage(context.events.fingerprint, context.seed, config=vars(trainer))
            save(folder, "sasrec", {WEIGHTS: model.state_dict()}, lineage, model.settings())
        return model.scores

    def _place(self, context: TrainContext, what: str, marks: Mapping[str, Any]) -> Path | None:
        """Where a training is kept: what it is chosen by and the kind of device are its marks too."""
        return context.place(what, marks, mark_of(context.valid), device_of(self.device).type)

    def _train(self, plan: TreePlan, lesson: TreeTrainingSet, context: TrainContext, what: str) -> TreeIndex:
        """A trained tree; where trainings are kept, it goes on from where it stopped.

        What is noted of it counts looks at quality where others count epochs.
        """
        folder = self._place(context, "tree", asdict(plan))
        training = TreeTraining(
            plan,
            lesson,
            context.seed,
            self.device,
            context.progress,
            folder=folder,
            keep_seconds=KEEP_SECONDS,
        )
        index = training.run()
        judged = [one["f1"] for one in training.standing.told if "f1" in one]
        context.note(what, course(judged, -(-plan.total // plan.judge_every), plan.patience))
        return index

    def _before(
        self, plan: TreePlan, lesson: TreeTrainingSet, context: TrainContext
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        """The tree and the scorer that a method without updates of its own goes on from: those of JTM (OTM's way).

        Its labels come from its own scores, so a scorer that knows nothing teaches itself nothing.
        """
        usual = (
            self.learning_rate or plan_of("jtm", self.profile).learning_rate
        )  # OTM's own is for a scorer that knows something
        before = replace(plan, labels="plain", learning_rate=usual, **METHODS["jtm"])
        index = self._train(before, lesson, replace(context, note=forget), "jtm")
        order = index.tree.item_of_leaf
        return order[order >= 0].cpu().to(torch.int64), index.scorer.state_dict()


def _whole(folder: Path) -> Artifact:
    """A kept estimator, if nothing happened to it."""
    try:
        return load(folder, "sasrec")
    except ArtifactError as error:
        raise ArtifactError(f"{error}; remove {folder}, and it is trained again") from error
