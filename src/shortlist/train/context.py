"""What a trainer is given."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shortlist.data import Candidates, Catalog, HeldOut, Interactions, Query
from shortlist.data.membership import is_in
from shortlist.grammar import Stage
from shortlist.progress import Progress, silent

DAY = 86_400_000  # milliseconds

Note = Callable[[str, Mapping[str, Any]], None]
"""Hears how the training of a stage went: its name, and the facts that `shortlist.train.loop.convergence.course` makes."""


def forget(name: str, facts: Mapping[str, Any]) -> None:
    """Nobody wants to know how a training went."""


@dataclass(frozen=True, eq=False)
class RequestBatch:
    """A batch of rehearsed requests: what was found so far, and which of it the user met later."""

    query: Query
    found: Candidates
    truth: Tensor  # [B, R] rows, -1 = padding

    @cached_property
    def wanted(self) -> Tensor:
        """True where a candidate is one the user met later [B, K]."""
        return is_in(self.found.items, self.truth) & self.found.valid

    def through(self, stage: Callable[[Query, Candidates], Candidates]) -> "RequestBatch":
        """The same requests one stage further."""
        return RequestBatch(self.query, stage(self.query, self.found), self.truth)


@dataclass(frozen=True, eq=False)
class TrainContext:
    """Events to learn from, what is known of the items, and, for stages after the nominators, rehearsed requests."""

    events: Interactions
    catalog: Catalog
    clock: str = "ms"  # or "order"
    seed: int = 0
    progress: Progress = silent
    valid: HeldOut | None = None  # cases to stop early by, never to learn from
    rounds: tuple[RequestBatch, ...] = ()
    fitted: Mapping[str, Stage] = field(default_factory=dict)  # stages that are ready, by name
    keep: Path | None = None  # where long trainings keep how far they are
    note: Note = forget  # a trainer that was judged calls it once, when it is done

    def place(self, what: str, *marks: object) -> Path | None:
        """A folder of its own for a training on these events that is marked so; None where nothing is kept."""
        if self.keep is None:
            return None
        told = json.dumps([marks, self.seed, self.events.fingerprint], sort_keys=True, default=str)
        return self.keep / f"{what}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"

    @property
    def ends(self) -> int:
        """The time of the last event."""
        return int(self.events.times.max()) if len(self.events) else 0

    @property
    def categories(self) -> Tensor:
        """The category row of every item [N]."""
        return torch.from_numpy(self.catalog.category_rows)
