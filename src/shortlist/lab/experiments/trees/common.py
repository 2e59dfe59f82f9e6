"""What all experiments with trees share: data, sizes, trained systems and their answers to the same users."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from shortlist.data import Dataset, HeldOut, Query, Split
from shortlist.data.read import read
from shortlist.errors import ArtifactError, ConfigError, DataError
from shortlist.evaluate.full_catalog import top_k_full
from shortlist.evaluate.full_catalog import rank_model
from shortlist.evaluate.scores import Scores, score_slates
from shortlist.index.tree import TreeIndex
from shortlist.lab.experiments.cache import Kept
from shortlist.lab.experiments.simple import cosine, linear
from shortlist.lab.result import row
from shortlist.models.sequence.sasrec import SASRec
from shortlist.progress import Progress, silent
from shortlist.simulate import embedded
from shortlist.train.loop.device import device_of
from shortlist.train.models.ease import EASETrainer
from shortlist.train.models.sasrec import SASRecTrainer
from shortlist.train.models.trainer import ModelTrainer
from shortlist.train.tree.plan import TreePlan, plan_of
from shortlist.train.tree.training import TreeTraining, TreeTrainingSet
from shortlist.train.tree.validation import answers, full_histories

METRICS = ("f1@20", "recall@20", "precision@20", "f1@40", "recall@40")
DEEP = 40  # items kept of every answer
MEMORY = 69
RIDGE = 1000.0  # of the linear autoencoder, as in the figures the issue quotes
Settings = Mapping[str, Any]
Answer = Callable[[], tuple[Tensor, dict[str, Any]]]

# Sizes were set on the validation users of one split of MovieLens-1M, and are the same for all methods.
FULL: Settings = {"batch_size": 250, "rounds": 4, "steps": 800, "spread": 0.3, "eval_every": 800}
QUICK: Settings = {
    "batch_size": 64,
    "rounds": 2,
    "steps": 5,
    "learning_rate": 5e-3,
    "warmup": 2,
    "eval_every": 5,
    "beam": 12,
    "windows": (4, 2, 1, 1),
    "min_history": 4,
}


@dataclass(frozen=True, eq=False)
class Ground:
    """A data set to experiment on, and how large experiments on it are."""

    name: str
    dataset: Dataset
    sizes: Settings
    categories: Tensor | None = None
    order: Tensor | None = None  # leaves as the data came with them
    quick: bool = False

    def few(self, negatives: int) -> int:
        """So many negatives, or what a small tree can bear."""
        return min(negatives, 8) if self.quick else negatives


def grounds_of(names: Sequence[str], data: Path | None, profile: str, who: str) -> list[Ground]:
    """The data sets of an experiment: the embedded small world when quick, real ones when full."""
    if profile == "quick":
        dataset = embedded(size="small")
        return [Ground("world", dataset, QUICK, torch.from_numpy(dataset.catalog.category_rows), quick=True)]
    if profile != "full":
        raise ConfigError(f"{who}: expected the profile quick or full, got {profile!r}")
    if data is None:
        raise ConfigError(f"{who}: the full profile needs --data, a folder that holds {' and '.join(names)}")
    return [_real(name, data) for name in names]


def _real(name: str, data: Path) -> Ground:
    if name == "ml-1m":
        dataset = read(data / "ml-1m" / "ml-1m.zip", "movielens", name="ml-1m")
        return Ground(name, dataset, FULL, torch.from_numpy(dataset.catalog.category_rows))
    dataset = read(data / "mind", "dtr", name="mind")
    return Ground(name, dataset, FULL, order=_published_order(dataset, data / "mind" / "kv.txt"))


def _published_order(dataset: Dataset, path: Path) -> Tensor:
    """Items by the leaf codes of the published tree, which groups them by category; items without one come last."""
    rows = {str(item): at for at, item in enumerate(dataset.items.ids)}
    codes = np.full(len(rows), np.iinfo(np.int64).max)
    for number, line in enumerate(path.read_text("utf-8").split(), start=1):
        item, _, code = line.partition("::")
        if not code.isdecimal():
            raise DataError(f"{path}:{number}: expected item::leaf code, got {line!r}")
        if item in rows:
            codes[rows[item]] = int(code)
    return torch.from_numpy(np.argsort(codes, kind="stable"))


@dataclass(frozen=True, eq=False)
class Trial:
    """One data set, one split, one seed: trains systems and lets them answer the test users."""

    ground: Ground
    seed: int
    kept: Kept = field(default_factory=Kept)
    progress: Progress = silent
    device: str = "auto"
    grown: dict[str, TreeIndex] = field(default_factory=dict)  # usual methods taught in this trial

    @cached_property
    def split(self) -> Split:
        return self.ground.dataset.split(protocol="half-history", seed=self.seed)

    @cached_property
    def truth(self) -> Tensor:
        return self.split.test.relevant()

    @cached_property
    def sasrec(self) -> SASRec:
        """The estimator of probabilities, which is also a system of its own."""
        return self._taught(TreePlan.sasrec_width)

    def _estimator(self, width: int) -> SASRec:
        return self.sasrec if width == TreePlan.sasrec_width else self._taught(width)

    def sasrec_trainer(self, width: int = TreePlan.sasrec_width) -> SASRecTrainer:
        """How the estimator is taught."""
        small: dict[str, Any] = (
            {"blocks": 1, "heads": 1, "epochs": 2, "batch_size": 32} if self.ground.quick else {}
        )
        max_history = sum(self.ground.sizes.get("windows", TreePlan.windows))
        return SASRecTrainer(
            width=16 if self.ground.quick else width,
            max_history=max_history,
            ahead=self.ground.sizes.get("ahead", TreePlan.ahead),
            device=self.device,
            **small,
        )

    def _taught(self, width: int) -> SASRec:
        trainer = self.sasrec_trainer(width)

        def weights() -> tuple[Tensor, dict[str, Any]]:
            began = time.perf_counter()
            model = trainer.learn(self.split.train, self.split.valid, self.seed, self.progress)
            vector = parameters_to_vector(model.parameters()).detach().cpu()
            return vector, {"seconds": time.perf_counter() - began}

        vector, _ = self.kept.get(self._weights_of(trainer.width), weights, asdict(trainer))
        model = SASRec(trainer.config(len(self.ground.dataset.items)))
        vector_to_parameters(vector.clone(), model.parameters())
        return model.to(device_of(self.device)).eval()

    def _weights_of(self, width: int) -> str:
        """The name that a SASRec of this width is kept by."""
        return f"{self.ground.name}/sasrec of width {width}/{self.seed}"

    def plan(self, method: str, **given: Any) -> TreePlan:
        """The plan of a method at the sizes of this data set."""
        sizes = dict(self.ground.sizes)
        settled = plan_of(method, **{**sizes, **given})
        return (
            settled
            if "negatives" in given
            else replace(settled, negatives=self.ground.few(settled.negatives))
        )

    def train(self, plan: TreePlan, start: TreeIndex | None = None) -> tuple[TreeIndex, TreeTraining]:
        """A trained tree, and the training that led to it; its clock starts now. It may go on from another one."""
        estimator = self._estimator(plan.sasrec_width).scores if plan.labels == "rectified" else None
        began = time.perf_counter()
        order, weights = None if plan.order == "random" else self.ground.order, None
        if start is not None:
            order, weights = start.tree.item_of_leaf.to(torch.int64), start.scorer.state_dict()
        events, valid = self.split.train, self.split.valid
        lesson = TreeTrainingSet(events, self.ground.categories, None, valid, estimator, order, weights)
        training = TreeTraining(
            plan, lesson, self.seed, self.device, self.progress, clock=lambda: time.perf_counter() - began
        )
        return training.run(), training

    def scores(self, name: str, method: str, after: str | None = None, **given: Any) -> dict[str, Scores]:
        """Scores of a tree method on the test users, with what was seen left out ("") and kept (", seen kept")."""

        plan = self.plan(method, **given)

        def answer() -> tuple[Tensor, dict[str, Any]]:
            index, training = self.train(plan, None if after is None else self.taught(after))
            told = {"told": training.state.told, "seconds": training.clock() if training.clock else 0.0}
            if name == method and not given and after is None:
                self.grown[name] = index
            return self._both(index, plan), told

        settings = {**asdict(plan), "after": after}
        return self._scored(name, answer, settings)

    def flat(self, name: str) -> dict[str, Scores]:
        """Scores of a system that scores every item: sasrec, popularity, item-knn or ease."""

        def answer() -> tuple[Tensor, dict[str, Any]]:
            began = time.perf_counter()
            block = self._block(name)
            seconds = time.perf_counter() - began
            if name == "sasrec":  # it may have been trained before, for somebody's labels
                width = 16 if self.ground.quick else TreePlan.sasrec_width
                seconds = self.kept.facts[self._weights_of(width)]["seconds"]
            return torch.stack([self._ranked(block, exclude_seen) for exclude_seen in (True, False)]), {
                "seconds": seconds
            }

        return self._scored(name, answer)

    def model(self, name: str, trainer: ModelTrainer) -> dict[str, Scores]:
        """Scores of a model of the catalogue that learns in this trial."""

        def answer() -> tuple[Tensor, dict[str, Any]]:
            began = time.perf_counter()
            model = trainer.learn(self.split.train, self.split.valid, self.seed, self.progress)
            told = {"seconds": time.perf_counter() - began, "judged": list(model.judged)}
            found = [rank_model(model, self.split.test, DEEP, repeats=repeats) for repeats in (False, True)]
            return torch.stack(found).to(torch.int32), told

        settings = {key: one for key, one in asdict(trainer).items() if key != "device"}
        return self._scored(name, answer, settings)

    def facts(self, name: str) -> dict[str, Any]:
        """What was told of a system's training."""
        return dict(self.kept.facts[self._place(name)])

    def taught(self, method: str) -> TreeIndex:
        """A method at its usual plan, as taught in this trial, for others to begin with."""
        if method not in self.grown:
            self.grown[method] = self.train(self.plan(method))[0]
        return self.grown[method]

    def _both(self, index: TreeIndex, plan: TreePlan) -> Tensor:
        """Answers without and with what was seen [2, C, DEEP]."""
        ask = self.split.test
        found = [
            answers(index, ask, DEEP, plan.beam, exclude_seen, plan.product) for exclude_seen in (True, False)
        ]
        return torch.stack(found).to(torch.int32)

    def _place(self, name: str) -> str:
        return f"{self.ground.name}/{name}/{self.seed}"

    def _scored(self, name: str, answer: Answer, settings: Settings | None = None) -> dict[str, Scores]:
        items, _ = self.kept.get(self._place(name), answer, settings)
        if items.shape != (2, len(self.split.test), DEEP):
            raise ArtifactError(
                f"{self.kept.path}: {self._place(name)!r} was kept by an experiment that asks other users; name "
                "another file"
            )
        both = zip(("", ", seen kept"), items.to(torch.int64), strict=True)
        return {name: score_slates(one, self.truth, (20, 40)) for name, one in both}

    def _block(self, name: str) -> Any:
        """A function that scores a block of items."""
        learned = self.split.train
        if name == "sasrec":
            model = self.sasrec
            return lambda query, items: _sasrec_block(model, query, items)
        met = torch.from_numpy(learned.matrix().toarray())  # [U, N]
        if name == "popularity":
            counts = met.sum(0)
            return lambda query, items: counts[items].expand(len(query), -1)
        return linear(cosine(met) if name == "item-knn" else EASETrainer(RIDGE).learn(learned).weights)

    def _ranked(self, block: Any, exclude_seen: bool) -> Tensor:
        query = self.split.test.query(width=MEMORY)
        seen = full_histories(self.split.test) if exclude_seen else None
        return top_k_full(block, query, len(self.ground.dataset.items), DEEP, seen)[0].to(torch.int32)


@torch.no_grad()
def _sasrec_block(model: SASRec, query: Query, items: slice) -> Tensor:
    device = next(model.parameters()).device
    return model.scores(query.history.to(device))[:, items].float().cpu()


def rows_of(
    found: Mapping[str, Sequence[Mapping[str, Scores]]], where: str, metrics: Sequence[str] = METRICS
) -> list[dict[str, Any]]:
    """Rows for systems with their scores of every seed; `where` says on what."""
    return [
        row(f"{name} on {where}", metric + kind, [float(one[kind][metric].nanmean()) for one in runs])
        for name, runs in found.items()
        for kind in ("", ", seen kept")
        for metric in metrics
    ]


def some_of(cases: HeldOut, most: int, seed: int) -> HeldOut:
    """At most so many cases."""
    return cases.take(np.sort(np.random.default_rng(seed).permutation(len(cases))[:most]))
