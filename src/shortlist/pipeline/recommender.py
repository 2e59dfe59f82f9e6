"""A trained pipeline with the words of the outside: asked by ids, answering in ids and titles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from shortlist.artifact.store import Artifact, Lineage, Part, load, save
from shortlist.data import UNKNOWN, Catalog, Query, Vocabulary
from shortlist.errors import ArtifactError, ConfigError
from shortlist.grammar import Pipeline, Selector, Stage, Top
from shortlist.pipeline.explain import Explanation, explain
from shortlist.pipeline.guards import Guard
from shortlist.pipeline.recipe import Recipe, Types, assemble, leaves, parse_recipe, to_recipe, to_toml
from shortlist.pipeline.registry import TYPES
from shortlist.pipeline.run import Slate, run
from shortlist.stages.filters import Excluded

KIND = "recommender"
RECORD = "weights/rehearsal.safetensors"
MEMORY = 2000  # how many of a user's last items an artifact remembers


@dataclass(frozen=True, eq=False)
class UserHistories:
    """What every known user met last: user u owns items[starts[u]:starts[u + 1]], oldest first."""

    starts: Tensor  # [U + 1]
    items: Tensor  # [E]

    def of(self, user: int) -> list[int]:
        """The item rows of one user, none for an unknown one."""
        if user < 0:
            return []
        start, stop = self.starts[user : user + 2].tolist()
        met: list[int] = self.items[start:stop].tolist()
        return met


@dataclass(frozen=True)
class Request:
    """What one asks for: a known user, or a history of item ids; unknown ids are no error."""

    user: int | str | None = None
    history: Sequence[int | str] | None = None
    k: int | None = None  # None: as many as the pipeline gives
    exclude: Sequence[int | str] = ()
    seed: int = 0
    time: int | None = None  # None: the end of the log

    def __post_init__(self) -> None:
        if not -(2**63) <= self.seed < 2**63:
            raise ConfigError(f"a request's seed must fit into 64 bits, got {self.seed}")


@dataclass(frozen=True, eq=False)
class Recommender:
    """A pipeline that is ready to answer; `about` says where it comes from."""

    pipeline: Pipeline
    catalog: Catalog
    users: Vocabulary
    histories: UserHistories
    about: Mapping[str, Any] = field(default_factory=dict)
    record: Mapping[str, Tensor] = field(default_factory=dict)  # a sample of what its scorers learned on

    def query(self, requests: Sequence[Request]) -> Query:
        """Requests in rows; a given history outranks the remembered one."""
        users = [UNKNOWN if r.user is None else self.users.row(r.user) for r in requests]
        histories = [self.history(request) for request in requests]
        times = [int(self.about.get("ends", 0)) if r.time is None else r.time for r in requests]
        query = Query.of(histories, users, times, [request.seed for request in requests])
        excluded = [self._known(request.exclude) for request in requests]
        widest = max((len(rows) for rows in excluded), default=0)
        if not widest:
            return query
        padded = torch.tensor([rows + [UNKNOWN] * (widest - len(rows)) for rows in excluded])
        return Query(query.user, query.history, query.time, query.seed, {"exclude": padded})

    def history(self, request: Request) -> list[int]:
        """The item rows a request is answered from."""
        if request.history is not None:
            return self._known(request.history)
        return self.histories.of(UNKNOWN if request.user is None else self.users.row(request.user))

    def recommend(self, request: Request) -> Slate:
        """Answer one request."""
        return run(self.prepared(request), self.query([request]))

    def prepared(self, request: Request) -> Pipeline:
        """The pipeline in the size that is asked for; what is excluded goes first of all, in sight of the trace."""
        sized = resized(self.pipeline, request.k)
        if not request.exclude:
            return sized
        pool, *rest = sized.stages
        taken = {stage.title for stage in sized.stages}
        name = next(
            name for name in ("excluded", *(f"excluded_{n}" for n in range(len(taken)))) if name not in taken
        )
        return Pipeline((pool, Excluded(name=name), *rest), name=sized.name)

    def explain(self, request: Request, item: int | str) -> Explanation:
        """Follow one item through one request."""
        return explain(self.recommend(request).trace, self.item_row(item))

    def item_row(self, item: int | str) -> int:
        """The row of an item that must exist."""
        row = self.catalog.vocabulary.row(item)
        if row == UNKNOWN:
            raise ConfigError(f"item {item!r} is not in the catalogue of {len(self.catalog)} items")
        return row

    def listed(self, slate: Slate, row: int = 0) -> list[dict[str, Any]]:
        """One slate as plain values, best first."""
        found = slate.candidates
        kept = found.valid[row].nonzero().flatten().tolist()
        return [self._entry(slate, row, place, rank) for rank, place in enumerate(kept, start=1)]

    def item(self, row: int) -> dict[str, Any]:
        """What one is told of an item."""
        return {
            "item_id": self.catalog.vocabulary.id(row),
            "title": self.catalog.title(row),
            "category": self.catalog.category(row),
        }

    def _entry(self, slate: Slate, row: int, place: int, rank: int) -> dict[str, Any]:
        found = slate.candidates
        score = float(found.scores[row, place])
        entry = {
            **self.item(int(found.items[row, place])),
            "rank": rank,
            "score": score if _finite(score) else None,
        }
        entry["nominators"] = [
            part.title
            for part in self.pipeline.nominators
            if not bool(torch.isnan(found.columns[f"{part.title}.rank"][row, place]))
        ]
        if "propensity" in found.columns:
            entry["propensity"] = float(found.columns["propensity"][row, place])
        return entry

    def _known(self, items: Sequence[int | str]) -> list[int]:
        rows: list[int] = self.catalog.vocabulary.rows(items).tolist()
        return [row for row in rows if row != UNKNOWN]


def resized(pipeline: Pipeline, k: int | None) -> Pipeline:
    """The same pipeline with a slate of `k`; it must end in a cut or a selector to have a size at all."""
    if k is None:
        return pipeline
    if k < 1:
        raise ConfigError(f"k must be 1 or more, got {k}")
    *rest, last = pipeline.stages
    return Pipeline((*rest, _sized(last, k)), name=pipeline.name)


def _sized(last: Stage, k: int) -> Stage:
    """A last stage that lets k through; a cut or choice inside a guard is the one to change."""
    if isinstance(last, Guard) and _says(last.inner):
        return replace(last, inner=_sized(last.inner, k))
    return last.inner % k if isinstance(last, Top) else last % k


def _says(stage: Stage) -> bool:
    """Whether a stage says how many it lets through."""
    return _says(stage.inner) if isinstance(stage, Guard) else isinstance(stage, Top | Selector)


def slate_size(pipeline: Pipeline) -> int | None:
    """How many items the pipeline returns, None when it does not say."""
    last: Stage = pipeline.stages[-1]
    while isinstance(last, Guard):
        last = last.inner
    return last.k if isinstance(last, Top | Selector) else None


def save_recommender(
    recommender: Recommender,
    folder: Path | str,
    lineage: Lineage,
    recipe: Recipe | None = None,
    extra: Mapping[str, Part] | None = None,
    types: Types = TYPES,
    overwrite: bool = False,
) -> Artifact:
    """Write everything that is needed to answer, whole or not at all."""
    built = to_recipe(recommender.pipeline, str(recommender.about.get("name", "pipeline")), types)
    parts: dict[str, Part] = {
        "pipeline.toml": to_toml(built),
        "items.parquet": _with_ids(recommender.catalog.vocabulary, recommender.catalog.table),
        "users.parquet": pa.table({"id": recommender.users.ids}),
        "weights/histories.safetensors": {
            "starts": recommender.histories.starts,
            "items": recommender.histories.items,
        },
        **(extra or {}),
    }
    for stage in leaves(recommender.pipeline):
        if stage.tensors():
            parts[f"weights/stage-{stage.title}.safetensors"] = stage.tensors()
    if recommender.record:
        parts[RECORD] = dict(recommender.record)
    if recipe is not None:
        parts["recipe.toml"] = to_toml(recipe)
    return save(folder, KIND, parts, lineage, recommender.about, overwrite)


def load_recommender(folder: Path | str, types: Types = TYPES) -> Recommender:
    """Read a saved recommender after checking all of it."""
    artifact = load(folder, KIND)
    recipe = parse_recipe(artifact.text("pipeline.toml"), str(Path(folder) / "pipeline.toml"), types)
    names = {name: f"weights/stage-{name}.safetensors" for name in recipe.stages}
    weights = {name: artifact.tensors(file) for name, file in names.items() if file in artifact}
    catalog = _catalog(artifact.table("items.parquet"))
    histories = UserHistories(**artifact.tensors("weights/histories.safetensors"))
    users = Vocabulary(artifact.table("users.parquet")["id"].combine_chunks())
    if len(histories.starts) != len(users) + 1:
        raise ArtifactError(f"{folder}: remembers {len(histories.starts) - 1} users but names {len(users)}")
    about = {**artifact.about, "version": artifact.version}
    record = artifact.tensors(RECORD) if RECORD in artifact else {}
    return Recommender(assemble(recipe, weights, types), catalog, users, histories, about, record)


def _with_ids(vocabulary: Vocabulary, table: pa.Table) -> pa.Table:
    return (
        table.add_column(0, "id", vocabulary.ids) if table.num_columns else pa.table({"id": vocabulary.ids})
    )


def _catalog(table: pa.Table) -> Catalog:
    rest = table.drop_columns(["id"])
    return Catalog(Vocabulary(table["id"].combine_chunks()), rest if rest.num_columns else pa.table({}))


def _finite(value: float) -> bool:
    return abs(value) < float("inf")
