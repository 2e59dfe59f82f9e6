"""The trainer of the boosted ranker: LightGBM trains the trees and is not needed afterwards."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.errors import MissingExtraError
from shortlist.models.ranking.boosted_trees import Trees
from shortlist.pipeline.about import TrainingHistory
from shortlist.settings import setting
from shortlist.stages import BoostedScorer
from shortlist.stages.boosted_ranker import n_tree_features, tree_features
from shortlist.stages.ranking_features import RankingFeatures
from shortlist.train.context import TrainContext
from shortlist.train.loop.convergence import FitSummary, best_of, history_of
from shortlist.train.objectives.listwise import bce
from shortlist.train.objectives.registry import Entry
from shortlist.train.rankers.ranker import RankerTrainer
from shortlist.train.rankers.ranking_features import ranking_features, renewed_features
from shortlist.train.rankers.training_data.graded import list_grades
from shortlist.train.rankers.training_data.listed import valid_items
from shortlist.train.rankers.training_data.training_set import RankingLists, TrainingSet

CUT = 10  # early stopping by NDCG@10
READS = {"lambdarank": ("sigma", "gain", "truncation"), "bce": ()}
"""Objectives of the trees, and the settings that each reads."""


@dataclass(frozen=True)
class BoostedRankerTrainer(RankerTrainer):
    """LambdaMART on the lists of the other rankers; `epochs` is the number of trees, `weight_decay` lambda_l2.

    `logq_correction` has no effect: trees are not trained by a softmax.
    """

    title: ClassVar[str] = "boosted-ranker"
    targets_per_item: ClassVar[float] = 0.0  # no parameter belongs to an item

    objective: str = setting("lambdarank", "What is minimised on each list.", choices=tuple(READS))
    negatives: str = "all-candidates"
    epochs: int = 300
    learning_rate: float = 0.05
    weight_decay: float = 1.0
    patience: int = 30
    leaves: int = setting(31, "Largest number of leaves of a tree.", least=2, most=512)
    min_leaf_size: int = setting(20, "Least number of candidates in a leaf.", least=1, most=1e9)
    days: float = setting(30.0, "Days of recent popularity.", least=0, most=100_000)

    def __post_init__(self) -> None:
        super().__post_init__()
        lightgbm()  # fail before the nominators are trained

    def list_loss(self, relevant_from: float = 1.0) -> None:
        """Refuse parameters that the trees do not read; LightGBM has losses of its own."""
        self._refuse_unread(Entry(bce, READS[self.objective]))

    def fit_stage(
        self, settings: Mapping[str, Any], context: TrainContext, training_set: TrainingSet
    ) -> tuple[BoostedScorer, TrainingHistory]:
        features = ranking_features(settings, context, self.days, training_set.what)
        limit = TimeLimit(self.minutes)
        trees, values = self._trees(features, context, training_set, limit)
        stage = BoostedScorer(features, trees, **BoostedScorer.own_settings(settings))
        summary = FitSummary(len(trees.roots), limit.reached)
        return stage, history_of(values, self.epochs, self.patience, summary)

    def renew(self, stage: BoostedScorer, context: TrainContext) -> BoostedScorer:
        """The same trees with the counts of all events."""
        return stage.renewed(features=renewed_features(stage.features, context, self.days))

    def _trees(
        self, features: RankingFeatures, context: TrainContext, training_set: TrainingSet, limit: "TimeLimit"
    ) -> tuple[Trees, list[float]]:
        """The trees up to the best iteration, and NDCG on the validation requests after each."""
        library = lightgbm()
        relevant = training_set.relevant_from if self.objective == "bce" else None
        train = _table(features, _training_lists(training_set), relevant)
        valid = _table(features, _validation_lists(training_set), relevant)
        data = library.Dataset(
            train.features, train.targets, group=train.groups, weight=train.weights, params=quiet()
        )
        recorded: dict[str, Any] = {}
        report = _progress(context, training_set.what, self.epochs)
        callbacks = [library.record_evaluation(recorded), report]
        valid_sets = {}
        if valid.targets.any():
            valid_sets["validation"] = data.create_valid(valid.features, valid.targets, group=valid.groups)
            callbacks.append(library.early_stopping(self.patience, verbose=False))
        callbacks.append(limit.callback(library, lambda: _values(recorded)))
        booster = library.train(
            self._params(context.seed, int(train.targets.max(initial=1))),
            data,
            self.epochs,
            valid_sets=list(valid_sets.values()),
            valid_names=list(valid_sets),
            callbacks=callbacks,
        )
        values = _values(recorded)
        dump = booster.dump_model(num_iteration=booster.best_iteration or None)
        return trees_of(dump["tree_info"]), values

    def _params(self, seed: int, highest: int = 1) -> dict[str, Any]:
        """The parameters of LightGBM for labels up to `highest`."""
        own: dict[str, Any] = {"objective": "binary"}
        if self.objective == "lambdarank":
            own = {"objective": "lambdarank", "sigmoid": self.sigma}
            own |= {"lambdarank_truncation_level": self.truncation} if self.truncation else {}
        gains = {"label_gain": list(range(highest + 1))} if self.gain == "linear" else {}
        return (
            quiet()
            | own
            | gains
            | {
                "metric": "ndcg",
                "eval_at": [CUT],
                "learning_rate": self.learning_rate,
                "num_leaves": self.leaves,
                "min_data_in_leaf": self.min_leaf_size,
                "lambda_l2": self.weight_decay,
                "seed": seed,
            }
        )


def _values(recorded: Mapping[str, Any]) -> list[float]:
    """NDCG on the validation requests after each tree."""
    return [float(one) for one in recorded.get("validation", {}).get(f"ndcg@{CUT}", [])]


@dataclass
class TimeLimit:
    """Ends a training of LightGBM at the first tree after some minutes, with the best trees so far; 0 = no limit."""

    minutes: float
    clock: Callable[[], float] = time.monotonic
    reached: bool = False

    def callback(self, library: Any, values: Callable[[], Sequence[float]]) -> Callable[[Any], None]:
        """To call after each tree; the clock begins now."""
        until = self.clock() + 60 * self.minutes

        def stop(state: Any) -> None:
            if self.minutes and self.clock() >= until:
                self.reached = True
                best = best_of(values()) if values() else state.iteration
                raise library.callback.EarlyStopException(best, state.evaluation_result_list or [])

        stop.order = 40  # type: ignore[attr-defined]  # after the metric is recorded
        return stop


def quiet() -> dict[str, Any]:
    """Parameters of data and training; the trees do not depend on the number of threads."""
    threads = {"num_threads": torch.get_num_threads(), "deterministic": True, "force_row_wise": True}
    return threads | {"verbosity": -1, "feature_pre_filter": False}


def lightgbm() -> Any:
    """The LightGBM module; MissingExtraError where it is not installed."""
    try:
        return import_module("lightgbm")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "lightgbm":
            raise
        raise MissingExtraError("lightgbm", "boosted") from error


def trees_of(dump: Sequence[Mapping[str, Any]]) -> Trees:
    """LightGBM's trees (`dump_model()["tree_info"]`) as tensors."""
    nodes: list[list[float]] = []  # feature, threshold, left, right, value, whether NaN goes left

    def add(node: Mapping[str, Any]) -> int:
        at = len(nodes)
        nodes.append([0, 0.0, at, at, float(node.get("leaf_value", 0.0)), 0])
        if "split_feature" in node:
            assert node["decision_type"] == "<=", node["decision_type"]
            left, right = add(node["left_child"]), add(node["right_child"])
            nodes[at] = [node["split_feature"], float(node["threshold"]), left, right, 0.0, _nan_left(node)]
        return at

    roots = [add(tree["tree_structure"]) for tree in dump]
    table = torch.tensor(nodes, dtype=torch.float64).reshape(-1, 6)
    feature, threshold, left, right, value, nan_left = table.unbind(1)
    rows = torch.tensor(roots, dtype=torch.int64)
    inner = (feature.long(), threshold.clone(), left.long(), right.long(), value.clone())
    return Trees(*inner, rows, nan_left.bool())


def _nan_left(node: Mapping[str, Any]) -> bool:
    """Where LightGBM sends NaN: to its default side, or where 0 goes if the feature was never NaN in training."""
    return bool(node["default_left"] if node["missing_type"] == "NaN" else float(node["threshold"]) >= 0)


@dataclass(frozen=True, eq=False)
class _Table:
    """Candidates of all lists as LightGBM reads them, one row each."""

    features: NDArray[np.float32]  # [n, F]
    targets: NDArray[np.int64]  # [n]
    weights: NDArray[np.float64]  # [n]
    groups: NDArray[np.int64]  # candidates of each list


Lists = tuple[Query, Candidates, Tensor, Tensor]
"""Requests, candidates, their labels [B, K], 1 for targets, and the weight of each candidate [B, K]."""


def _training_lists(training_set: TrainingSet) -> Iterator[Lists]:
    for number in range(len(training_set.training)):
        if (lists := training_set.lists(number, 0)) is not None:
            yield _labelled(lists)


def _validation_lists(training_set: TrainingSet) -> Iterator[Lists]:
    for one in training_set.validation:
        labels, _ = list_grades(
            one, torch.arange(len(one.targets)), valid_items(one.found), one.is_target, training_set.sampling
        )
        graded = one.is_target.float() if labels is None else labels
        yield one.query, one.found.keep(~graded.isnan()), graded, torch.ones(one.found.shape)


def _labelled(lists: RankingLists) -> Lists:
    """Lists with the candidates that have a label."""
    labels, mask, inclusion = lists.graded
    weight = _candidate_weights(lists)
    return lists.query, lists.found.keep(mask), labels, weight if inclusion is None else weight * inclusion


def _candidate_weights(lists: RankingLists) -> Tensor:
    """The weight of each target, and the largest of a list for its other candidates [L, M]."""
    return torch.where(lists.weight > 0, lists.weight, lists.weight.amax(1, keepdim=True))


def _table(features: RankingFeatures, every: Iterator[Lists], relevant_from: float | None = None) -> _Table:
    """All lists; with `relevant_from`, labels are whether they are at least that."""
    parts = []
    for query, found, graded, weight in every:
        valid = found.valid
        labels = graded if relevant_from is None else graded >= relevant_from
        counts = valid.sum(1)
        inputs = tree_features(features, query, found)[valid]
        parts.append((inputs, labels[valid], weight[valid], counts[counts > 0]))
    if not parts:
        empty = np.empty((0, n_tree_features(features)), np.float32)
        return _Table(empty, np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64))
    rows, targets, weights_, groups = (torch.cat(part).numpy() for part in zip(*parts, strict=True))
    return _Table(rows, targets.astype(np.int64), weights_.astype(np.float64), groups)


def _progress(context: TrainContext, what: str, trees: int) -> Callable[[Any], None]:
    return lambda state: context.progress(what, state.iteration + 1, trees)
