"""A recommender on disk: saved whole or not at all, loaded after every file was verified once."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from shortlist.artifact import Artifact, Lineage, Part, load, save
from shortlist.artifact.as_json import as_json
from shortlist.data import Catalog, Vocabulary
from shortlist.errors import ArtifactError
from shortlist.grammar import leaves
from shortlist.pipeline.about import About, OutOfFold, RetrievedTargets, TrainingHistory
from shortlist.pipeline.recipe import Recipe, Types, assemble, parse_recipe, to_recipe, to_toml
from shortlist.pipeline.recommender import Recommender, UserHistories
from shortlist.pipeline.registry import TYPES

KIND = "recommender"
TRAINING_SAMPLE = "weights/training-sample.safetensors"


def save_recommender(
    recommender: Recommender,
    folder: Path | str,
    lineage: Lineage,
    extra: Mapping[str, Part] | None = None,
    types: Types = TYPES,
    overwrite: bool = False,
) -> Artifact:
    """Write everything that is needed to answer, whole or not at all."""
    about = {name: value for name, value in as_json(recommender.about).items() if name != "version"}
    return save(folder, KIND, _parts(recommender, types) | dict(extra or {}), lineage, about, overwrite)


def _parts(recommender: Recommender, types: Types) -> dict[str, Part]:
    histories = recommender.histories
    parts: dict[str, Part] = {
        "pipeline.toml": to_toml(to_recipe(recommender.pipeline, recommender.about.name, types)),
        "items.parquet": _with_ids(recommender.catalog.vocabulary, recommender.catalog.table),
        "users.parquet": pa.table({"id": recommender.users.ids}),
        "weights/histories.safetensors": {"starts": histories.starts, "items": histories.items},
    }
    for stage in leaves(recommender.pipeline):
        if stage.tensors():
            parts[f"weights/stage-{stage.title}.safetensors"] = stage.tensors()
    if recommender.training_sample:
        parts[TRAINING_SAMPLE] = dict(recommender.training_sample)
    if recommender.recipe is not None:
        parts["recipe.toml"] = to_toml(recommender.recipe)
    return parts


def load_recommender(folder: Path | str, types: Types = TYPES) -> Recommender:
    """Read a saved recommender after verifying every file once."""
    artifact = load(folder, KIND)
    built = parse_recipe(artifact.text("pipeline.toml"), str(Path(folder) / "pipeline.toml"), types)
    names = {name: f"weights/stage-{name}.safetensors" for name in built.stages}
    weights = {name: artifact.tensors(file) for name, file in names.items() if file in artifact}
    histories = UserHistories(**artifact.tensors("weights/histories.safetensors"))
    users = Vocabulary(artifact.table("users.parquet")["id"].combine_chunks())
    if len(histories.starts) != len(users) + 1:
        raise ArtifactError(
            f"{folder}: stores histories of {len(histories.starts) - 1} users but lists {len(users)}; train again"
        )
    return Recommender(
        assemble(built, weights, types),
        _catalog(artifact.table("items.parquet")),
        users,
        histories,
        _about(artifact),
        artifact.tensors(TRAINING_SAMPLE) if TRAINING_SAMPLE in artifact else {},
        _recipe(artifact, types),
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
        training = {name: _history(one) for name, one in stored.pop("training", {}).items()}
        out_of_fold = OutOfFold(**stored.pop("out_of_fold", {}))
        return About(**stored, training=training, out_of_fold=out_of_fold, version=artifact.version)
    except (TypeError, AttributeError) as error:
        known = ", ".join(one.name for one in fields(About))
        raise ArtifactError(
            f"{artifact.folder}: its facts are not those of a bundle ({error}); expected {known}; train again"
        ) from error


def _history(stored: Mapping[str, Any]) -> TrainingHistory:
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


def _catalog(table: pa.Table) -> Catalog:
    rest = table.drop_columns(["id"])
    return Catalog(Vocabulary(table["id"].combine_chunks()), rest if rest.num_columns else pa.table({}))
