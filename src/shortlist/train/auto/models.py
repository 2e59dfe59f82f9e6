"""Nominators of a plan that are trained in epochs: as many models and epochs as the budget allows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shortlist.train.auto.composed import Composed
from shortlist.train.auto.parts import LARGE, Parts, minutes_of, nominator
from shortlist.train.auto.sizes import MOST, SHARE, sizes

SEQUENCE = ("sasrec", "gru4rec")  # the better first
MIN_SEQUENCES = 50  # training requests that a sequence model needs
MIN_EPOCHS, MANY_STEPS = 20, 100  # of a sequence model; fewer epochs where each has many steps
FEW_EPOCHS = 12  # on nine setups nine tenths of the best recall of SASRec took 1 to 15
ENOUGH_EPOCHS = 25  # with the exact loss; where fewer fit, the sampled loss is cheaper
MAX_EPOCHS = 60
EPOCHS_WITHOUT_VALIDATION = 10
TOWER_EPOCHS = 10
TOWER_SHARE = 0.15  # of the budget
GRAPH_SHARE = 0.2  # of the budget: it is planned before the sequence models
STATES = "two-time-scale"
FIRST_STAGE = "ccf"  # of two-time-scale users
STATE_SHARE = 0.2  # of the budget: planned before the sequence models
MIN_STATE_EPOCHS, MAX_STATE_EPOCHS = 8, 30  # of both stages of two-time-scale users
OWN_VECTORS = 1.3  # times the epochs of both stages: vectors of active users, their recurrence and a trial


@dataclass(frozen=True)
class Sized:
    """Settings of a sequence model, the seconds of its epoch, and how many of them fit."""

    settings: Mapping[str, Any]
    epoch: float
    epochs: int


@dataclass(frozen=True)
class ModelParts(Parts):
    """The parts of a plan that are trained in epochs."""

    def sequence(self, plan: Composed) -> Composed:
        """SASRec with the exact loss, or the sampled one where too few epochs of the exact one fit; else GRU4Rec."""
        profile = self.profile
        if profile.rankable < MIN_SEQUENCES:
            return plan.without("sasrec", self.few(MIN_SEQUENCES))
        most = MAX_EPOCHS if profile.validation else EPOCHS_WITHOUT_VALIDATION
        for kind in SEQUENCE:
            chosen = self._sized(kind, plan, most)
            if chosen.epochs >= min(self._least(kind), most):
                return self._sequence_model(plan, kind, chosen, "the order of histories", 100)
            plan = self._without(plan, kind, chosen.epoch, self._least(kind))
        return plan

    def second_sequence(self, plan: Composed) -> Composed:
        """The other sequence model, where the first one has all its epochs and time is left."""
        first, second = SEQUENCE
        if first not in plan.stages or not self.profile.validation:
            return plan
        chosen = self._sized(second, plan, MAX_EPOCHS)
        if chosen.epochs < self._least(second):
            return self._without(plan, second, chosen.epoch, self._least(second))
        why = "a second model of the order of histories: its errors are others"
        return self._sequence_model(plan, second, chosen, why, 60)

    def graph(self, plan: Composed) -> Composed:
        """LightGCN, where users of the training data have many later items and their order counts less."""
        if self.profile.protocol != "global-time" or not self.profile.validation:
            why = f"under {self.profile.protocol} EASE and the order of histories say more of a user"
            return plan.without("lightgcn", why)
        epoch = self.meter.whole_epoch("lightgcn")
        share = GRAPH_SHARE * self.seconds
        epochs = min(_fitting(plan, epoch, share), MAX_EPOCHS)
        if epochs < MIN_EPOCHS:
            return self._without(plan, "lightgcn", epoch, MIN_EPOCHS, share)
        seconds = epochs * epoch * plan.budget.epochs
        train = {"epochs": epochs, "minutes": minutes_of(seconds / plan.budget.epochs)}
        return plan.with_stage(
            "lightgcn",
            nominator("lightgcn", train),
            "users of the training data, by what similar users took",
            self.limit(60),
            seconds,
            epochs=f"an epoch takes about {epoch:.2g} s on {self.profile.machine}",
            minutes=f"of each fit from the start; {seconds:.0f} s in all",
        )

    def states(self, plan: Composed) -> Composed:
        """Two-time-scale users, where users of the training data ask again: elsewhere nobody has an own vector."""
        name, profile = STATES.replace("-", "_"), self.profile
        if profile.protocol != "global-time" or not profile.validation:
            why = f"under {profile.protocol} requests do not follow the training events of known users"
            return plan.without(name, f"{why}; sequence models follow the events of new ones")
        if profile.rankable < MIN_SEQUENCES:
            return plan.without(name, self.few(MIN_SEQUENCES))
        if not self.meter.accepts(STATES):
            return plan.without(name, "its vectors do not fit into memory")
        epoch = OWN_VECTORS * sum(self.meter.whole_epoch(kind) for kind in (FIRST_STAGE, STATES))
        share = STATE_SHARE * self.seconds
        epochs = min(_fitting(plan, epoch, share), MAX_STATE_EPOCHS)
        if epochs < MIN_STATE_EPOCHS:
            return self._without(plan, name, epoch, MIN_STATE_EPOCHS, share)
        seconds = epochs * epoch * plan.budget.epochs
        train = {
            "first_epochs": epochs,
            "epochs": epochs,
            "minutes": minutes_of(seconds / plan.budget.epochs),
        }
        return plan.with_stage(
            name,
            nominator(STATES, train),
            "own vectors of active users, and a state of each user that follows every event, also in service",
            self.limit(60),
            seconds,
            epochs=f"an epoch of all parts takes about {epoch:.2g} s on {profile.machine}",
            first_epochs="as many as of the recurrences",
            minutes=f"of each fit from the start; {seconds:.0f} s in all",
        )

    def _least(self, kind: str) -> int:
        """The epochs that a sequence model needs: an epoch of a small log has few steps."""
        return FEW_EPOCHS if self.meter.steps(kind) >= MANY_STEPS else MIN_EPOCHS

    def _without(
        self, plan: Composed, name: str, epoch: float, least: int, most: float = float("inf")
    ) -> Composed:
        """The plan without a model whose least number of epochs does not fit."""
        seconds, left = least * epoch * plan.budget.epochs, min(plan.budget.left, most)
        return plan.without(name, self.too_slow(seconds, f"{least} epochs", left))

    def _sequence_model(self, plan: Composed, kind: str, chosen: "Sized", why: str, limit: int) -> Composed:
        seconds = min(chosen.epochs * chosen.epoch * plan.budget.epochs, plan.budget.left)
        minutes = minutes_of(seconds / plan.budget.epochs)
        train = {**chosen.settings, "epochs": chosen.epochs, "minutes": minutes, "ahead": 0}
        return plan.with_stage(
            kind,
            nominator(kind, train),
            why,
            self.limit(limit),
            seconds,
            loss=self._why_loss(kind, chosen.settings),
            max_history=self._why_history(chosen.settings["max_history"]),
            width=f"{self.profile.events:,} training events, and a GPU",
            epochs=f"an epoch takes about {chosen.epoch:.2g} s on {self.profile.machine}",
            ahead="chosen on validation, where requests have several later items",
            minutes=f"of each fit from the start; {seconds:.0f} s in all",
        )

    def _sized(self, kind: str, plan: Composed, most: int) -> "Sized":
        """The largest size of which enough epochs fit, else the smallest."""
        profile = self.profile
        for size in sizes(kind, profile.events, profile.length, profile.gpu):
            loss, epoch, fitting = self._loss(kind, size, plan, most)
            if fitting >= min(ENOUGH_EPOCHS, most):
                break
        return Sized({"loss": loss, **size}, epoch, min(fitting, most))

    def _loss(self, kind: str, size: Mapping[str, int], plan: Composed, most: int) -> tuple[str, float, int]:
        """The loss, the seconds of an epoch and the number of epochs that fit."""
        exact = self._softmax_fits(kind, size)
        epoch = self.meter.epoch(kind, loss="softmax", **size) if exact else float("inf")
        fitting = _fitting(plan, epoch)
        if fitting >= min(ENOUGH_EPOCHS, most):
            return "softmax", epoch, fitting
        sampled = self.meter.epoch(kind, loss="sampled", **size)
        if sampled >= epoch:
            return "softmax", epoch, fitting
        return "sampled", sampled, _fitting(plan, sampled)

    def _why_history(self, length: int) -> str:
        if length == self.profile.length:
            return f"at most {MOST}; {SHARE:.0%} of the training histories are no longer, if this is less"
        return f"of {self.profile.length} items: with these, too few epochs fit"

    def _softmax_fits(self, kind: str, size: Mapping[str, Any]) -> bool:
        small = self.profile.gpu or self.profile.items <= LARGE
        return small and self.meter.accepts(kind, **{**size, "loss": "softmax"})

    def _why_loss(self, kind: str, settings: Mapping[str, Any]) -> str:
        if settings["loss"] == "softmax":
            return f"exact over {self.profile.items:,} items"
        if not self._softmax_fits(kind, settings):
            return f"{self.profile.items:,} items are too many for the exact loss on {self.profile.machine}"
        return f"fewer than {ENOUGH_EPOCHS} epochs of the exact loss over {self.profile.items:,} items fit"

    def towers(self, plan: Composed) -> Composed:
        """Two towers: the next items in any order, categories of items, and users without a history."""
        profile = self.profile
        if profile.rankable < MIN_SEQUENCES:
            return plan.without("towers", self.few(MIN_SEQUENCES))
        seconds = TOWER_EPOCHS * self.meter.epoch("two-tower") * plan.budget.epochs
        limit = min(TOWER_SHARE * self.seconds, plan.budget.left)
        if seconds > limit:
            return plan.without("towers", self.too_slow(seconds, f"{TOWER_EPOCHS} epochs", limit))
        uses = f", and {profile.categories} categories of items" if profile.categories > 1 else ""
        why = f"the next items in any order{uses}"
        return plan.with_stage("towers", nominator("two-tower"), why, self.limit(60), seconds)


def _fitting(plan: Composed, epoch: float, most: float = float("inf")) -> int:
    """The epochs that fit into what is left of the budget and into `most` seconds, with `epoch` seconds each."""
    return int(min(plan.budget.left, most) / (epoch * plan.budget.epochs))
