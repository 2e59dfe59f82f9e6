"""A trained pipeline together with ids, titles and user histories: takes ids, returns ids and titles."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import torch
from torch import Tensor

from shortlist.data import UNKNOWN, Catalog, Query, Vocabulary
from shortlist.errors import ConfigError
from shortlist.grammar import Pipeline
from shortlist.models.user_vectors import state_key
from shortlist.pipeline.about import About
from shortlist.pipeline.batch.job import Observer
from shortlist.pipeline.batch.recommend_all import UserIds, stream, write
from shortlist.pipeline.batch.users import UnknownUsers
from shortlist.pipeline.batch.write import Written
from shortlist.pipeline.explain import Explanation, explain
from shortlist.pipeline.live.states import check_bundle, live_states, read_users, state_versions, version_in
from shortlist.pipeline.recipe import Recipe
from shortlist.pipeline.request_seeds import request_seeds
from shortlist.pipeline.run import Slate, run
from shortlist.progress import Progress, silent
from shortlist.stages.filters import Excluded
from shortlist.state import ApplyReport, LiveUsers, StateSettings, UserEvent, UserHistories, UserStates


@dataclass(frozen=True)
class Item:
    """An item as the outside knows it."""

    item_id: int | str
    title: str
    categories: tuple[str, ...]  # none if unknown

    @property
    def category(self) -> str:
        """All categories in one text, for people."""
        return ", ".join(self.categories)


@dataclass(frozen=True)
class Recommendation(Item):
    """One item of a slate."""

    rank: int  # from 1
    score: float | None  # None where the score is not finite
    nominators: tuple[str, ...]
    propensity: float | None = None  # probability of the draw, where a stage samples


@dataclass(frozen=True)
class Request:
    """A known user, or a history of item ids; unknown ids are ignored."""

    user: int | str | None = None
    history: Sequence[int | str] | None = None
    k: int | None = None  # None: as many as the pipeline gives
    exclude: Sequence[int | str] = ()
    seed: int = 0  # of stages that sample: the same seed and user give the same slate
    time: int | None = None  # None: the end of the log

    def __post_init__(self) -> None:
        if not -(2**63) <= self.seed < 2**63:
            raise ConfigError(f"a request's seed must fit into 64 bits, got {self.seed}")


@dataclass(frozen=True, eq=False)
class Recommender:
    """A trained pipeline that is ready to answer."""

    pipeline: Pipeline
    catalog: Catalog
    users: Vocabulary
    histories: UserHistories
    about: About = field(default_factory=About)
    training_sample: Mapping[str, Tensor] = field(
        default_factory=dict
    )  # candidates its scorers were trained on
    recipe: Recipe | None = None  # what it was trained from
    measured: Callable[[], Pipeline] | None = None  # the pipeline before the refit; None: there was no refit
    # Slates of baselines that were fitted in training: part ("valid", "test") -> name -> item rows [C, k].
    baselines: Mapping[str, Mapping[str, Tensor]] = field(default_factory=dict)
    states: UserStates | None = (
        None  # live events and vectors of users; None: requests are answered from the bundle
    )

    def live(self, settings: StateSettings | None = None, states: UserStates | None = None) -> "Recommender":
        """The recommender with these states of users, or with a new store, which `apply` adds events to."""
        if states is None:
            return replace(self, states=live_states(self, settings or StateSettings()))
        check_bundle(self, states)
        return replace(self, states=states)

    def apply(self, events: Sequence[UserEvent], now_ms: int) -> ApplyReport:
        """Add live events; the next requests of their users are answered from these too, without a training."""
        if self.states is None:
            raise ConfigError(
                "the recommender has no live users; begin with: recommender = recommender.live()"
            )
        return self.states.apply(events, now_ms)

    def as_measured(self) -> "Recommender":
        """The recommender with the pipeline that saw the training part of the split only: for every measurement.

        `evaluate`, `compare` and `diagnose` use it and bring the histories of their requests. Its own histories and
        `about.ends` are those of the served bundle, so a request by user id would see events after the training part.
        """
        if self.measured is None and self.states is None:
            return self
        pipeline = self.pipeline if self.measured is None else self.measured()
        return replace(self, pipeline=pipeline, measured=None, states=None)

    def query(self, requests: Sequence[Request]) -> Query:
        """A batch of requests; a given history replaces the stored one and live events."""
        found = self._read(requests)
        times = [self.about.ends if r.time is None else r.time for r in requests]
        seeds = request_seeds([r.seed for r in requests], [r.user for r in requests])
        query = Query.of(found.histories, found.rows, times, seeds)
        if found.vectors is not None:
            query = replace(query, context={**query.context, state_key(self._version): found.vectors})
        excluded = [self._known(request.exclude) for request in requests]
        widest = max((len(rows) for rows in excluded), default=0)
        if not widest:
            return query
        padded = torch.tensor([rows + [UNKNOWN] * (widest - len(rows)) for rows in excluded])
        return replace(query, context={**query.context, "exclude": padded})

    def history(self, request: Request) -> list[int]:
        """The item rows a request is answered from."""
        if request.history is not None:
            return self._known(request.history)
        if self.states is not None and request.user is not None:
            return self.states.history(request.user, self._version)
        return self.histories.of(self.row(request))

    def row(self, request: Request) -> int:
        """The row of the user of a request in the training data, -1 for an unknown one."""
        if request.user is None:
            return UNKNOWN
        if self.states is None:
            return self.users.row(request.user)
        return self.states.row(request.user, self._version)

    def knows(self, user: int | str | None) -> bool:
        """Whether a user is in the bundle or has live events."""
        if user is None:
            return False
        if self.states is None:
            return self.users.row(user) != UNKNOWN
        version = self._version
        return self.states.row(user, version) != UNKNOWN or bool(self.states.history(user, version))

    def recommend(self, request: Request) -> Slate:
        """Answer one request."""
        return run(self.prepared(request), self.query([request]))

    def prepared(self, request: Request) -> Pipeline:
        """The pipeline with the slate size of the request; excluded items are removed first, visible in the trace."""
        sized = resized(self.pipeline, request.k)
        if not request.exclude:
            return sized
        pool, *rest = sized.stages
        return Pipeline((pool, Excluded(name=_free_name("excluded", sized)), *rest), name=sized.name)

    def explain(self, request: Request, item: int | str) -> Explanation:
        """Follow one item through one request."""
        return explain(self.recommend(request).trace, self.item_row(item))

    def recommend_all(
        self,
        users: UserIds | None = None,
        k: int | None = None,
        *,
        seed: int = 0,
        unknown: UnknownUsers = "answer",
    ) -> pa.RecordBatchReader:
        """The slates of all users, or of these ids, as a stream of Arrow record batches.

        It has one row per recommended item: user, item, rank, score, title, nominators. Each slate is that of a single
        request. Users who are not known are answered as users without a history, or left out with `unknown="skip"`.
        """
        return stream(self, resized(self.pipeline, k), users, seed, unknown)

    def write_recommendations(
        self,
        out: Path | str,
        users: UserIds | None = None,
        k: int | None = None,
        *,
        seed: int = 0,
        unknown: UnknownUsers = "answer",
        force: bool = False,
        progress: Progress = silent,
        observe: Observer | None = None,
    ) -> Written:
        """The table of `recommend_all` in a file that ends in .parquet, .csv or .jsonl, whole or not at all.

        A run that was stopped is resumed by the same call. `force` replaces a file that exists. `observe` is called
        with the pipeline, the slates and the user ids of every batch, from several threads; such a run is not resumed.
        """
        sized = resized(self.pipeline, k)
        return write(self, sized, Path(out), users, seed, unknown, force, progress, observe)

    def item_row(self, item: int | str) -> int:
        """The row of an item that must exist."""
        row = self.catalog.vocabulary.row(item)
        if row == UNKNOWN:
            raise ConfigError(f"item {item!r} is not in the catalogue of {len(self.catalog)} items")
        return row

    def recommendations(self, slate: Slate, row: int = 0) -> tuple[Recommendation, ...]:
        """The slate of one request, best first."""
        places = slate.candidates.valid[row].nonzero().flatten().tolist()
        return tuple(self._entry(slate, row, place, rank) for rank, place in enumerate(places, start=1))

    def item(self, row: int) -> Item:
        """Id, title and categories of an item."""
        catalog = self.catalog
        return Item(catalog.vocabulary.id(row), catalog.title(row), catalog.categories_of(row))

    def _entry(self, slate: Slate, row: int, place: int, rank: int) -> Recommendation:
        found = slate.candidates
        score = float(found.scores[row, place])
        ranks = {
            part.title: found.columns[f"{part.title}.rank"][row, place] for part in self.pipeline.nominators
        }
        sampled = "propensity" in found.columns
        return Recommendation(
            **vars(self.item(int(found.items[row, place]))),
            rank=rank,
            score=score if abs(score) < float("inf") else None,
            nominators=tuple(name for name, at in ranks.items() if not bool(torch.isnan(at))),
            propensity=float(found.columns["propensity"][row, place]) if sampled else None,
        )

    @cached_property
    def _own_versions(self) -> tuple[str, ...]:
        return state_versions(self.pipeline)

    @property
    def _version(self) -> str:
        """The version of the states that belongs to this bundle, which need not be the one that is served."""
        assert self.states is not None, "there are no versions without states"
        return version_in(self.states, self._own_versions)

    def _read(self, requests: Sequence[Request]) -> LiveUsers:
        """What requests are answered from; that of live users is read at one moment."""
        if self.states is None:
            return LiveUsers(
                [self.row(one) for one in requests], [self.history(one) for one in requests], None
            )
        live = [None if one.history is not None else one.user for one in requests]
        rows = [
            UNKNOWN if user is not None else self.row(one) for user, one in zip(live, requests, strict=True)
        ]
        given = [list[int]() if one.history is None else self._known(one.history) for one in requests]
        return read_users(self.states, self._version, live, LiveUsers(rows, given, None))

    def _known(self, items: Sequence[int | str]) -> list[int]:
        rows: list[int] = self.catalog.vocabulary.rows(items).tolist()
        return [row for row in rows if row != UNKNOWN]


def _free_name(name: str, pipeline: Pipeline) -> str:
    taken = {stage.title for stage in pipeline.stages}
    choices = (name, *(f"{name}_{number}" for number in range(len(taken))))
    return next(choice for choice in choices if choice not in taken)


def resized(pipeline: Pipeline, k: int | None) -> Pipeline:
    """The same pipeline with slates of `k` items."""
    if k is None:
        return pipeline
    if k < 1:
        raise ConfigError(f"k must be 1 or more, got {k}")
    *rest, last = pipeline.stages
    return Pipeline((*rest, last.sized(k)), name=pipeline.name)


def slate_size(pipeline: Pipeline) -> int | None:
    """The number of items the pipeline returns, None where its last stage does not set it."""
    return pipeline.stages[-1].capacity
