"""Checkpoints of tree training: written atomically, resumed only by the run they belong to."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shortlist.artifact.json_tensor import with_prefix, without_prefix
from shortlist.artifact.staging import current_folder as place_of
from shortlist.artifact.store import Artifact, Lineage, load, save
from shortlist.errors import ArtifactError
from shortlist.index.tree import TreeIndex
from shortlist.train.fingerprint import fingerprint
from shortlist.train.tree.optimizer import TreeOptimizer
from shortlist.train.tree.plan import TreePlan
from shortlist.train.tree.updates.update import UpdateReport

KIND = "tree-training"
TENSORS, FACTS = "state.safetensors", "state.json"
KEYS = {"index": dict, "step": int, "updates": int, "since": int, "log": list}

RunId = Mapping[str, Any]
"""What a run is identified by besides its state (plan, seed, device, data), in JSON types."""


@dataclass(frozen=True)
class EvaluationEntry:
    """Log entry of an evaluation."""

    step: int
    loss: float  # mean since the last evaluation
    skipped: float  # share of skipped levels since then
    seconds: float | None = None  # of training so far, with a clock
    recall: float | None = None  # of validation users; None without any
    f1: float | None = None
    distinct: int | None = None  # different recommended items


@dataclass(frozen=True)
class UpdateEntry:
    """Log entry of a tree update."""

    step: int
    update: UpdateReport
    seconds: float | None = None


@dataclass(eq=False)
class TrainingState:
    """Everything that changes during training."""

    index: TreeIndex
    optimizer: TreeOptimizer
    losses: Tensor  # [2] the loss and the share of skipped levels, summed since the last evaluation
    since: int = 0  # steps since then
    step: int = 0
    updates: int = 0
    log: list[EvaluationEntry | UpdateEntry] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)
    best_order: Tensor | None = None


def run_id(plan: TreePlan, seed: int, device: torch.device, data: Mapping[str, object]) -> RunId:
    """The identity of a run; parts of the data are given by their fingerprints."""
    parts = {name: fingerprint(part) for name, part in data.items()}
    values = {"plan": asdict(plan), "seed": seed, "device": device.type, "data": parts}
    plain: RunId = json.loads(json.dumps(values))
    return plain


def has_checkpoint(folder: Path) -> bool:
    """Whether a folder holds anything to resume."""
    place = place_of(folder)
    return place.exists() and not (place.is_dir() and not any(place.iterdir()))


def save_checkpoint(folder: Path, state: TrainingState, run: RunId) -> None:
    """Write the state, replacing an earlier checkpoint."""
    index = state.index
    tensors = {
        **with_prefix("index.", index.tensors()),
        **with_prefix("optimizer.", state.optimizer.tensors()),
        **with_prefix("best.", state.best),
        "losses": state.losses,
    }
    if state.best_order is not None:
        tensors["best_order"] = state.best_order
    facts = {
        "index": index.settings(),
        "step": state.step,
        "updates": state.updates,
        "since": state.since,
        "log": [asdict(entry) for entry in state.log],
    }
    lineage = Lineage(str(run["data"].get("events")), int(run["seed"]), config=run)
    about = {"step": state.step, "updates": state.updates}
    save(folder, KIND, {TENSORS: tensors, FACTS: json.dumps(facts)}, lineage, about, overwrite=True)


def load_checkpoint(folder: Path, plan: TreePlan, device: torch.device, run: RunId) -> TrainingState:
    """The saved state, checked to be whole and to belong to this run."""
    saved = load(folder, KIND)
    _check_same(folder, saved.lineage.config, run)
    tensors, facts = saved.tensors(TENSORS), _facts(saved)
    index = TreeIndex.build(facts.pop("index"), without_prefix("index.", tensors)).to(device)
    losses = _tensor(folder, tensors, "losses").to(device)
    facts["log"] = [_entry(saved, values) for values in facts["log"]]
    state = TrainingState(index, TreeOptimizer(plan, index.scorer), losses, **facts)
    state.optimizer.restore(without_prefix("optimizer.", tensors))
    state.best = {name: one.to(device) for name, one in without_prefix("best.", tensors).items()}
    if state.best:
        state.best_order = _tensor(folder, tensors, "best_order").to(device)
    return state


def _check_same(folder: Path, saved: RunId, current: RunId) -> None:
    """Refuse the checkpoint of another run."""
    here, there = _flat(current), _flat(saved)
    names = [name for name in sorted(here | there) if here.get(name) != there.get(name)]
    if names:
        differences = "; ".join(
            f"{name} is {there.get(name)!r} there, {here.get(name)!r} here" for name in names
        )
        raise ArtifactError(
            f"{folder}: holds the checkpoint of another run: {differences}; resume with the same settings and data, "
            "or choose another folder"
        )


def _flat(run: RunId) -> dict[str, Any]:
    """One key per setting of the plan and per part of the data."""
    flat: dict[str, Any] = {}
    for name, value in run.items():
        flat |= (
            {f"{name}.{key}": part for key, part in value.items()}
            if isinstance(value, Mapping)
            else {name: value}
        )
    return flat


def _facts(saved: Artifact) -> dict[str, Any]:
    facts = saved.json(FACTS)
    wrong = [key for key, kind in KEYS.items() if not isinstance(dict(facts).get(key), kind)]
    if wrong or len(facts) != len(KEYS):
        raise ArtifactError(
            f"{saved.folder / FACTS}: expected {', '.join(KEYS)}, got {', '.join(facts)}; train again from the start"
        )
    return dict(facts)


def _entry(saved: Artifact, values: Mapping[str, Any]) -> EvaluationEntry | UpdateEntry:
    """A log entry from its JSON object."""
    try:
        if "update" not in values:
            return EvaluationEntry(**values)
        return UpdateEntry(**{**values, "update": UpdateReport(**values["update"])})
    except TypeError as error:
        raise ArtifactError(
            f"{saved.folder / FACTS}: damaged log entry ({error}); train again from the start"
        ) from error


def _tensor(folder: Path, tensors: Mapping[str, Tensor], name: str) -> Tensor:
    if name not in tensors:
        raise ArtifactError(f"{folder / TENSORS}: lacks {name!r}; train again from the start")
    return tensors[name]
