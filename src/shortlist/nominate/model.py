"""The items of the whole catalogue that a model scores best."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Self
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.errors import ArtifactError, ConfigError
from shortlist.grammar import Knob, Nominator
from shortlist.index import INDEXES, VectorIndex, index_from_tensors, index_to_tensors, make_index, top
from shortlist.index.registry import index_type
from shortlist.index.sparse_top import sparse_top
from shortlist.models.model import Model, VectorModel
from shortlist.models.registry import packed, unpacked
from shortlist.models.serving_noise import noisy_users
from shortlist.models.sparse_scores import SparseScores
from shortlist.models.user_vectors import user_vectors
from shortlist.nominate.propensity import Propensities
from shortlist.settings import setting

RECENT = 50  # last items of a history that candidates are compared with
BLOCK = 512  # candidates compared at a time
WIDE = 8  # items that compete for a place when propensities are computed, per place
PROBE = 8  # width of the empty index that settings are tried on


@dataclass(frozen=True, eq=False, repr=False)
class ModelNominator(Nominator):
    """The items with the best scores; a user without history gets the model's scores for an empty history.

    A model whose scores are products of vectors is searched with an index, which is built with the stage and saved
    with it. Any other model scores every item. User vectors of live states come with the query. When a stage is renewed
    with another model, pass built=None too.
    """

    model: Model
    exclude_seen: bool = setting(False, "Leave out the request's history before the best items are taken.")
    index: str = setting("exact", "Kind of index; all but exact need a model with vectors.", choices=INDEXES)
    ef: int = setting(0, "Search width of an HNSW index; 0 = its default.", least=0, most=1_000_000)
    nprobe: int = setting(0, "Cells searched by an IVF index; 0 = its default.", least=0, most=1_000_000)
    serving_noise: float = setting(
        0.0,
        "Exploration: standard deviation of the noise on user vectors, relative to their length; needs a model with "
        "vectors. The column propensity holds the probabilities of the nominated items.",
        least=0,
        most=10,
    )
    built: VectorIndex | None = field(default=None, kw_only=True)  # None: built from the model's vectors

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "built", self._index())

    @torch.no_grad()
    def nominate(self, query: Query) -> Candidates:
        exclude = query.history if self.exclude_seen else None
        answer = self._answer(query)
        if self.score_pool:
            self._answers[query] = answer
        items, scores, columns = self._explored(answer, query.seed, exclude)
        if self.model.needs_history:
            items = items.masked_fill(~(query.history >= 0).any(1, keepdim=True), -1)
        return Candidates.of(items, scores.masked_fill(items < 0, 0.0), columns)

    @torch.no_grad()
    def item_columns(self, query: Query, items: Tensor) -> Mapping[str, Tensor]:
        answer = self._answers.pop(query, None)
        answer = self._answer(query) if answer is None else answer
        scores = self._of(answer, items)
        if self.model.needs_history:
            scores = scores.masked_fill(~(query.history >= 0).any(1, keepdim=True), torch.nan)
        return {"score": scores, **history_match(self.model, query.history, items)}

    def _answer(self, query: Query) -> Tensor | SparseScores:
        """User vectors [B, D]; for a model without vectors its sparse scores, or the scores of all items [B, N]."""
        if isinstance(self.model, VectorModel):
            return user_vectors(self.model, query)
        sparse = self.model.sparse_scores(query.history)
        return self.model.scores(query.history, query.user) if sparse is None else sparse

    def _explored(
        self, answer: Tensor | SparseScores, seeds: Tensor, exclude: Tensor | None
    ) -> tuple[Tensor, Tensor, Mapping[str, Tensor]]:
        """The best items for noisy user vectors, by their scores without noise, and their probabilities."""
        if (
            not self.serving_noise
            or not isinstance(answer, Tensor)
            or not isinstance(self.model, VectorModel)
        ):
            return *self._best(answer, exclude), {}
        items, _ = self._best(noisy_users(answer, self.serving_noise, seeds), exclude)
        scores = self._of(answer, items.clamp(min=0)).masked_fill(items < 0, -torch.inf)
        order = scores.sort(dim=1, descending=True, stable=True).indices
        items, scores = items.gather(1, order), scores.gather(1, order)
        assert self.built is not None
        wide = partial(self.built.search, answer, WIDE * self.limit, exclude)
        chances = Propensities(
            self.model.vectors(), answer, items, seeds, self.serving_noise, self.limit, wide
        )
        return items, scores, chances

    def _best(self, answer: Tensor | SparseScores, exclude: Tensor | None) -> tuple[Tensor, Tensor]:
        """The best items of each request [B, K], -1 = none, and their scores."""
        if isinstance(answer, SparseScores):
            n_items = len(answer.base)
            return sparse_top(
                answer.keys,
                answer.values,
                n_items,
                self.limit,
                exclude,
                answer.base,
                answer.order,
                answer.scale,
            )
        if self.built is not None:
            return self.built.search(answer, self.limit, exclude)
        scores, items = top(answer, self.limit, exclude)
        return items.masked_fill(scores == -torch.inf, -1), scores

    def _of(self, answer: Tensor | SparseScores, items: Tensor) -> Tensor:
        """The scores of given items [B, K]."""
        if isinstance(answer, SparseScores):
            return answer.of(items)
        if isinstance(self.model, VectorModel):
            return self.model.score_vectors(answer, items)
        return answer.gather(1, items)

    @cached_property
    def _answers(self) -> "WeakKeyDictionary[Query, Tensor | SparseScores]":
        """What the model computed for requests that are nominated and not scored yet: it runs once per request."""
        return WeakKeyDictionary()

    def check_catalogue(self, n_items: int, nominators: Collection[str]) -> None:
        self.model.check_catalogue(n_items)
        if self.built is None or not isinstance(self.model, VectorModel):
            return
        expected, got = tuple(self.model.vectors().shape), (self.built.n_items, self.built.width)
        if expected != got:
            raise ArtifactError(f"the model has vectors of the shape {expected}, its index {got}")

    def knobs(self) -> tuple[Knob, ...]:
        params = {} if self.built is None or self.index == "exact" else self.built.settings()
        own = [Knob(name, params[name], "double") for name in ("ef", "nprobe") if params.get(name)]
        noise = [Knob("serving_noise", self.serving_noise, "off")] if self.serving_noise else []
        return (*super().knobs(), *own, *noise)

    def tensors(self) -> dict[str, Tensor]:
        # An exact index searches the model's own vectors, which are stored already.
        own = None if self.index == "exact" else self.built
        return {**packed(self.model), **({} if own is None else index_to_tensors(own))}

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        return cls(unpacked(tensors), **settings, built=index_from_tensors(tensors))

    @torch.no_grad()
    def _index(self) -> VectorIndex | None:
        """The given index with this stage's knobs, or a new one; None for a model without vectors."""
        params = index_settings(vars(self))
        if not isinstance(self.model, VectorModel):
            check_index(type(self.model), vars(self))
            return None
        if self.built is not None and self.built.kind == self.index != "exact":
            return self.built.tuned(**params)
        return make_index(self.index, self.model.vectors(), **params)


def history_match(model: Model, history: Tensor, items: Tensor) -> dict[str, Tensor]:
    """How similar given items [B, K] are to the recent history: `last` item, `max` and `mean`; NaN without history."""
    recent = history[:, -RECENT:]
    is_item = (recent >= 0) & (recent < model.config.n_items)
    known, rows = is_item[:, None, :], recent.masked_fill(~is_item, 0)  # [B, 1, H], [B, H]
    blocks = [model.history_similarities(rows, part) for part in torch.split(items, BLOCK, dim=1)]
    if not blocks or not recent.shape[1] or any(one is None for one in blocks):
        return {}
    parts = [one.masked_fill(~known, torch.nan) for one in blocks if one is not None]  # [B, <= BLOCK, H] each
    lowest = [one.nan_to_num(-torch.inf).amax(2) for one in parts]
    columns = {
        "last": [one[:, :, -1] for one in parts],
        "max": lowest,
        "mean": [one.nanmean(2) for one in parts],
    }
    empty = ~known.any(2)
    return {name: torch.cat(one, dim=1).masked_fill(empty, torch.nan) for name, one in columns.items()}


def index_settings(settings: Mapping[str, Any]) -> dict[str, int]:
    """The settings of an index that are set."""
    return {name: settings[name] for name in ("ef", "nprobe") if settings.get(name)}


def check_index(model: type[Any], settings: Mapping[str, Any]) -> None:
    """Refuse an index or noise that this class of models cannot use, a missing library, settings of another index."""
    index, params = str(settings.get("index", "exact")), index_settings(settings)
    index_type(index)
    if issubclass(model, VectorModel):
        make_index(index, torch.zeros(0, PROBE), **params)
    elif index != "exact" or params:
        raise ConfigError(
            f"index {index!r} needs a model whose scores are products of vectors, got {model.__name__}; "
            "remove index, ef and nprobe"
        )
    elif settings.get("serving_noise"):
        raise ConfigError(
            f"serving_noise needs a model whose scores are products of vectors, got {model.__name__}; remove it"
        )
