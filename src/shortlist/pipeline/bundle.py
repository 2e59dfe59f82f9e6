"""A recommender on disk: saved whole or not at all, loaded after every file was verified once."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from shortlist.artifact import Artifact, Lineage, Part, load, save
from shortlist.artifact.as_json import as_json
from shortlist.data import Catalog, Vocabulary
from shortlist.errors import ArtifactError, ConfigError, DataError, GrammarError
from shortlist.grammar import Pipeline, leaves
from shortlist.metrics.significance import Interval
from shortlist.pipeline.about import (
    About,
    Measured,
    OutOfFold,
    Plugin,
    Refit,
    Refresh,
    RetrievedTargets,
    TrainingHistory,
)
from shortlist.pipeline.cross_check import (
    check_pipeline,
    checked_histories,
    checked_slates,
    checked_vocabulary,
)
from shortlist.pipeline.plan_report import plan_report_from
from shortlist.pipeline.plugins import add_plugins, plugins_of
from shortlist.pipeline.recipe import Recipe, Types, assemble, parse_recipe, to_recipe, to_toml
from shortlist.pipeline.recommender import Recommender
from shortlist.pipeline.registry import TYPES

KIND = "recommender"
HISTORIES = "weights/histories.safetensors"
TRAINING_SAMPLE = "weights/training-sample.safetensors"
MEASURED = "measured/"  # the pipeline before the refit
BASELINES = f"{MEASURED}baselines.safetensors"


def save_recommender(
    recommender: Recommender,
    folder: Path | str,
    lineage: Lineage,
    extra: Mapping[str, Part] | None = None,
    types: Types = TYPES,
    overwrite: bool = False,
) -> Artifact:
    """Write everything that is needed to answer, whole or not at all."""
    facts = replace(recommender.about, plugins=plugins_of(recommender.pipeline) if types is TYPES else ())
    about = {name: value for name, value in as_json(facts).items() if name != "version"}
    return save(folder, KIND, _parts(recommender, types) | dict(extra or {}), lineage, about, overwrite)


def _parts(recommender: Recommender, types: Types) -> dict[str, Part]:
    histories = {key: one for key, one in vars(recommender.histories).items() if one is not None}
    parts: dict[str, Part] = {
        **_pipeline_parts(recommender.pipeline, recommender.about.name, types),
        "items.parquet": _with_ids(recommender.catalog.vocabulary, recommender.catalog.table),
        "users.parquet": pa.table({"id": recommender.users.ids}),
        HISTORIES: histories,
    }
    if recommender.measured is not None:
        measured = _pipeline_parts(recommender.measured(), recommender.about.name, types)
        parts |= {MEASURED + name: part for name, part in measured.items()}
    if recommender.baselines:
        parts[BASELINES] = _joined(recommender.baselines)
    if recommender.training_sample:
        parts[TRAINING_SAMPLE] = dict(recommender.training_sample)
    if recommender.recipe is not None:
        parts["recipe.toml"] = to_toml(recommender.recipe)
    return parts


def _pipeline_parts(pipeline: Pipeline, name: str, types: Types) -> dict[str, Part]:
    """The recipe of a trained pipeline and the tensors of its stages."""
    stages = {stage.title: stage.tensors() for stage in leaves(pipeline)}
    weights = {_weights_file(title): tensors for title, tensors in stages.items() if tensors}
    return {"pipeline.toml": to_toml(to_recipe(pipeline, name, types)), **weights}


def _weights_file(stage: str) -> str:
    return f"weights/stage-{stage}.safetensors"


def _pipeline(artifact: Artifact, prefix: str, types: Types, n_items: int) -> Pipeline:
    file = f"{prefix}pipeline.toml"
    built = parse_recipe(artifact.text(file), str(artifact.folder / file), types)
    names = {name: prefix + _weights_file(name) for name in built.stages}
    weights = {name: artifact.tensors(one) for name, one in names.items() if one in artifact}
    try:
        pipeline = assemble(built, weights, types)
    except (ConfigError, DataError, GrammarError) as error:
        raise ArtifactError(str(error)) from error
    check_pipeline(pipeline, n_items, artifact.folder / prefix)
    return pipeline


def _measured(artifact: Artifact, types: Types, n_items: int) -> Callable[[], Pipeline] | None:
    """Reads the pipeline before the refit when it is asked for: an answer to a request does not need it."""
    if f"{MEASURED}pipeline.toml" not in artifact:
        return None

    @cache
    def read() -> Pipeline:
        artifact.check(MEASURED)
        return _pipeline(artifact, MEASURED, types, n_items)

    return read


@dataclass(frozen=True, eq=False)
class StoredBaselines(Mapping[str, Mapping[str, Tensor]]):
    """The slates of baselines in a bundle, by part of the split and name; read when they are asked for."""

    artifact: Artifact
    n_items: int

    def __getitem__(self, part: str) -> Mapping[str, Tensor]:
        return self._read[part]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __len__(self) -> int:
        return len(self._read)

    @cached_property
    def _read(self) -> dict[str, dict[str, Tensor]]:
        self.artifact.check(BASELINES)
        stored = self.artifact.tensors(BASELINES)
        slates = checked_slates(stored, self.n_items, self.artifact.folder / BASELINES)
        parts: dict[str, dict[str, Tensor]] = {}
        for key, items in slates.items():
            part, _, name = key.partition("/")
            parts.setdefault(part, {})[name] = items
        return parts


def _joined(baselines: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Slates by `part/name`, in four bytes per item."""
    return {
        f"{part}/{name}": items.to(torch.int32)
        for part, own in baselines.items()
        for name, items in own.items()
    }


def load_recommender(folder: Path | str, types: Types = TYPES) -> Recommender:
    """Read a saved recommender after verifying every file once."""
    artifact = load(folder, KIND, later=MEASURED)
    about = _about(artifact)
    if types is TYPES:
        add_plugins(about.plugins, str(folder))
    catalog = _catalog(artifact.table("items.parquet"), artifact.folder / "items.parquet")
    users = checked_vocabulary(artifact.table("users.parquet"), artifact.folder / "users.parquet")
    stored = artifact.tensors(HISTORIES)
    return Recommender(
        _pipeline(artifact, "", types, len(catalog)),
        catalog,
        users,
        checked_histories(stored, len(users), len(catalog), artifact.folder / HISTORIES),
        about,
        artifact.tensors(TRAINING_SAMPLE) if TRAINING_SAMPLE in artifact else {},
        _recipe(artifact, types),
        _measured(artifact, types, len(catalog)),
        StoredBaselines(artifact, len(catalog)) if BASELINES in artifact else {},
    )


def open_recommender(bundle: Recommender | Path | str) -> Recommender:
    """The recommender itself, or the one in a folder."""
    return bundle if isinstance(bundle, Recommender) else load_recommender(bundle)


def _recipe(artifact: Artifact, types: Types) -> Recipe | None:
    if "recipe.toml" not in artifact:
        return None
    return parse_recipe(artifact.text("recipe.toml"), str(artifact.folder / "recipe.toml"), types)


def _about(artifact: Artifact) -> About:
    """The facts of a bundle; what does not have their form is refused."""
    stored = dict(artifact.about)
    try:
        training = {name: history_from(one) for name, one in stored.pop("training", {}).items()}
        out_of_fold = OutOfFold(**stored.pop("out_of_fold", {}))
        measured = {part: _figures(one) for part, one in stored.pop("measured", {}).items()}
        refit, refresh = stored.pop("refit", None), stored.pop("refresh", None)
        size_warnings = tuple(stored.pop("size_warnings", ()))
        plugins = tuple(Plugin(**one) for one in stored.pop("plugins", ()))
        plan = stored.pop("plan", None)
        return About(
            **stored,
            training=training,
            out_of_fold=out_of_fold,
            version=artifact.version,
            measured=measured,
            plugins=plugins,
            size_warnings=size_warnings,
            plan=None if plan is None else plan_report_from(plan),
            refit=None if refit is None else Refit(**{**refit, "stages": tuple(refit["stages"])}),
            refresh=None if refresh is None else Refresh(**{**refresh, "stages": tuple(refresh["stages"])}),
        )
    except (TypeError, AttributeError, KeyError) as error:
        known = ", ".join(one.name for one in fields(About))
        raise ArtifactError(
            f"{artifact.folder}: its facts are not those of a bundle ({error}); expected {known}; train again"
        ) from error


def _figures(stored: Mapping[str, Any]) -> Measured:
    return Measured(stored["users"], {name: Interval(**one) for name, one in stored["metrics"].items()})


def history_from(stored: Mapping[str, Any]) -> TrainingHistory:
    """A training history from its JSON form."""
    plain: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()
    }
    retrieved = plain.pop("retrieved", None)
    if retrieved is not None:
        retrieved = RetrievedTargets(**{**retrieved, "reasons": tuple(retrieved["reasons"])})
    return TrainingHistory(**plain, retrieved=retrieved)


def _with_ids(vocabulary: Vocabulary, table: pa.Table) -> pa.Table:
    return (
        table.add_column(0, "id", vocabulary.ids) if table.num_columns else pa.table({"id": vocabulary.ids})
    )


def _catalog(table: pa.Table, file: Path) -> Catalog:
    vocabulary = checked_vocabulary(table, file)
    rest = table.drop_columns(["id"])
    return Catalog(vocabulary, rest if rest.num_columns else pa.table({}))
