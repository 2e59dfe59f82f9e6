"""One trial of an experiment with trees: data set, split, seed, and the answers of trained systems to its users."""

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
from shortlist.evaluate.full_catalog import ScoreBlock, rank_model, top_k_full
from shortlist.evaluate.scores import Scores, score_slates
from shortlist.index.tree import TreeIndex
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.linear_scores import cosine, linear
from shortlist.lab.result import Row, row
from shortlist.models.sequence.sasrec import SASRec
from shortlist.progress import Progress, silent
from shortlist.simulate import embedded
from shortlist.train.loop.convergence import history_of
from shortlist.train.loop.device import device_of
from shortlist.train.models.counting.ease import EASETrainer
from shortlist.train.models.sequence import SequenceTrainer
from shortlist.train.models.trainer import ModelTrainer
from shortlist.train.registry import make_trainer
from shortlist.train.tree.plan import TreePlan, plan_of
from shortlist.train.tree.training import TreeTraining
from shortlist.train.tree.training_set import TreeTrainingSet
from shortlist.train.tree.validation import answers, full_histories

METRICS = ("f1@20", "recall@20", "precision@20", "f1@40", "recall@40")
DEPTH = 40  # items of every answer in the cache
MAX_HISTORY = 69
RIDGE = 1000.0  # of EASE
Settings = Mapping[str, Any]
Answer = Callable[[], tuple[Tensor, dict[str, Any]]]
EXCLUDED, WITH_SEEN = "", ", seen kept"  # whether items of the history may be answers

# Sizes were chosen on the validation users of one split of MovieLens-1M, and are the same for all methods.
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
class DataSetup:
    """The data set of an experiment, and the sizes of its trainings."""

    name: str
    dataset: Dataset
    sizes: Settings
    categories: Tensor | None = None
    order: Tensor | None = None  # items by leaf, where a tree was published with the data
    quick: bool = False

    def negatives(self, count: int) -> int:
        """This number of negatives, or fewer for the small tree of a quick run."""
        return min(count, 8) if self.quick else count


def data_setups(names: Sequence[str], data: Path | None, profile: str, experiment: str) -> list[DataSetup]:
    """The data sets of an experiment: the small simulated world for quick, real ones for full."""
    if profile == "quick":
        dataset = embedded(size="small")
        return [
            DataSetup("world", dataset, QUICK, torch.from_numpy(dataset.catalog.category_rows), quick=True)
        ]
    if profile != "full":
        raise ConfigError(f"{experiment}: expected the profile quick or full, got {profile!r}")
    if data is None:
        raise ConfigError(
            f"{experiment}: the full profile needs --data, a folder that holds {' and '.join(names)}"
        )
    return [_real(name, data) for name in names]


def _real(name: str, data: Path) -> DataSetup:
    if name == "ml-1m":
        dataset = read(data / "ml-1m" / "ml-1m.zip", "movielens", name="ml-1m")
        return DataSetup(name, dataset, FULL, torch.from_numpy(dataset.catalog.category_rows))
    dataset = read(data / "mind", "dtr", name="mind")
    return DataSetup(name, dataset, FULL, order=_published_order(dataset, data / "mind" / "kv.txt"))


def _published_order(dataset: Dataset, path: Path) -> Tensor:
    """Items by the leaf codes of the published tree, which groups them by category; items without a code come last."""
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
    """One data set, one split, one seed: trains systems, and scores their answers to the test users."""

    data_setup: DataSetup
    seed: int
    cache: AnswerCache = field(default_factory=AnswerCache)
    progress: Progress = silent
    device: str = "auto"
    trees: dict[str, TreeIndex] = field(default_factory=dict)  # methods trained with their usual plan

    @cached_property
    def split(self) -> Split:
        return self.data_setup.dataset.split(protocol="half-history", seed=self.seed)

    @cached_property
    def relevant(self) -> Tensor:
        """Relevant items of the test users [C, R], -1 = padding."""
        return self.split.test.relevant()

    @cached_property
    def sasrec(self) -> SASRec:
        """The estimator of rectified labels, which is also a system of its own."""
        return self._trained_sasrec(TreePlan.sasrec_width)

    def _estimator(self, width: int) -> SASRec:
        return self.sasrec if width == TreePlan.sasrec_width else self._trained_sasrec(width)

    def sasrec_trainer(self, width: int = TreePlan.sasrec_width) -> SequenceTrainer:
        """The trainer of the estimator."""
        small: dict[str, Any] = (
            {"blocks": 1, "heads": 1, "epochs": 2, "batch_size": 32} if self.data_setup.quick else {}
        )
        trainer: SequenceTrainer = make_trainer(
            "sasrec",
            width=16 if self.data_setup.quick else width,
            max_history=sum(self.data_setup.sizes.get("windows", TreePlan.windows)),
            ahead=self.data_setup.sizes.get("ahead", TreePlan.ahead),
            device=self.device,
            **small,
        )
        return trainer

    def _trained_sasrec(self, width: int) -> SASRec:
        trainer = self.sasrec_trainer(width)

        def weights() -> tuple[Tensor, dict[str, Any]]:
            began = time.perf_counter()
            model = trainer.learn(self.split.train, self.split.valid, self.seed, self.progress)
            vector = parameters_to_vector(model.parameters()).detach().cpu()
            return vector, training_facts(trainer, model.validation, time.perf_counter() - began)

        vector, _ = self.cache.get(
            self._weights_name(trainer.config.width), weights, settings_without_device(trainer)
        )
        model = SASRec(replace(trainer.config, n_items=len(self.data_setup.dataset.items)))
        vector_to_parameters(vector.clone(), model.parameters())
        return model.to(device_of(self.device)).eval()

    def _weights_name(self, width: int) -> str:
        """The name of a SASRec of this width in the cache."""
        return f"{self.data_setup.name}/sasrec of width {width}/{self.seed}"

    def plan(self, method: str, **overrides: Any) -> TreePlan:
        """The plan of a method with the sizes of this data set."""
        plan = plan_of(method, **{**self.data_setup.sizes, **overrides})
        if "negatives" in overrides:
            return plan
        return replace(plan, negatives=self.data_setup.negatives(plan.negatives))

    def train(self, plan: TreePlan, start: TreeIndex | None = None) -> tuple[TreeIndex, TreeTraining]:
        """A trained tree and its training, whose clock starts now; `start` is a tree to continue from."""
        estimator = self._estimator(plan.sasrec_width).scores if plan.labels == "rectified" else None
        began = time.perf_counter()
        order, weights = None if plan.order == "random" else self.data_setup.order, None
        if start is not None:
            order, weights = start.tree.item_of_leaf.to(torch.int64), start.scorer.state_dict()
        events, valid = self.split.train, self.split.valid
        training_set = TreeTrainingSet(
            events, self.data_setup.categories, None, valid, estimator, order, weights
        )
        training = TreeTraining(
            plan,
            training_set,
            self.seed,
            self.device,
            self.progress,
            clock=lambda: time.perf_counter() - began,
        )
        return training.run(), training

    def scores(self, name: str, method: str, after: str | None = None, **overrides: Any) -> dict[str, Scores]:
        """Scores of a tree method on the test users, items of the history excluded ("") or not (", seen kept").

        `after` is a method whose trained tree it continues from.
        """
        plan = self.plan(method, **overrides)

        def answer() -> tuple[Tensor, dict[str, Any]]:
            index, training = self.train(plan, None if after is None else self.tree(after))
            if name == method and not overrides and after is None:
                self.trees[name] = index
            return self._answers(index, plan), tree_facts(plan, training)

        return self._scored(name, answer, {**asdict(plan), "after": after})

    def full_catalog(self, name: str) -> dict[str, Scores]:
        """Scores of a system that scores every item: sasrec, popularity, item-knn or ease."""

        def answer() -> tuple[Tensor, dict[str, Any]]:
            began = time.perf_counter()
            block = self._score_block(name)
            facts = {"seconds": time.perf_counter() - began}
            if name == "sasrec":  # it may have been trained before, as an estimator
                facts = self.cache.facts[self._weights_name(self.sasrec_trainer().config.width)]
            return torch.stack([self._ranked(block, exclude) for exclude in (True, False)]), dict(facts)

        trained = {
            "sasrec": settings_without_device(self.sasrec_trainer()),
            "ease": settings_without_device(EASETrainer(ridge=RIDGE)),
        }
        return self._scored(name, answer, trained.get(name))

    def model(self, name: str, trainer: ModelTrainer) -> dict[str, Scores]:
        """Scores of a model of the whole catalogue that is trained in this trial."""

        def answer() -> tuple[Tensor, dict[str, Any]]:
            began = time.perf_counter()
            model = trainer.learn(self.split.train, self.split.valid, self.seed, self.progress)
            facts = training_facts(trainer, model.validation, time.perf_counter() - began)
            found = [rank_model(model, self.split.test, DEPTH, repeats=repeats) for repeats in (False, True)]
            return torch.stack(found).to(torch.int32), facts

        return self._scored(name, answer, settings_without_device(trainer))

    def facts(self, name: str) -> dict[str, Any]:
        """Facts about the training of a system: its seconds, its history, and the log of a tree."""
        return dict(self.cache.facts[self._key(name)])

    def tree(self, method: str) -> TreeIndex:
        """The tree of a method with its usual plan, trained once in this trial."""
        if method not in self.trees:
            self.trees[method] = self.train(self.plan(method))[0]
        return self.trees[method]

    def _answers(self, index: TreeIndex, plan: TreePlan) -> Tensor:
        """Answers without and with items of the history [2, C, DEPTH]."""
        found = [
            answers(index, self.split.test, DEPTH, plan.beam, exclude, plan.product)
            for exclude in (True, False)
        ]
        return torch.stack(found).to(torch.int32)

    def _key(self, name: str) -> str:
        return f"{self.data_setup.name}/{name}/{self.seed}"

    def _scored(self, name: str, answer: Answer, settings: Settings | None = None) -> dict[str, Scores]:
        items, _ = self.cache.get(self._key(name), answer, settings)
        if items.shape != (2, len(self.split.test), DEPTH):
            raise ArtifactError(
                f"{self.cache.path}: {self._key(name)!r} was cached by an experiment on other users; use another file"
            )
        both = zip((EXCLUDED, WITH_SEEN), items.to(torch.int64), strict=True)
        return {kind: score_slates(one, self.relevant, (20, 40)) for kind, one in both}

    def _score_block(self, name: str) -> ScoreBlock:
        """A function that scores a block of items."""
        train = self.split.train
        if name == "sasrec":
            model = self.sasrec
            return lambda query, items: _sasrec_block(model, query, items)
        interactions = torch.from_numpy(train.matrix().toarray())  # [U, N]
        if name == "popularity":
            counts = interactions.sum(0)
            return lambda query, items: counts[items].expand(len(query), -1)
        if name == "item-knn":
            return linear(cosine(interactions))
        return linear(EASETrainer(ridge=RIDGE).learn(train).weights)

    def _ranked(self, block: ScoreBlock, exclude_seen: bool) -> Tensor:
        query = self.split.test.query(width=MAX_HISTORY)
        seen = full_histories(self.split.test) if exclude_seen else None
        return top_k_full(block, query, len(self.data_setup.dataset.items), DEPTH, seen)[0].to(torch.int32)


def training_facts(trainer: ModelTrainer, validation: Sequence[float], seconds: float) -> dict[str, Any]:
    """Seconds of a training, and its history where it has epochs."""
    epochs, patience = getattr(trainer, "epochs", 0), getattr(trainer, "patience", 0)
    history = {"history": history_of(validation, epochs, patience)} if epochs else {}
    return {"seconds": seconds, **history}


def tree_facts(plan: TreePlan, training: TreeTraining) -> dict[str, Any]:
    """Seconds, log and history of a tree's training; the history counts evaluations as epochs."""
    history = history_of(training.validation, -(-plan.total // plan.eval_every), plan.patience)
    seconds = training.clock() if training.clock else 0.0
    return {"log": training.state.log, "seconds": seconds, "history": history}


def settings_without_device(trainer: Any) -> dict[str, Any]:
    """All settings of a trainer that decide what it trains."""
    return {name: value for name, value in trainer.settings().items() if name != "device"}


@torch.no_grad()
def _sasrec_block(model: SASRec, query: Query, items: slice) -> Tensor:
    device = next(model.parameters()).device
    return model.scores(query.history.to(device))[:, items].float().cpu()


def rows_of(
    found: Mapping[str, Sequence[Mapping[str, Scores]]], dataset: str, metrics: Sequence[str] = METRICS
) -> list[Row]:
    """Rows of systems with their scores of every seed."""
    return [
        row(f"{name} on {dataset}", metric + kind, [float(one[kind][metric].nanmean()) for one in runs])
        for name, runs in found.items()
        for kind in (EXCLUDED, WITH_SEEN)
        for metric in metrics
    ]


def some_users(held_out: HeldOut, most: int, seed: int) -> HeldOut:
    """At most `most` random held-out users."""
    return held_out.take(np.sort(np.random.default_rng(seed).permutation(len(held_out))[:most]))
