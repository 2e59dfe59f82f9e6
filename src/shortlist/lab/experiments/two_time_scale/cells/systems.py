"""The systems of the two-time-scale tables, and how each is trained at a place."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shortlist.lab.experiments.two_time_scale.cells.places import (
    FULL,
    MOVIELENS,
    OFFERS,
    TENTH,
    UNIT,
    VALID_EVENTS,
    Place,
    place_of,
)
from shortlist.train.models.trainer import ModelTrainer
from shortlist.train.registry import make_trainer
from shortlist.train.two_time_scale.recurrence import MOST_POSITIVES

CCF, GRU, SASREC, POOLING, LAST_CLICK, TWO = (
    "ccf",
    "gru4rec",
    "sasrec",
    "sum-pooling",
    "last-click",
    "two-time-scale",
)
POPULAR, RECENT, DYNAMIC, STATIC = "popularity", "recent popularity", "oracle, dynamic", "oracle, static"
ADAM, TABLES = (1e-3, 3e-3, 1e-2), (0.01, 0.03, 0.1)  # learning rates that validation chooses from
RATE = {CCF: "table_learning_rate"}  # name of the learning rate where it is not the usual one
USUAL = {CCF: 0.1}
FAST = {POOLING: 3e-3, GRU: 3e-3, "sasrec-50": 3e-3, "sasrec-200": 3e-3, "1-gru": 3e-3, "2ts anchored": 3e-3}
# Learning rates by place and system: the best ones of the tuning cells, on validation events of seed 0.
CHOSEN: Mapping[str, Mapping[str, float]] = {
    MOVIELENS: {
        **{CCF: 0.03, POOLING: 1e-2, GRU: 1e-3, "sasrec-50": 1e-3, "1-gru": 1e-3, "2ts anchored": 1e-3},
        **{"2ts plain": 1e-3, "2ts shrink": 3e-3},
    },
    TENTH: {**FAST, CCF: 0.1},
    UNIT: {
        **{CCF: 0.03, POOLING: 1e-3, GRU: 1e-3, "sasrec-50": 3e-3, "1-gru": 1e-2, "2ts anchored": 3e-3},
        **{"2ts plain": 1e-3, "2ts plus": 1e-3, "2-gru": 1e-2, "2ts single-stage": 1e-3},
        **{"2ts shrink": 3e-3, "2ts as in the paper": 3e-3},
    },
}
SHARED = (
    "dropout",
    "features",
    "first_learning_rate",
    "items",
    "loss",
    "logq_correction",
)  # settings that the recurrence of all users depends on
EVERYONE = (
    ("window", "own"),
    ("window", "common"),
    ("window", "none"),
)  # prefix and vectors of those who have it
VALIDATED = {False: "ndcg@100", True: "ndcg@100+repeats"}  # by whether users take items again


@dataclass(frozen=True)
class System:
    """A system of a table: a model, and what differs from the usual settings of its trainer."""

    name: str
    model: str
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    refit: bool = False  # whether users get new own vectors as their events arrive

    @property
    def has_first_stage(self) -> bool:
        """Whether the item vectors are those of a factorisation."""
        return self.model == TWO and self.settings.get("stages") != "one"

    @property
    def first(self) -> "System":
        """The factorisation under a two-time-scale system: the one of the table, with its features."""
        names = {
            "features": "features",
            "logq_correction": "correction",
            "first_learning_rate": RATE[CCF],
        }
        changes = {names[name]: one for name, one in self.settings.items() if name in names}
        return System(", ".join([CCF, *changes]), CCF, changes)

    @property
    def base(self) -> "System | None":
        """The system whose recurrence of all users it has; None where that is another one for it."""
        known = {"prefix": "window", "personal": "own", "stages": "two"}
        prefix, personal, stages = (self.settings.get(name, usual) for name, usual in known.items())
        if stages == "one" or (prefix, personal) not in EVERYONE:
            return None
        shared = {name: one for name, one in self.settings.items() if name in SHARED}
        # Readouts other than plus read the vectors of new users as they are.
        readout = "plus" if self.settings.get("readout") == "plus" else "plain"
        return System(ONE_GRU, TWO, {**shared, "personal": "none", "readout": readout})

    @property
    def rates(self) -> tuple[float, ...]:
        """The learning rates to choose from; none for counts."""
        if self.model in (POPULAR, RECENT, DYNAMIC, STATIC, LAST_CLICK):
            return ()
        return TABLES if self.model == CCF else ADAM

    @property
    def tuned_as(self) -> str:
        """The system whose learning rate it has: that of its model, and of the variant that it is nearest to."""
        if self.model != TWO:
            return {SASREC: "sasrec-50"}.get(self.model, self.model)
        if self.name in TUNED:
            return self.name
        if self.settings.get("personal") == "none":
            return ONE_GRU
        return PLAIN if self.settings.get("readout") == "plain" else ANCHORED


def variants(**many: Mapping[str, Any]) -> dict[str, System]:
    """Two-time-scale systems by name, from their differences."""
    return {name: System(name, TWO, settings) for name, settings in many.items()}


ANCHORED, PLAIN, PLUS, ONE_GRU, TWO_GRU = "2ts anchored", "2ts plain", "2ts plus", "1-gru", "2-gru"
LONGER = "2ts anchored, K=50"
REFITTED = "2ts anchored, refitted"
CHOSEN_THRESHOLD = "2ts anchored, chosen t*"
FEATURES = "2ts anchored, features"
SINGLE_STAGE, SHRINK, PAPER = "2ts single-stage", "2ts shrink", "2ts as in the paper"
TUNED = (
    ONE_GRU,
    ANCHORED,
    PLAIN,
    PLUS,
    TWO_GRU,
    SINGLE_STAGE,
    SHRINK,
    PAPER,
)  # variants with a rate of their own
CCF_FEATURES, GRU_FEATURES = (
    "ccf, features",
    "1-gru, features",
)  # what a variant with features is compared with
_BASELINES = (
    System(POPULAR, POPULAR),
    System(RECENT, RECENT),
    System(LAST_CLICK, LAST_CLICK),
    System(CCF, CCF),
    System(POOLING, POOLING),
    System(GRU, GRU),
    System("sasrec-50", SASREC, {"max_history": 50}),
    System("sasrec-200", SASREC, {"max_history": 200}),
)
_STATES: dict[str, dict[str, Any]] = {
    ONE_GRU: {"personal": "none", "readout": "plain"},
    ANCHORED: {},
    PLAIN: {"readout": "plain"},
    PLUS: {"readout": "plus"},
}
ABLATIONS: dict[str, dict[str, Any]] = {
    TWO_GRU: {"personal": "common", "readout": "plain"},
    SINGLE_STAGE: {"stages": "one", "readout": "plain"},
    SHRINK: {"start": "shrink"},
    "2ts swap": {"personal": "swap"},
    CHOSEN_THRESHOLD: {"threshold": -1},
    "1-gru, frozen items": {"personal": "none", "readout": "plain", "items": "frozen"},
    "2ts anchored, frozen items": {"items": "frozen"},
    "2ts plain, frozen items": {"readout": "plain", "items": "frozen"},
    "2ts anchored, no transfer": {"transfer": False},
    "2ts plain, no transfer": {"readout": "plain", "transfer": False},
    "2ts plain, no transfer, gate bias 0": {"readout": "plain", "transfer": False, "gate_bias": 0.0},
    "2ts anchored, full": {"base": "full"},
    "2ts anchored, full, no replay": {"base": "full", "replay": False},
    "2ts plain, full": {"readout": "plain", "base": "full"},
    "2ts plain, full, no replay": {"readout": "plain", "base": "full", "replay": False},
    PAPER: {
        **{"readout": "plain", "base": "full", "replay": False, "prefix": "none"},
        **{"items": "frozen", "transfer": False},
    },
    "2ts anchored, prefix t*": {"prefix": "threshold"},
    "2ts anchored, no prefix": {"prefix": "none"},
    "2ts anchored, last events only": {"span": 0},
    "1-gru, first stage at 0.1": {"personal": "none", "readout": "plain", "first_learning_rate": 0.1},
    "2ts anchored, first stage at 0.1": {"first_learning_rate": 0.1},
    "1-gru, no dropout": {"personal": "none", "readout": "plain", "dropout": 0.0},
    "2ts anchored, no dropout": {"dropout": 0.0},
    "2ts anchored, offers": {"loss": "offers"},
    "2ts anchored, offers, no logq": {"loss": "offers", "logq_correction": False},
    **{f"2ts anchored, K={last}": {"last": last} for last in (0, 5, 10, 50)},
    **{f"2ts plain, K={last}": {"readout": "plain", "last": last} for last in (0, 5, 10, 50)},
}
THRESHOLDS = (0, 10, 20, 50, 100, 200, 400)
AT_THRESHOLD = "2ts anchored, t*="
_THRESHOLDS = {f"{AT_THRESHOLD}{threshold}": {"threshold": threshold} for threshold in THRESHOLDS}
SYSTEMS: Mapping[str, System] = {
    **{one.name: one for one in _BASELINES},
    **{name: System(name, name) for name in (DYNAMIC, STATIC)},
    **variants(**_STATES, **ABLATIONS, **_THRESHOLDS),
    FEATURES: System(FEATURES, TWO, {"features": True}),
    CCF_FEATURES: System(CCF_FEATURES, CCF, {"features": True}),
    GRU_FEATURES: System(GRU_FEATURES, TWO, {**_STATES[ONE_GRU], "features": True}),
    REFITTED: System(REFITTED, TWO, {}, refit=True),
}


def trainer_of(system: System, place: Place, rate: float | None = None) -> ModelTrainer:
    """The trainer of a system at a place; without a learning rate the usual one."""
    budget = place.budget
    shared: dict[str, Any] = {
        "epochs": budget.epochs,
        "patience": budget.patience,
        "early_stop_metric": VALIDATED[place.repeats],
        "validation_users": VALID_EVENTS,
        "width": budget.width,
        "loss": budget.loss,
        "features": False,
        RATE.get(system.model, "learning_rate"): rate or rate_of(system, place),
    }
    sequence: dict[str, Any] = {
        "max_history": budget.window,
        "batch_size": budget.sequences,
        "hidden": budget.width,
    }
    if budget.loss == OFFERS:  # as many candidates as the offers of recurrences
        sequence |= {"loss": "sampled", "negatives": budget.negatives + MOST_POSITIVES}
    factors: dict[str, Any] = {"uniform_negatives": budget.negatives, "batch_size": budget.batch_events // 4}
    recurrences = {
        "threshold": budget.threshold,
        "window": budget.window,
        "negatives": budget.negatives,
        "batch_size": budget.batch_events,
    }
    by_model: dict[str, dict[str, Any]] = {CCF: factors, TWO: recurrences, LAST_CLICK: {}}
    own = by_model.get(system.model, sequence)
    trainer: ModelTrainer = make_trainer(system.model)
    known = trainer.settings()
    chosen = {**shared, **own, **system.settings}
    return trainer.with_settings(**{name: one for name, one in chosen.items() if name in known})


def rate_of(system: System, place: Place) -> float:
    """The learning rate that was chosen for a system, or the usual one."""
    return CHOSEN.get(tuned_at(place).name, {}).get(system.tuned_as, USUAL.get(system.model, 1e-3))


def tuned_at(place: Place) -> Place:
    """Where learning rates for a place are chosen: for the full world, in one of a tenth of its users."""
    named = place.name.partition(",")[0]
    return place_of(TENTH if named == FULL else named)
