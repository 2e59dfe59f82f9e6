"""Checkpoints of the training loop: written whole after an epoch, resumed only by the training they belong to."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from shortlist.artifact.json_tensor import with_prefix, without_prefix
from shortlist.artifact.staging import current_folder
from shortlist.artifact.store import Lineage, load, save
from shortlist.errors import ArtifactError
from shortlist.train.fingerprint import fingerprint
from shortlist.train.loop.convergence import FitSummary

KIND = "training-loop"
TENSORS, FACTS = "state.safetensors", "state.json"
SECONDS = 30.0  # least time between two checkpoints; the last epoch is always saved


@dataclass(eq=False)
class LoopState:
    """Everything that changes during training, besides torch's random numbers."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    epoch: int = 0  # finished epochs
    validation: list[float] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)  # weights of the best epoch
    seconds: float = 0.0  # of training before this process, or this part of it
    out_of_time: bool = False  # the time limit stopped it

    @property
    def summary(self) -> FitSummary:
        """Epochs that were run, and whether the time limit stopped it."""
        return FitSummary(self.epoch, self.out_of_time)

    def tensors(self) -> dict[str, Tensor]:
        """All tensors of the state, and the state of torch's generators."""
        return {
            **with_prefix("model.", self.model.state_dict()),
            **with_prefix("best.", self.best),
            **with_prefix("optimizer.", _of_optimizer(self.optimizer)),
            **with_prefix("random.", _random_state(_device(self.model))),
        }

    def restore(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.model.load_state_dict(without_prefix("model.", tensors))
        self.best = {
            name: one.to(_device(self.model), copy=True)
            for name, one in without_prefix("best.", tensors).items()
        }
        _restore_optimizer(self.optimizer, without_prefix("optimizer.", tensors))
        _restore_random_state(without_prefix("random.", tensors), _device(self.model))
        self.epoch, self.validation = int(facts["epoch"]), [float(one) for one in facts["validation"]]
        self.seconds, self.out_of_time = float(facts["seconds"]), bool(facts["out_of_time"])


class Checkpoints:
    """The checkpoint of one training; without a folder nothing is saved or restored."""

    def __init__(self, folder: Path | None, model: nn.Module, **settings: Any) -> None:
        self.folder, self.saved_at = folder, time.monotonic()
        # The weights before the first step stand for the data and the settings they come from.
        self.run = {} if folder is None else {**settings, "start": fingerprint(model.state_dict())}

    def restore(self, state: LoopState) -> None:
        """Continue where the same training was stopped, if it was."""
        if self.folder is None or not current_folder(self.folder).exists():
            return
        try:
            saved = load(self.folder, KIND)
        except ArtifactError as error:
            raise ArtifactError(f"{error}; remove {self.folder}, and it is trained again") from error
        if dict(saved.lineage.config) != json.loads(json.dumps(self.run)):
            raise ArtifactError(
                f"{self.folder}: holds the checkpoint of another training ({dict(saved.lineage.config)}, expected "
                f"{self.run}); remove it, and this one begins anew"
            )
        state.restore(saved.tensors(TENSORS), saved.json(FACTS))

    def save(self, state: LoopState, seconds: float, last: bool) -> None:
        """Write the state after an epoch and so many seconds, unless the last one was written a moment ago."""
        if self.folder is None or not (last or time.monotonic() - self.saved_at >= SECONDS):
            return
        facts = {
            "epoch": state.epoch,
            "validation": state.validation,
            "seconds": state.seconds + seconds,
            "out_of_time": state.out_of_time,
        }
        parts = {TENSORS: state.tensors(), FACTS: json.dumps(facts)}
        save(self.folder, KIND, parts, Lineage(config=self.run), {"epoch": state.epoch}, overwrite=True)
        self.saved_at = time.monotonic()


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def _of_optimizer(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The moments and step counts of all weights: `3.exp_avg` belongs to the fourth."""
    states = optimizer.state_dict()["state"]
    return {f"{at}.{name}": value for at, own in states.items() for name, value in own.items()}


def _restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    states: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        at, _, name = key.partition(".")
        states.setdefault(int(at), {})[name] = value.clone()
    optimizer.load_state_dict({**optimizer.state_dict(), "state": states})


def _random_state(device: torch.device) -> dict[str, Tensor]:
    own = {"cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else {}
    return {"cpu": torch.get_rng_state(), **own}


def _restore_random_state(states: Mapping[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(states["cpu"].clone())
    if "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"].clone(), device)
