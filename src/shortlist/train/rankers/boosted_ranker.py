"""The boosted ranker: LightGBM grows the trees, on rehearsed requests, and is not needed afterwards."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.errors import MissingExtraError
from shortlist.models.ranking.boosted_trees import Trees
from shortlist.stages import BoostedScorer
from shortlist.stages.boosted import read_sheet
from shortlist.stages.sheet import Sheet
from shortlist.train.context import TrainContext
from shortlist.train.loop.convergence import course
from shortlist.train.rankers.calibrate import calibrated
from shortlist.train.rankers.features import learned_sheet, own_settings, renewed_sheet
from shortlist.train.rankers.ranker import RankerTrainer, TrainingSet

CUT = 10  # the first so many places are what the trees are judged by


@dataclass(frozen=True)
class BoostedRankerTrainer(RankerTrainer):
    """LambdaMART over the same lists as the other rankers; `epochs` counts trees, `weight_decay` holds leaf values back.

    What stands for the whole catalogue in a softmax (`correct`) has no meaning for trees and is not added.
    """

    epochs: int = 300
    learning_rate: float = 0.05
    weight_decay: float = 1.0
    patience: int = 30
    leaves: int = 31
    least: int = 20  # candidates that a leaf must hold
    days: float = 30.0

    def __post_init__(self) -> None:
        super().__post_init__()
        lightgbm()  # whoever lacks it hears so before the nominators learn

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> BoostedScorer:
        what = str(settings.get("name", "boosted-ranker"))
        lessons = self.lessons(context, what)
        sheet = learned_sheet(settings, context, self.days, what)
        trees, judged = self._grown(sheet, lessons, context, what)
        stage = BoostedScorer(sheet, trees, **own_settings(settings))
        context.note(what, course(judged, self.epochs, self.patience) | lessons.told())
        return calibrated(stage, self.calibrate, lessons.held, what)

    def renew(self, stage: BoostedScorer, context: TrainContext) -> BoostedScorer:
        """The same trees with the counts of all events."""
        return stage.renewed(sheet=renewed_sheet(stage.sheet, context, self.days))

    def _grown(
        self, sheet: Sheet, lessons: TrainingSet, context: TrainContext, what: str
    ) -> tuple[Trees, list[float]]:
        library = lightgbm()
        taught, held = _sheets(sheet, _taught(lessons)), _sheets(sheet, _held(lessons))
        data = library.Dataset(
            taught.features, taught.wanted, group=taught.groups, weight=taught.weights, params=QUIET
        )
        said: dict[str, Any] = {}
        hears = [library.record_evaluation(said), _tells(context, what, self.epochs)]
        judges = {}
        if held.wanted.any():
            judges["held"] = data.create_valid(held.features, held.wanted, group=held.groups)
            hears.append(library.early_stopping(self.patience, verbose=False))
        booster = library.train(
            self._settings(context.seed),
            data,
            self.epochs,
            valid_sets=list(judges.values()),
            valid_names=list(judges),
            callbacks=hears,
        )
        judged = [float(one) for one in said.get("held", {}).get(f"ndcg@{CUT}", [])]
        return planted(booster.dump_model(num_iteration=booster.best_iteration or None)["tree_info"]), judged

    def _settings(self, seed: int) -> dict[str, Any]:
        return QUIET | {
            "objective": "lambdarank",
            "metric": "ndcg",
            "eval_at": [CUT],
            "learning_rate": self.learning_rate,
            "num_leaves": self.leaves,
            "min_data_in_leaf": self.least,
            "lambda_l2": self.weight_decay,
            "seed": seed,
        }


QUIET = {
    "verbosity": -1,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "feature_pre_filter": False,
}


def lightgbm() -> Any:
    """The library that grows trees, imported when it is asked for."""
    try:
        return import_module("lightgbm")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "lightgbm":
            raise
        raise MissingExtraError("lightgbm", "boosted") from error


def planted(grown: Sequence[Mapping[str, Any]]) -> Trees:
    """Trees as LightGBM tells them (`dump_model()["tree_info"]`) as tensors."""
    nodes: list[list[float]] = []  # feature, threshold, left, right, value

    def plant(one: Mapping[str, Any]) -> int:
        at = len(nodes)
        nodes.append([0, 0.0, at, at, float(one.get("leaf_value", 0.0))])
        if "split_feature" in one:
            assert one["decision_type"] == "<=", one["decision_type"]
            left, right = plant(one["left_child"]), plant(one["right_child"])
            nodes[at] = [one["split_feature"], float(one["threshold"]), left, right, 0.0]
        return at

    roots = [plant(one["tree_structure"]) for one in grown]
    table = torch.tensor(nodes, dtype=torch.float64).reshape(-1, 5)
    feature, threshold, left, right, value = table.unbind(1)
    rows = torch.tensor(roots, dtype=torch.int64)
    return Trees(feature.long(), threshold.clone(), left.long(), right.long(), value.clone(), rows)


@dataclass(frozen=True, eq=False)
class _Sheets:
    """Lists of candidates as the library reads them, one below the other."""

    features: NDArray[np.float32]  # [n, F]
    wanted: NDArray[np.int64]  # [n]
    weights: NDArray[np.float64]  # [n]
    groups: NDArray[np.int64]  # how many candidates each list has


RankingLists = tuple[Query, Candidates, Tensor, Tensor]
"""Requests, candidates, which are wanted [B, K], and the weight of each list [B]."""


def _taught(lessons: TrainingSet) -> Iterator[RankingLists]:
    for number in range(len(lessons.taught)):
        if (lists := lessons.lists(number, 0)) is not None:
            wanted = torch.arange(lists.found.shape[1]).expand(lists.found.shape) == 0
            yield lists.query, lists.found, wanted, lists.weight


def _held(lessons: TrainingSet) -> Iterator[RankingLists]:
    for one in lessons.held:
        yield one.query, one.found, one.wanted, torch.ones(len(one.query))


def _sheets(sheet: Sheet, many: Iterator[RankingLists]) -> _Sheets:
    parts = []
    for query, found, wanted, weight in many:
        there = found.valid
        weights = weight[:, None].expand(there.shape)[there]
        counts = there.sum(1)
        parts.append((read_sheet(sheet, query, found)[there], wanted[there], weights, counts[counts > 0]))
    if not parts:
        wide = sheet.size + sheet.columns.codes.shape[1]
        return _Sheets(
            np.empty((0, wide), np.float32), np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64)
        )
    told, labels, counted, groups = (torch.cat(part).numpy() for part in zip(*parts, strict=True))
    return _Sheets(told, labels.astype(np.int64), counted.astype(np.float64), groups)


def _tells(context: TrainContext, what: str, trees: int) -> Callable[[Any], None]:
    return lambda told: context.progress(what, told.iteration + 1, trees)
