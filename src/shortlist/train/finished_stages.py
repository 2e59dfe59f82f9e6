"""Fitted stages in the checkpoint folder: a training that is started again does not fit them again."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from shortlist import __version__
from shortlist.artifact.as_json import as_json
from shortlist.artifact.staging import current_folder
from shortlist.artifact.store import Lineage, load, save
from shortlist.data import Catalog
from shortlist.errors import ArtifactError
from shortlist.grammar import Stage
from shortlist.pipeline.about import TrainingHistory
from shortlist.pipeline.bundle import history_from
from shortlist.train.context import TrainContext
from shortlist.train.fingerprint import fingerprint
from shortlist.train.loop.horizon import with_horizon

KIND = "stage"
WEIGHTS, FACTS = "weights.safetensors", "stage.json"


def fit_once(
    fit: Callable[[TrainContext], Stage],
    kind: type[Stage],
    name: str,
    settings: Mapping[str, Any],
    context: TrainContext,
) -> Stage:
    """The stage that `fit` makes with these settings, or the one that the same training made before.

    It is the same training if settings, package, events, candidates, catalogue and the stages before it are the same.
    A stage without weights is fitted every time.
    """
    folder = context.checkpoint_folder(f"stage-{name}", *_identity(settings, context))
    if folder is None:
        return fit(context)
    if current_folder(folder).exists():
        return _loaded(folder, kind, name, context)
    notes: dict[str, TrainingHistory] = {}
    stage = fit(replace(context, note=notes.__setitem__))
    _forward(notes, context)
    if stage.tensors():
        _save(folder, stage, notes)
    return stage


def _identity(settings: Mapping[str, Any], context: TrainContext) -> list[object]:
    """What a fitted stage depends on, besides the events, the candidates and the seed."""
    if context.checkpoint_dir is None:
        return []
    before = {name: _known(stage, _stage_hash) for name, stage in context.fitted.items()}
    catalog = _known(context.catalog, _catalog_hash)
    valid = fingerprint(context.valid)
    own = context.warm.get(str(settings.get("name", "")))
    warm = None if own is None else _known(own, _stage_hash)
    return [settings, dict(context.best_epochs), context.clock, valid, catalog, before, warm, __version__]


def _save(folder: Path, stage: Stage, notes: Mapping[str, TrainingHistory]) -> None:
    declared = {one.name for one in stage.declared()}
    own = {key: value for key, value in stage.settings().items() if key in declared}
    facts = json.dumps({"settings": as_json(own), "training": as_json(notes)})
    save(folder, KIND, {WEIGHTS: stage.tensors(), FACTS: facts}, Lineage(package=__version__), overwrite=True)


def _loaded(folder: Path, kind: type[Stage], name: str, context: TrainContext) -> Stage:
    try:
        saved = load(folder, KIND)
    except ArtifactError as error:
        raise ArtifactError(f"{error}; remove {folder}, and the stage is fitted again") from error
    facts = saved.json(FACTS)
    # Copies, because mapped tensors are aligned in another way, and sums of floats could then differ in the last bit.
    tensors = {key: tensor.clone() for key, tensor in saved.tensors(WEIGHTS).items()}
    notes = {key: history_from(one) for key, one in facts["training"].items()}
    _forward(notes, context)
    context.progress(name, 1, 1)
    return with_horizon(kind.build({**facts["settings"], "name": name}, tensors), notes.get(name))


def _forward(notes: Mapping[str, TrainingHistory], context: TrainContext) -> None:
    for name, history in notes.items():
        context.note(name, history)


_HASHES: WeakKeyDictionary[Any, str | None] = WeakKeyDictionary()
"""Hashes of stages and catalogues, which never change: each is computed once."""


def _known(thing: Any, compute: Callable[[Any], str | None]) -> str | None:
    if thing not in _HASHES:
        _HASHES[thing] = compute(thing)
    return _HASHES[thing]


def _stage_hash(stage: Stage) -> str | None:
    return fingerprint((repr(stage), stage.tensors()))


def _catalog_hash(catalog: Catalog) -> str | None:
    table, sink = catalog.table.combine_chunks(), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return fingerprint((catalog.vocabulary.fingerprint, sink.getvalue().to_pybytes()))
