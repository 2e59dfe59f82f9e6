"""Answers of an experiment that were computed before: a long experiment resumes where it stopped."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from shortlist.artifact.as_json import as_json
from shortlist.errors import ArtifactError
from shortlist.lab.result import read_history
from shortlist.pipeline.about import TrainingHistory

SETTINGS, HISTORY = "settings", "history"  # facts that every trained system has
ORIGIN = "origin"  # machine and commit of an answer


@dataclass
class AnswerCache:
    """Tensors and JSON facts by name, in one file that is written after every addition; without a path, in memory.

    The name of an answer ends with its seed: `ml-1m/sasrec/0`.
    """

    path: Path | None = None
    tensors: dict[str, Tensor] = field(default_factory=dict)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    used: dict[str, None] = field(default_factory=dict)  # names requested in this run, in order

    @classmethod
    def open(cls, path: Path | None) -> "AnswerCache":
        """The contents of a file, or an empty cache if there is none."""
        if path is None or not path.exists():
            return cls(path)
        try:
            with safe_open(str(path), framework="pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                facts = json.loads((file.metadata() or {}).get("facts", "{}"))
        except (SafetensorError, ValueError) as error:
            raise ArtifactError(
                f"{path}: expected a cache of an experiment's results, got {error}; remove it"
            ) from error
        return cls(path, tensors, facts)

    def get(
        self,
        name: str,
        make: Callable[[], tuple[Tensor, dict[str, Any]]],
        settings: Mapping[str, Any] | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """The cached answer of this name, or the answer of `make`, which is then cached.

        An answer made with other `settings` is refused, so that no table mixes two experiments.
        """
        plain = as_json(settings)
        self.used[name] = None
        if name in self.tensors:
            self._check(name, plain)
        else:
            self.put(name, *make(), plain)
        return self.tensors[name], self.facts[name]

    def put(
        self, name: str, tensor: Tensor, facts: Mapping[str, Any], settings: Mapping[str, Any] | None = None
    ) -> None:
        """Add an answer and write the file."""
        plain = as_json(facts if settings is None else {**facts, SETTINGS: settings})
        self.tensors[name], self.facts[name] = tensor.cpu().contiguous(), plain
        self._write()

    def has(self, name: str, settings: Mapping[str, Any] | None = None) -> bool:
        """Whether there is an answer of this name; one made with other `settings` is refused."""
        if name in self.tensors:
            self.used[name] = None
            self._check(name, as_json(settings))
        return name in self.tensors

    def merge(self, others: Sequence["AnswerCache"]) -> None:
        """Add the answers of other files, of other seeds or systems; an answer in two files must be equal in both."""
        tensors, facts = dict(self.tensors), dict(self.facts)
        for other in others:
            for name, tensor in other.tensors.items():
                if not torch.equal(tensors.setdefault(name, tensor), tensor):
                    raise ArtifactError(
                        f"{other.path}: {name!r} differs from the answer cached under that name before"
                    )
                facts.setdefault(name, other.facts[name])
        self.tensors, self.facts = tensors, facts
        self._write()

    @property
    def settings(self) -> dict[str, Mapping[str, Any]]:
        """The settings of every system of this run, once for all seeds where they agree."""
        found: dict[str, Mapping[str, Any]] = {}
        for name in self.used:
            settings = self.facts[name].get(SETTINGS)
            if settings is not None and found.setdefault(_system(name), settings) != settings:
                found[name] = settings
        return found

    @property
    def training(self) -> dict[str, TrainingHistory]:
        """The training history of every system and seed of this run that has one."""
        known = {name: self.facts[name].get(HISTORY) for name in self.used}
        return {name: read_history(plain) for name, plain in known.items() if plain is not None}

    @property
    def origins(self) -> str:
        """Where the answers that were used come from, in a sentence."""
        known = [self.facts[name].get(ORIGIN) for name in self.used if name in self.facts]
        counts = Counter(f"on {one[0]} at commit {one[1]}" if one else "not recorded" for one in known)
        listed = "; ".join(f"{count} {origin}" for origin, count in counts.items())
        return f"Cells: {listed}." if listed else ""

    def _check(self, name: str, settings: dict[str, Any] | None) -> None:
        before = self.facts[name].get(SETTINGS)
        if settings is None or before is None:
            return
        other = sorted(key for key in settings | before if settings.get(key) != before.get(key))
        if other:
            changed = ", ".join(f"{key} {before.get(key)!r}, now {settings.get(key)!r}" for key in other)
            raise ArtifactError(
                f"{self.path}: {name!r} was cached with other settings ({changed}); remove the file, or use another"
            )

    def _write(self) -> None:
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        staging = self.path.with_name(self.path.name + ".new")
        save_file(self.tensors, str(staging), metadata={"facts": json.dumps(self.facts)})
        staging.replace(self.path)


def _system(name: str) -> str:
    """The name of an answer without its seed."""
    system, _, seed = name.rpartition("/")
    return system if system and seed.lstrip("-").isdecimal() else name


def empty() -> Tensor:
    """The tensor of an answer that has only facts."""
    return torch.empty(0)
