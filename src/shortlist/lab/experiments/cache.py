"""Answers of an experiment that were already computed: a long one goes on where it stopped."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from shortlist.errors import ArtifactError


@dataclass
class Kept:
    """Tensors and plain facts by name, in one file that is written anew after every addition; None = memory only."""

    path: Path | None = None
    tensors: dict[str, Tensor] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def at(cls, path: Path | None) -> "Kept":
        """What a file holds, or nothing yet."""
        if path is None or not path.exists():
            return cls(path)
        try:
            with safe_open(str(path), framework="pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                facts = json.loads((file.metadata() or {}).get("facts", "{}"))
        except (SafetensorError, ValueError) as error:
            raise ArtifactError(
                f"{path}: expected answers kept by an experiment, got {error}; remove it"
            ) from error
        return cls(path, tensors, facts)

    def get(
        self,
        name: str,
        make: Callable[[], tuple[Tensor, dict[str, Any]]],
        settings: Mapping[str, Any] | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """What is kept under a name, or what `make` gives, kept from now on.

        An answer made with other `settings` is refused, so that no table mixes two experiments.
        """
        plain = json.loads(json.dumps(settings))
        if name in self.tensors:
            self._check(name, plain)
        else:
            tensor, facts = make()
            facts = facts if plain is None else {**facts, "settings": plain}
            self.tensors[name], self.facts[name] = tensor.cpu().contiguous(), facts
            self._write()
        return self.tensors[name], self.facts[name]

    def take(self, others: Sequence["Kept"]) -> None:
        """All that other files hold, of runs with other seeds or systems, or nothing; what two hold must be equal."""
        tensors, facts = dict(self.tensors), dict(self.facts)
        for other in others:
            for name, tensor in other.tensors.items():
                if not torch.equal(tensors.setdefault(name, tensor), tensor):
                    raise ArtifactError(f"{other.path}: {name!r} is not what was kept under that name before")
                facts.setdefault(name, other.facts[name])
        self.tensors, self.facts = tensors, facts
        self._write()

    def _check(self, name: str, settings: dict[str, Any] | None) -> None:
        before = self.facts[name].get("settings")
        if settings is None or before is None:
            return
        other = sorted(key for key in settings | before if settings.get(key) != before.get(key))
        if other:
            told = ", ".join(f"{key} {before.get(key)!r}, now {settings.get(key)!r}" for key in other)
            raise ArtifactError(
                f"{self.path}: {name!r} was kept with other settings ({told}); remove the file, or name another"
            )

    def _write(self) -> None:
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        staging = self.path.with_name(self.path.name + ".new")
        save_file(self.tensors, str(staging), metadata={"facts": json.dumps(self.facts)})
        staging.replace(self.path)


def empty() -> Tensor:
    """For facts without a tensor."""
    return torch.empty(0)
