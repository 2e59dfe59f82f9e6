"""What a bundle records about itself: data, split, seed, and how every stage was trained."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shortlist.metrics.significance import Interval
from shortlist.pipeline.plan_report import PlanReport


@dataclass(frozen=True)
class RetrievedTargets:
    """How many training targets of a ranker the nominators retrieved, and whether training on those is safe."""

    level: str  # "ok", "warn" or "refuse"
    recall: float  # share of targets among the candidates, on requests the nominators were not trained on
    instances: int
    retrieved: int
    effective_share: float  # effective sample size of the weights over the number of instances
    missing_items: int  # target items that are never retrieved
    missing_share: float  # share of instances whose target is such an item
    clipped_share: float = 0.0  # share of instances whose weight was clipped
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class TrainingHistory:
    """How the training of one stage went."""

    epochs: int  # epochs that were run
    max_epochs: int
    best_epoch: int | None = None  # counted from 1; None without validation
    validation: tuple[float | None, ...] = ()  # early-stopping metric after every epoch
    converged: bool | None = None  # None without validation
    mode: str | None = None  # rankers: which targets are trained on
    negatives: str | None = None  # rankers: where negatives are sampled from
    retrieved: RetrievedTargets | None = None
    warnings: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)  # blend-ranker: of each component above 0
    ahead: int | None = None  # label horizon: the target is one of this many next events
    stopped: str = ""  # what ended the training before its epochs, if not early stopping
    kept: str = ""  # why the stage of an earlier run was kept
    effective_examples: float | None = None  # of importance weights: (sum w)^2 / sum w^2


@dataclass(frozen=True)
class OutOfFold:
    """How the training requests of rankers were kept out of the nominators' training data."""

    out_of_fold: str = (
        "earlier"  # "earlier": nominators see earlier events; "other-users": other folds of users
    )
    requests: int = 0
    folds: int | None = None


@dataclass(frozen=True)
class Plugin:
    """A stage type of a pipeline whose class is not part of this package."""

    type: str  # in the recipe
    module: str
    name: str  # of the class
    version: str = ""  # of its package, empty where it has none


@dataclass(frozen=True)
class Measured:
    """Metrics of the measured pipeline on one part of its split."""

    users: int
    metrics: Mapping[str, Interval] = field(default_factory=dict)  # by name, like "recall@20"


@dataclass(frozen=True)
class Refit:
    """What the served pipeline was fitted on after the measured one: all events."""

    events: int
    users: int
    stages: tuple[str, ...] = ()  # fitted again
    epochs: Mapping[str, int] = field(
        default_factory=dict
    )  # of those with epochs: the best of the measured run
    kept: Mapping[str, str] = field(default_factory=dict)  # stages that stay as measured, and why


@dataclass(frozen=True)
class Refresh:
    """What `refresh` added without training: later events in histories and counts; other stages kept their weights."""

    data: str  # fingerprint of the data set
    events: int
    users: int  # with events
    new_users: int  # who were not in the bundle
    unknown_items: int  # items of the data set that are not in the catalogue of the bundle
    left_out: int  # events with those items
    stages: tuple[str, ...] = ()  # fitted again, or with new counts


@dataclass(frozen=True)
class About:
    """Facts about a trained bundle."""

    name: str = "pipeline"
    data: str = ""  # name of the data set
    fingerprint: str = ""  # hash of the data set
    clock: str = "ms"  # or "order": times are positions, not milliseconds
    ends: int = 0  # time of the last event the served pipeline was fitted on
    events: int = 0  # number of training events of the measured pipeline
    split: Mapping[str, Any] = field(default_factory=dict)  # settings of the split, protocol among them
    seed: int = 0
    package: str = ""  # version of shortlist that trained it
    version: str = ""  # hash of the bundle's files; empty until it is saved
    training: Mapping[str, TrainingHistory] = field(default_factory=dict)  # by stage
    out_of_fold: OutOfFold = OutOfFold()
    split_warning: str = ""  # what the split leaves out, if that is much
    size_warnings: tuple[str, ...] = ()  # cuts of the pipeline that cut nothing
    measured: Mapping[str, Measured] = field(default_factory=dict)  # by part of the split: valid, test
    refit: Refit | None = None  # None: the measured pipeline is served
    refresh: Refresh | None = None  # the last one
    plugins: tuple[Plugin, ...] = ()  # classes from outside the package
    plan: PlanReport | None = None  # of a pipeline that `auto` composed

    @property
    def not_converged(self) -> tuple[str, ...]:
        """Stages whose epochs ran out while the validation metric still improved."""
        return tuple(name for name, history in self.training.items() if history.converged is False)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the split leaves out, cuts that cut nothing, warnings of trainers, stages not fitted again."""
        trainers = tuple(text for history in self.training.values() for text in history.warnings)
        split = (self.split_warning,) if self.split_warning else ()
        kept = self.refit.kept.items() if self.refit is not None else ()
        stay = (f"stage {name!r} was not fitted again on all events: {reason}" for name, reason in kept)
        return (*split, *self.size_warnings, *trainers, *stay)
