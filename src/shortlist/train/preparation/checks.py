"""What can be refused is refused before the first stage is fitted: places, expression, sizes, references, data, memory.

A trainer takes part by methods of its own: `check_data`, `models_used`, `memory`, `size`.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch

from shortlist.artifact.lock import only_writer
from shortlist.artifact.staging import check_outside_artifacts, check_target, check_writable
from shortlist.data import Catalog, Dataset, Interactions, Split
from shortlist.errors import ConfigError, DataError, ShortlistError
from shortlist.grammar import Nominator, Pipeline, leaves
from shortlist.models.model import Model
from shortlist.models.registry import MODELS
from shortlist.pipeline import TYPES, Recipe
from shortlist.pipeline.recipe import Types
from shortlist.train.context import TrainContext
from shortlist.train.loop.device import device_of
from shortlist.train.pipeline_trainer import PipelineTrainer
from shortlist.train.preparation.examples import check_pools
from shortlist.train.preparation.memory import VARIABLE, available_memory, in_words
from shortlist.train.registry import TRAINERS, Trainer

Available = Callable[[torch.device], int | None]
"""Device -> bytes that can still be allocated there."""


@runtime_checkable
class ChecksData(Protocol):
    """A trainer that refuses events, or packages that are missing, before anything is fitted."""

    def check_data(self, settings: Mapping[str, Any], context: TrainContext) -> None: ...


@runtime_checkable
class UsesModels(Protocol):
    """A trainer that needs the model of another stage: setting that names the stage -> kind of model."""

    def models_used(self) -> Mapping[str, type[Any]]: ...


@runtime_checkable
class EstimatesMemory(Protocol):
    """A trainer that knows about how many bytes its training needs, and what to change to need fewer."""

    memory_advice: str

    def memory(self, events: Interactions, catalog: Catalog) -> int: ...


@runtime_checkable
class EstimatesSize(Protocol):
    """A trainer that knows about how many bytes its stage takes in a bundle."""

    def size(self, events: Interactions, catalog: Catalog) -> int: ...


def check_places(out: Path | None, force: bool = False, checkpoint_dir: Path | None = None) -> None:
    """Refuse places that cannot be written to, with the path that was given."""
    if out is not None:
        check_target(out, force)
        check_writable(out)
    if checkpoint_dir is None:
        return
    if checkpoint_dir.exists() and not checkpoint_dir.is_dir():
        raise ConfigError(f"{checkpoint_dir}: is not a folder; expected a folder for checkpoints")
    if out is not None and checkpoint_dir.resolve().is_relative_to(out.resolve()):
        raise ConfigError(f"{checkpoint_dir}: lies inside the bundle {out}; choose a folder outside of it")
    check_outside_artifacts(checkpoint_dir)
    check_writable(checkpoint_dir, inside=True)


@contextmanager
def only_training(
    out: Path | None, force: bool = False, checkpoint_dir: Path | None = None
) -> Iterator[None]:
    """Check the places of a training, and be the only one that writes to them in the block."""
    check_places(out, force, checkpoint_dir)
    with ExitStack() as locks:
        if out is not None:
            locks.enter_context(only_writer(out))
            check_target(out, force)  # again: another process may have written it before the lock was ours
        if checkpoint_dir is not None:
            locks.enter_context(only_writer(checkpoint_dir, inside=True))
        yield


def check_before_training(
    recipe: Recipe,
    dataset: Dataset,
    split: Split,
    seed: int = 0,
    types: Types = TYPES,
    trainers: Mapping[str, type[Trainer]] = TRAINERS,
    available: Available = available_memory,
    refit: bool = True,
    logged: bool = False,
) -> tuple[str, ...]:
    """Refuse what could only fail later; what is only wasteful comes back as sentences.

    Rankers that are trained on `logged` requests need none that are made from events.
    """
    work = PipelineTrainer.of(recipe, types, trainers)
    warnings = check_sizes(work.parsed({}), f"{recipe.path}: pipeline")
    for name in recipe.stages:
        check_references(work, name)
        warnings += check_pools(recipe, name, dataset.catalog)
    if not len(split.train):
        raise DataError(
            f"{split.settings['protocol']}: no event is left to train on; choose another --protocol"
        )
    valid = split.valid if len(split.valid) else None
    context = TrainContext(split.train, dataset.catalog, dataset.clock, seed, valid=valid)
    for name in recipe.stages:
        _check_trainer(work, name, context)
        check_memory(work, name, dataset, split.train, available, refit)
    if work.later and not logged:
        _check_requests(work, context, split)
    return tuple(warnings)


def _check_requests(work: PipelineTrainer, context: TrainContext, split: Split) -> None:
    """Refuse a log without requests to train rankers on; the error names them."""
    try:
        work.out_of_fold_parts(context, split)
    except DataError as error:
        rankers = ", ".join(work.later)
        raise DataError(
            f"{work.recipe.where(work.later[0])}: {error}; train without the stages {rankers}, or on a longer log"
        ) from error


def check_sizes(pipeline: Pipeline, where: str) -> list[str]:
    """Refuse a slate that can never be filled; a cut that cuts nothing comes back as a sentence."""
    arriving = _nominated(pipeline)
    wasteful = []
    for stage in pipeline.stages[1:]:
        size, last = stage.capacity, stage is pipeline.stages[-1]
        if size is None:
            continue
        if size > arriving and last:
            raise ConfigError(
                f"{where}: {stage.title} % {size} can never be filled, at most {arriving} candidates arrive there; "
                f"write {stage.title} % {arriving}, or raise the sizes before it"
            )
        if size > arriving:
            wasteful.append(
                f"{stage.title} % {size} cuts nothing: at most {arriving} candidates arrive there"
            )
        arriving = min(arriving, size)
    return wasteful


def _nominated(pipeline: Pipeline) -> int:
    """The largest number of candidates after the pool."""
    limits = sum(leaf.limit for leaf in leaves(pipeline.stages[0]) if isinstance(leaf, Nominator))
    return min(limits, pipeline.stages[0].capacity or limits)


def check_references(work: PipelineTrainer, name: str) -> None:
    """Refuse settings that name a stage which does not exist or cannot be used."""
    recipe, trainer = work.recipe, work.trainers[name]
    nominators = [one for one in work.early if issubclass(work.types[recipe.stages[one].type], Nominator)]
    for used in recipe.stages[name].settings.get("nominators") or ():
        if used not in nominators:
            raise ConfigError(
                f"{recipe.where(name)}: unknown nominator {used!r}; expected some of {', '.join(nominators)}"
            )
    for key, kind in trainer.models_used().items() if isinstance(trainer, UsesModels) else ():
        used = getattr(trainer, key)
        fitting = [one for one in nominators if issubclass(MODELS.get(recipe.stages[one].type, object), kind)]
        if used not in fitting:
            what = "a model" if kind is Model else f"a {kind.__name__} model"
            raise ConfigError(
                f"{recipe.where(name)}: {key} must name a nominator with {what}, got {used!r}; "
                f"the pipeline has {', '.join(fitting) or 'none'}"
            )


def _check_trainer(work: PipelineTrainer, name: str, context: TrainContext) -> None:
    """Let a trainer refuse the data; an error names its place in the recipe."""
    trainer, where = work.trainers[name], work.recipe.where(name)
    if isinstance(trainer, ChecksData):
        try:
            trainer.check_data({**work.recipe.stages[name].settings, "name": name}, context)
        except ShortlistError as error:
            raise ConfigError(f"{where}: {error}") from error


def check_memory(
    work: PipelineTrainer,
    name: str,
    dataset: Dataset,
    train: Interactions,
    available: Available = available_memory,
    refit: bool = True,
) -> None:
    """Refuse a training that needs more memory than there is; a refit keeps the measured pipeline beside it."""
    trainer = work.trainers[name]
    if not isinstance(trainer, EstimatesMemory):
        return
    device = device_of(getattr(trainer, "device", "cpu"))
    events = dataset.events if refit else train
    kept = sum(_sizes(work.trainers.values(), dataset)) if refit and device.type == "cpu" else 0
    need, there = trainer.memory(events, dataset.catalog) + kept, available(device)
    if there is None or need <= there:
        return
    beside = (
        f", {in_words(kept)} of it for the measured pipeline during the refit (--no-refit)" if kept else ""
    )
    raise ConfigError(
        f"{work.recipe.where(name)}: training needs about {in_words(need)} of memory for {events.n_items:,} items and "
        f"{events.n_users:,} users{beside}, {in_words(there)} are available; {trainer.memory_advice}; "
        f"{VARIABLE}=off in the environment trains anyway"
    )


def check_free_space(
    out: Path,
    recipe: Recipe,
    dataset: Dataset,
    refit: bool = True,
    free: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
) -> None:
    """Refuse a bundle that would not fit on the disk, by the estimates of the trainers."""
    trainers = PipelineTrainer.of(recipe, TYPES, TRAINERS).trainers.values()
    stages = sum(_sizes(trainers, dataset)) * (2 if refit else 1)
    need = stages + dataset.events.items.nbytes + dataset.catalog.table.nbytes
    there = free(next(one for one in out.absolute().parents if one.exists()))
    if need > there:
        raise ConfigError(
            f"{out}: the bundle needs about {in_words(need)}, {in_words(there)} are free there; "
            "free space, or choose --out on another disk"
        )


def _sizes(trainers: Any, dataset: Dataset) -> Iterator[int]:
    for trainer in trainers:
        if isinstance(trainer, EstimatesSize):
            yield trainer.size(dataset.events, dataset.catalog)
