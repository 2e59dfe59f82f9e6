"""The features of a candidate that rankers read: nominations, counts, match with the history, catalogue columns."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from shortlist.artifact.json_tensor import json_from_tensor, json_to_tensor
from shortlist.artifact.tensor_checks import check_floats, check_shape, check_whole
from shortlist.data import Candidates, Query
from shortlist.data.membership import is_in, largest_of, sums_of
from shortlist.errors import ArtifactError
from shortlist.settings import Setting
from shortlist.stages.calibrated import Calibrated
from shortlist.stages.catalog_columns import MAX_TAGS, MAX_VALUES, CatalogColumns

RECENT = 5  # length of the recent history
POOL = ("z", "last", "max", "mean")  # columns of nominators with score_pool that are features; may be NaN
CLIP = 5.0  # largest standardised score that enters a mean
NOT_SCORED = -3.0  # standardised score of a candidate that a nominator cannot score
SCORED = "scored"  # whether a nominator with score_pool could score the candidate
ITEMS = ("n_nominators", "mean_z", "trend", "category_recency", "in_history", "history_popularity")
REPEATS = ("history_count", "history_recency")  # where candidates can be items of the history
EXTRAS = "extras"  # names of the further features, as JSON bytes; bundles before version 0.4.0 have none
NEW = {"age", "factors", "trees.nan_left"}  # tensors that no bundle before version 0.4.0 has

NOMINATORS = Setting(
    "nominators", list[str], None, "Nominators whose scores and ranks are features; default: all."
)
COLUMNS = Setting(
    "columns", list[str], None, "Catalogue columns that are features; default: all that are informative."
)


@dataclass(frozen=True, eq=False)
class RankingFeatures:
    """Features of candidates [B, K, F]; each depends on the request and the candidate, not on other candidates.

    Without catalogue columns (None) only nominations, counts, category and history length are features. `extras` names
    further ones, of `ITEMS`, `REPEATS`, "age", and columns `NAME.z` and so on of nominators with `score_pool`, where a
    value that does not exist is NaN. Bundles before version 0.4.0 have none.
    """

    nominators: tuple[str, ...]
    popularity: Tensor  # [N] events, all time
    recent_popularity: Tensor  # [N] events in the last days of the log
    category: Tensor  # rows of the categories: [N] one per item, or [N, C] lists, -1 = none
    columns: CatalogColumns | None = None
    extras: tuple[str, ...] = ()
    age: Tensor | None = None  # [N] days between the first event and the end of the log, -1 without events

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each feature; those of the catalogue are numbered."""
        nominations = (
            f"{name}.{what}"
            for name in self.nominators
            for what in ("nominated", "score", "rank")
            if what != "score" or name not in self.scored
        )
        counts = ("score", "popularity", "recent_popularity")
        history = ("category_share", "recent_category_share", "history_length")
        return (*nominations, *counts, *history, *self.extras, *self._column_names())

    def __call__(self, query: Query, found: Candidates) -> Tensor:
        rows = found.items.clamp(min=0)  # [B, K]
        features = [
            column for name in self.nominators for column in _nomination(found, name, name not in self.scored)
        ]
        features.append(torch.nan_to_num(found.scores, nan=0.0, posinf=0.0, neginf=0.0))
        features += [self._log_share[rows], self._recent_log_share[rows]]
        features += [self._category_share(query.history, rows)]
        features += [self._category_share(query.history[:, -RECENT:], rows)]
        features.append(torch.log1p((query.history >= 0).sum(1, keepdim=True).float()).expand(rows.shape))
        features += [self._extra(name, query, found, rows) for name in self.extras]
        stacked = torch.stack([one.to(torch.float32) for one in features], dim=-1)  # [B, K, F]
        if self.columns is None:
            return stacked
        return torch.cat(
            [stacked, self.columns.numbers[rows], self.columns.match(query.history, rows)], dim=-1
        )

    def settings(self) -> dict[str, Any]:
        """The names of the nominators, and of the columns where there are any."""
        own = {"nominators": list(self.nominators)}
        return own if self.columns is None else own | {"columns": list(self.columns.names)}

    def tensors(self) -> dict[str, Tensor]:
        further = {EXTRAS: json_to_tensor({EXTRAS: self.extras})}
        further |= {} if self.age is None else {"age": self.age}
        return self._counts() | further | ({} if self.columns is None else self.columns.tensors())

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """Rebuild the features from settings and tensors."""
        names = ("popularity", "recent_popularity", "category")
        if missing := [name for name in names if name not in tensors]:
            raise ArtifactError(f"ranker: tensor {missing[0]!r} is missing; make the artifact again")
        columns = CatalogColumns.build(settings["columns"], tensors) if "columns" in settings else None
        extras, age = _stored_extras(tensors), tensors.get("age")
        if "age" in extras and age is None:
            raise ArtifactError("ranker: tensor 'age' is missing; make the artifact again")
        popularity, recent, category = (tensors[name] for name in names)
        nominators = tuple(settings.get("nominators", ()))
        made = cls(nominators, popularity, recent, category, columns, extras, age)
        if not made._valid():
            raise ArtifactError(
                "ranker: expected a count and a category, from 0, for every item; make the artifact again"
            )
        return made

    def check_catalogue(self, n_items: int, nominators: Collection[str]) -> None:
        """Raise ArtifactError if counts and columns are of another catalogue, or nominators are missing."""
        check_shape("popularity", self.popularity, n_items)
        if self.age is not None:
            check_shape("age", self.age, n_items)
            check_floats("age", self.age)
        # As many categories as entries at most: the number of categories is a size of memory.
        check_whole("category", self.category, -1, self.category.numel())
        if self.columns is not None:
            check_whole("columns.codes", self.columns.codes, 0, MAX_VALUES + 1)
            check_whole("columns.tags", self.columns.tags, -1, MAX_TAGS)
        if missing := sorted({*self.nominators, *self.scored} - set(nominators)):
            raise ArtifactError(f"nominators: {missing[0]!r} is not a nominator of the pipeline")

    def _counts(self) -> dict[str, Tensor]:
        return {
            "popularity": self.popularity,
            "recent_popularity": self.recent_popularity,
            "category": self.category,
        }

    def _valid(self) -> bool:
        size = (len(self.popularity) if self.columns is None else len(self.columns.numbers),)
        if self.category.dtype != torch.int64 or self.category.dim() not in (1, 2):
            return False
        first = (self.popularity, self.recent_popularity, self._categories[:, :1].flatten())
        return bool((self._categories >= -1).all()) and all(
            one.shape == size and not bool((one < 0).any() | one.isnan().any()) for one in first
        )

    def _column_names(self) -> tuple[str, ...]:
        if self.columns is None:
            return ()
        numbers = (f"number_{at}" for at in range(self.columns.numbers.shape[1]))
        values = (f"value_{at}.match" for at in range(self.columns.codes.shape[1]))
        return (*numbers, *values, "tags.match")

    def _extra(self, name: str, query: Query, found: Candidates, rows: Tensor) -> Tensor:
        """A further feature by its name [B, K]."""
        nominator, _, what = name.rpartition(".")
        if nominator:
            values = _column(found, f"{nominator}.{'z' if what == SCORED else what}")
            return (~values.isnan()).float() if what == SCORED else values
        if name == "age":
            return self._log_age[rows]
        compute: Callable[[Query, Candidates, Tensor], Tensor] = getattr(self, f"_{name}")
        return compute(query, found, rows)

    def _n_nominators(self, query: Query, found: Candidates, rows: Tensor) -> Tensor:
        """The share of the nominators that nominated the candidate."""
        ranks = [_column(found, f"{name}.rank") for name in self.nominators]
        return (~torch.stack(ranks).isnan()).float().mean(0) if ranks else torch.zeros(rows.shape)

    def _mean_z(self, query: Query, found: Candidates, rows: Tensor) -> Tensor:
        """The mean of the standardised scores that exist, NaN where none does."""
        scores = [_column(found, f"{name}.z").clamp(-CLIP, CLIP) for name in self.scored]
        return torch.stack(scores).nanmean(0) if scores else torch.full(rows.shape, torch.nan)

    def _trend(self, query: Query, found: Candidates, rows: Tensor) -> Tensor:
        """The log ratio of the recent share of events and that of all time."""
        return (self._recent_log_share - self._log_share)[rows]

    def _in_history(self, query: Query, found: Candidates, rows: Tensor) -> Tensor:
        return is_in(rows, query.history).float()

    def _history_count(self, query: Query, found: Candidates, rows: Tensor) -> Tensor:
        """The log of 1 + the number of events of the candidate in the history."""
        return torch.log1p(sums_of(rows, query.history, (query.history >= 0).float()))

    def _history_recency(self, query: Query, found: Candidates, rows: Tensor) -> Tensor:
        """1 / steps back to the last event of the candidate in the history, 0 where there is none."""
        return largest_of(rows, query.history, _recency(query.history))

    def _history_popularity(self, query: Query, found: Candidates, rows: Tensor) -> Tensor:
        """The mean log share of the history's items, NaN without history."""
        known = (query.history >= 0) & (query.history < len(self._log_share))
        shares = self._log_share[query.history.masked_fill(~known, 0)].masked_fill(~known, torch.nan)
        return shares.nanmean(1, keepdim=True).expand(rows.shape)

    def _category_recency(self, query: Query, found: Candidates, rows: Tensor) -> Tensor:
        """1 / steps back to the last history item that shares a category, 0 where none does."""
        history, recency = query.history, _recency(query.history)
        past = self._categories[history.clamp(min=0)] + 1  # [B, H, C], 0 = none
        latest = torch.zeros((len(history), self._n_categories + 1), device=history.device)
        values = recency.repeat_interleave(past.shape[2], dim=1)
        latest.scatter_reduce_(1, past.flatten(1), values, "amax")
        own = self._categories[rows] + 1  # [B, K, C]
        shared = latest.gather(1, own.flatten(1)).view(own.shape) * (own > 0)
        return shared.amax(-1)

    @cached_property
    def scored(self) -> tuple[str, ...]:
        """The nominators with `score_pool`: their standardised scores are features, which have no scale."""
        return tuple(name.removesuffix(".z") for name in self.extras if name.endswith(".z"))

    def _category_share(self, history: Tensor, rows: Tensor) -> Tensor:
        """The share of the history that has the candidate's category, the mean over its categories [B, K]."""
        valid = history >= 0  # [B, H]
        weight = valid / valid.sum(1, keepdim=True).clamp(min=1)
        past = self._categories[history.clamp(min=0)] + 1  # [B, H, C], 0 = none
        shares = torch.zeros((len(history), self._n_categories + 1), device=history.device)
        shares.scatter_add_(1, past.flatten(1), weight.repeat_interleave(past.shape[2], dim=1))
        own = self._categories[rows] + 1  # [B, K, C]
        found = shares.gather(1, own.flatten(1)).view(own.shape) * (own > 0)
        return found.sum(-1) / (own > 0).sum(-1).clamp(min=1)

    @cached_property
    def _categories(self) -> Tensor:
        """The categories as lists [N, C]."""
        return self.category if self.category.dim() == 2 else self.category[:, None]

    @cached_property
    def _n_categories(self) -> int:
        return int(self.category.max()) + 1 if len(self.category) else 1

    @cached_property
    def _log_age(self) -> Tensor:
        assert self.age is not None
        return torch.log1p(self.age.masked_fill(self.age < 0, torch.nan))

    @cached_property
    def _log_share(self) -> Tensor:
        return torch.log(self.popularity.float() / self.popularity.sum().clamp(min=1) + 1e-6)

    @cached_property
    def _recent_log_share(self) -> Tensor:
        return torch.log(self.recent_popularity.float() / self.recent_popularity.sum().clamp(min=1) + 1e-6)


def _stored_extras(tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
    """The names of the further features among the tensors of a stage."""
    if EXTRAS not in tensors and not NEW & set(tensors):
        return ()
    names = json_from_tensor(tensors, EXTRAS, "ranker").get(EXTRAS)
    known = {*ITEMS, *REPEATS, "age"}
    if not isinstance(names, list) or not all(
        isinstance(one, str) and (one in known or one.rpartition(".")[2] in (*POOL, SCORED)) for one in names
    ):
        raise ArtifactError(f"ranker: {EXTRAS} has unknown features {names!r}; make the artifact again")
    return tuple(names)


def _recency(history: Tensor) -> Tensor:
    """1 / steps back from the request, of every event of the history [B, H]; 0 for padding."""
    return (history >= 0) / torch.arange(history.shape[1], 0, -1, device=history.device)


def _column(found: Candidates, name: str) -> Tensor:
    """A column of the pool, NaN where there is none: its nominator may have been skipped or left out."""
    return found.columns[name] if name in found.columns else torch.full_like(found.scores, torch.nan)


def _nomination(found: Candidates, name: str, with_score: bool) -> tuple[Tensor, ...]:
    """Whether a nominator nominated the candidate, its score, and its rank as 1 / (1 + rank / 10) [B, K] each."""
    rank = found.columns[f"{name}.rank"]
    score = (torch.nan_to_num(found.columns[f"{name}.score"], nan=0.0),) if with_score else ()
    return (~rank.isnan()).float(), *score, torch.nan_to_num(1.0 / (1.0 + rank / 10.0), nan=0.0)


def standardised(found: Candidates, name: str) -> Tensor:
    """The standardised score of a nominator with `score_pool` [B, K]; low where it cannot score a candidate."""
    return _column(found, f"{name}.z").nan_to_num(NOT_SCORED)


@dataclass(frozen=True, eq=False, repr=False)
class FeatureScorer(Calibrated):
    """A scorer that reads ranking features."""

    feature_settings: ClassVar[tuple[Setting, ...]] = (NOMINATORS, COLUMNS)

    features: RankingFeatures

    def check_catalogue(self, n_items: int, nominators: Collection[str]) -> None:
        self.features.check_catalogue(n_items, nominators)

    @classmethod
    def declared(cls) -> tuple[Setting, ...]:
        return (*super().declared(), *cls.feature_settings)

    @classmethod
    def own_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that are fields of the stage, not of its features."""
        of_features = {one.name for one in cls.feature_settings}
        return {name: value for name, value in settings.items() if name not in of_features}

    def settings(self) -> dict[str, Any]:
        return super().settings() | self.features.settings()

    def tensors(self) -> dict[str, Tensor]:
        return {**super().tensors(), **self.features.tensors()}
