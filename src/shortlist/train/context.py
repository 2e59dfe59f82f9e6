"""The input of every trainer."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import torch
from torch import Tensor

from shortlist.data import Candidates, Catalog, HeldOut, Interactions, Query
from shortlist.data.membership import is_in
from shortlist.grammar import Stage
from shortlist.pipeline.about import TrainingHistory
from shortlist.progress import Progress, silent
from shortlist.train.fingerprint import fingerprint
from shortlist.train.logged.training_log import TrainingLog
from shortlist.train.stage_outcomes import StageOutcomes

DAY = 86_400_000  # milliseconds

Note = Callable[[str, TrainingHistory], None]
"""Records the training history of a stage by its name."""


def no_history(name: str, history: TrainingHistory) -> None:
    """Record nothing."""


@dataclass(frozen=True, eq=False)
class RequestBatch:
    """A batch of training requests: the candidates so far, and the targets."""

    query: Query
    found: Candidates
    targets: Tensor  # [B, R] rows of items the user interacts with later, -1 = padding
    weights: Tensor | None = None  # [B, R] strength of each target; None: all are equal
    later: Tensor | None = None  # [B, L] items after the targets, -1 = padding: neither targets nor negatives
    logged: StageOutcomes | None = None  # of requests of a full-stage log: how far each candidate came

    @cached_property
    def is_target(self) -> Tensor:
        """True where a candidate is a target [B, K]."""
        return is_in(self.found.items, self.targets) & self.found.valid

    @cached_property
    def fingerprint(self) -> str | None:
        """A hash of requests, candidates and targets."""
        found = {"items": self.found.items, "scores": self.found.scores, **self.found.columns}
        logged = () if self.logged is None else self.logged.tensors
        return fingerprint((self.query.history, found, self.targets, self.weights, self.later, *logged))

    def through(self, stage: Callable[[Query, Candidates], Candidates]) -> "RequestBatch":
        """The same requests after one more stage; of logged ones, the candidates that the logged stage passed on."""
        if self.logged is None:
            return replace(self, found=stage(self.query, self.found))
        found, logged = self.logged.through(stage, self.query, self.found)
        return replace(self, found=found, logged=logged)

    def with_found(self, found: Candidates) -> "RequestBatch":
        """The same requests with other candidates."""
        return replace(self, found=found)

    @cached_property
    def no_negative(self) -> Tensor:
        """Items that may not be negatives: the targets and all later ones [B, R + L]."""
        return self.targets if self.later is None else torch.cat([self.targets, self.later], dim=1)


@dataclass(frozen=True, eq=False)
class TrainContext:
    """Training events, the catalogue, and, for stages after the nominators, requests with out-of-fold candidates."""

    events: Interactions
    catalog: Catalog
    clock: str = "ms"  # or "order"
    seed: int = 0
    progress: Progress = silent
    valid: HeldOut | None = None  # validation users, for early stopping only
    batches: tuple[RequestBatch, ...] = ()
    fitted: Mapping[str, Stage] = field(default_factory=dict)  # trained stages by name
    checkpoint_dir: Path | None = None  # where long trainings save checkpoints
    source: str = (
        ""  # hash of the plug-in code that trains; its checkpoints are read only while it is the same
    )
    note: Note = no_history  # called once per trained stage with its training history
    best_epochs: Mapping[str, int] = field(
        default_factory=dict
    )  # by stage, of a refit: train exactly this long
    warm: Mapping[str, Stage] = field(
        default_factory=dict
    )  # by name, stages fitted on a subset of these events, to continue from
    user_table: pa.Table | None = None  # row i describes user i
    log: TrainingLog | None = None  # requests of a full-stage log, for trainers of retrieval

    def unweighted(self) -> "TrainContext":
        """The same data, every event with weight 1."""
        batches = tuple(replace(one, weights=None) for one in self.batches)
        return replace(self, events=self.events.unweighted(), batches=batches)

    def checkpoint_folder(self, task: str, *settings: object) -> Path | None:
        """The checkpoint folder of one training with these settings on these events; None without checkpoints."""
        if self.checkpoint_dir is None:
            return None
        data = [self.events.fingerprint, *(one.fingerprint for one in self.batches)]
        data += [] if self.log is None else [str(self.log.fingerprint)]
        key = json.dumps([settings, self.seed, self.source, *data], sort_keys=True, default=str)
        return self.checkpoint_dir / f"{task}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"

    @property
    def ends(self) -> int:
        """The time of the last event."""
        return int(self.events.times.max()) if len(self.events) else 0

    @property
    def categories(self) -> Tensor:
        """The row of the first category of every item [N]."""
        return torch.from_numpy(self.catalog.category_rows)

    @property
    def category_lists(self) -> Tensor:
        """The rows of all categories of every item [N, C], -1 = none."""
        return torch.from_numpy(self.catalog.category_lists)
