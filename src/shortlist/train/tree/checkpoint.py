"""Where training stands, kept on disk whole or not at all, and taken up again only by the run it belongs to."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.artifact.staging import standing as place_of
from shortlist.artifact.store import Artifact, Lineage, load, save
from shortlist.data import HeldOut, Interactions
from shortlist.errors import ArtifactError
from shortlist.index.tree import TreeIndex
from shortlist.train.tree.optimise import Optimiser
from shortlist.train.tree.plan import TreePlan

KIND = "tree-training"
TENSORS, FACTS = "standing.safetensors", "standing.json"
KEYS = {"index": dict, "step": int, "updates": int, "since": int, "told": list}

Marks = Mapping[str, Any]
"""What the future depends on besides the standing, by name, in the words of JSON."""


@dataclass(eq=False)
class Standing:
    """Where training stands: with the plan, the lesson and the seed it is all that the future depends on."""

    index: TreeIndex
    optimiser: Optimiser
    losses: Tensor  # [2] the loss and the share of skipped levels, summed since the last judgement
    since: int = 0  # steps since then
    step: int = 0
    updates: int = 0
    told: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)
    best_order: Tensor | None = None


def marks_of(plan: TreePlan, seed: int, device: torch.device, lesson: Mapping[str, object]) -> Marks:
    """The marks of a run; the parts of a lesson are told by fingerprints."""
    told = {name: mark_of(part) for name, part in lesson.items()}
    made: Marks = json.loads(
        json.dumps({"plan": asdict(plan), "seed": seed, "device": device.type, "lesson": told})
    )
    return made


def is_kept(folder: Path) -> bool:
    """Whether there is anything in a folder to take up."""
    place = place_of(folder)
    return place.exists() and not (place.is_dir() and not any(place.iterdir()))


def keep(folder: Path, standing: Standing, marks: Marks) -> None:
    """Write where training stands in place of what was kept before."""
    index = standing.index
    tensors = {
        **_named("index.", index.tensors()),
        **_named("memory.", standing.optimiser.tensors()),
        **_named("best.", standing.best),
        "losses": standing.losses,
    }
    if standing.best_order is not None:
        tensors["best_order"] = standing.best_order
    facts = {"index": index.settings(), **{name: getattr(standing, name) for name in KEYS if name != "index"}}
    lineage = Lineage(str(marks["lesson"].get("events")), int(marks["seed"]), config=marks)
    about = {"step": standing.step, "updates": standing.updates}
    save(folder, KIND, {TENSORS: tensors, FACTS: json.dumps(facts)}, lineage, about, overwrite=True)


def resume(folder: Path, plan: TreePlan, device: torch.device, marks: Marks) -> Standing:
    """What was kept, after checking all of it, if it belongs to a run with these marks."""
    kept = load(folder, KIND)
    _check_same(folder, kept.lineage.config, marks)
    tensors, facts = kept.tensors(TENSORS), _facts(kept)
    index = TreeIndex.build(facts.pop("index"), _under("index.", tensors)).to(device)
    standing = Standing(
        index, Optimiser(plan, index.scorer), _one(folder, tensors, "losses").to(device), **facts
    )
    standing.optimiser.restore(_under("memory.", tensors))
    standing.best = {name: one.to(device) for name, one in _under("best.", tensors).items()}
    if standing.best:
        standing.best_order = _one(folder, tensors, "best_order").to(device)
    return standing


def mark_of(part: object) -> str | None:
    """A short name for exactly this part of a lesson."""
    if part is None:
        return None
    if isinstance(part, Interactions):
        return part.fingerprint
    if isinstance(part, HeldOut):
        return _digest(part.events.fingerprint.encode(), part.starts, part.cuts, part.stops)
    if isinstance(part, Mapping):
        return _digest(*(f"{name} {mark_of(part[name])}".encode() for name in sorted(part)))
    if isinstance(part, tuple):
        return _digest(*(str(mark_of(one)).encode() for one in part))
    assert isinstance(part, Tensor), "a lesson is made of events, cases and tensors"
    shown = part.detach().cpu().contiguous()
    return _digest(f"{shown.dtype} {list(shown.shape)}".encode(), shown.numpy())


def _digest(*parts: bytes | np.ndarray[Any, Any]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else np.ascontiguousarray(part).data)
    return digest.hexdigest()[:16]


def _check_same(folder: Path, kept: Marks, wanted: Marks) -> None:
    """Refuse what another run left."""
    here, there = _flat(wanted), _flat(kept)
    names = [name for name in sorted(here | there) if here.get(name) != there.get(name)]
    if names:
        told = "; ".join(f"{name} is {there.get(name)!r} there, {here.get(name)!r} here" for name in names)
        raise ArtifactError(
            f"{folder}: holds the training of another run: {told}; resume with what it began with, "
            "or choose another folder"
        )


def _flat(marks: Marks) -> dict[str, Any]:
    """Marks with a name for each switch of the plan and each part of the lesson."""
    found: dict[str, Any] = {}
    for name, value in marks.items():
        found |= (
            {f"{name}.{one}": it for one, it in value.items()}
            if isinstance(value, Mapping)
            else {name: value}
        )
    return found


def _facts(kept: Artifact) -> dict[str, Any]:
    facts = kept.json(FACTS)
    wrong = [key for key, kind in KEYS.items() if not isinstance(dict(facts).get(key), kind)]
    if wrong or len(facts) != len(KEYS):
        raise ArtifactError(
            f"{kept.folder / FACTS}: expected {', '.join(KEYS)}, got {', '.join(facts)}; train again from the start"
        )
    return dict(facts)


def _one(folder: Path, tensors: Mapping[str, Tensor], name: str) -> Tensor:
    if name not in tensors:
        raise ArtifactError(f"{folder / TENSORS}: lacks {name!r}; train again from the start")
    return tensors[name]


def _named(start: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {start + name: one for name, one in tensors.items()}


def _under(start: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(start): one for name, one in tensors.items() if name.startswith(start)}
