"""Choose the stages of a pipeline by the profile of a log and the seconds that each of them takes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from shortlist.pipeline import TYPES
from shortlist.pipeline.recipe import StageConfig
from shortlist.train.auto.budget import Budget
from shortlist.train.auto.composed import SLATE, Composed
from shortlist.train.auto.estimates import Meter, RankerSeconds
from shortlist.train.auto.log_profile import MOST_REQUESTS, LogProfile
from shortlist.train.memory import in_words
from shortlist.train.models.ease import MAX_ITEMS, TRAINING_BYTES
from shortlist.train.rankers.out_of_fold import OutOfFoldConfig

SEQUENCE = ("sasrec", "gru4rec")  # the better first
MORE_TIME = "raise --minutes"
MIN_REQUESTS = 100  # training requests that a ranker needs
MIN_SEQUENCES = 50  # training requests that a sequence model needs
MIN_EPOCHS = 20  # of a sequence model; with fewer it may not have learned more than popularity
ENOUGH_EPOCHS = 25  # with the exact loss; where fewer fit, the sampled loss is cheaper
MAX_EPOCHS = 60
EPOCHS_WITHOUT_VALIDATION = 10
LARGE = 100_000  # items of a large catalogue: limits of the pool are doubled
NEW_USERS = 0.2  # share of requests without a history from which they are many
WIDE = 1000  # candidates from which a pre-ranker pays
EASE_SHARE = 0.4  # of the budget
FOLDS = 4  # of users under half-history; one or two of them are used
SURE = (
    0.9  # of the expected requests of some folds: their sizes are random, and one more fold is one more fit
)
ENOUGH_REQUESTS = 10_000  # with fewer, a ranker is trained longer rather than on fewer requests
TOWER_EPOCHS = 10
TOWER_SHARE = 0.15  # of the budget
RANKER_SHARE = 0.3  # of the budget
UNMEASURED = 2000  # requests: so few train a ranker in seconds
TINY = 1e-6  # seconds
MORE_FEATURES = 1.5  # times the time of a ranker in the trial, which has fewer nominators
MORE_NOMINATORS = 3  # times as many in a plan as in the trial of a ranker


@dataclass(frozen=True)
class Composer:
    """Composes a pipeline for a profile within a number of seconds."""

    profile: LogProfile
    meter: Meter
    seconds: float
    refit: bool = True

    def composed(self) -> Composed:
        """The plan with as many out-of-fold fits as its requests need, with fewer if that leaves room for a model."""
        plans = [self._composed(folds) for folds in self._fits()]
        return min(plans, key=lambda one: sum(MORE_TIME in reason for reason in one.left_out.values()))

    def _fits(self) -> tuple[int, ...]:
        """Out-of-fold fits of each nominator, the better first: the past is one, other users are folds."""
        if not self.from_others or self.profile.rankable // FOLDS >= ENOUGH_REQUESTS:
            return (1,)
        return (2, 1)

    @property
    def from_others(self) -> bool:
        """Whether out-of-fold candidates come from nominators of other users."""
        return OutOfFoldConfig().from_others({"protocol": self.profile.protocol})

    def _composed(self, folds: int) -> Composed:
        """Cheap nominators first, then the ranker, then models by what the budget allows."""
        profile = self.profile
        plan = Composed(budget=Budget(self.seconds, folds, self.refit and profile.validation > 0))
        if not profile.histories:
            return self._popular_only(plan)
        parts = (self._counts, self._ranker, self._neighbours, self._sequence, self._towers, self._refused)
        for part in parts:
            plan = part(plan)
        return self._ordered(plan)

    def _popular_only(self, plan: Composed) -> Composed:
        why = "no user has two training events, so nothing can be learned from histories"
        plan = self._popular(plan, f"{why}; the most popular items are all there is", SLATE)
        for name in (SEQUENCE[0], "ease", "item_knn", "covisit", "last_click", "rank"):
            plan = plan.without(name, why)
        return plan

    def _counts(self, plan: Composed) -> Composed:
        """Nominators that only count."""
        seconds = plan.budget.counts * self.meter.counts("last-click")
        plan = plan.with_stage(
            "last_click",
            _nominator("last-click"),
            "counts of what follows the last item",
            self.limit(40),
            seconds,
        )
        seconds = plan.budget.counts * self.meter.neighbours("co-visit")
        if seconds > EASE_SHARE * self.seconds:
            plan = plan.without("covisit", self._too_slow(seconds))
        else:
            why = "items of the same histories, recent ones first"
            plan = plan.with_stage("covisit", _nominator("co-visit"), why, self.limit(60), seconds)
        plan = self._popular(plan, "candidates for users without a history", self.limit(20))
        return self._trending(plan)

    def _popular(self, plan: Composed, why: str, limit: int) -> Composed:
        return plan.with_stage("popular", _nominator("popular"), why, limit)

    def _trending(self, plan: Composed) -> Composed:
        """Popular in a window, where times are real and the protocol measures requests after the training events."""
        if not self.profile.timed:
            return plan.without("trending", "the log has no times")
        if self.profile.protocol != "global-time":
            why = f"{self.profile.protocol} measures requests of all times, so a window before the end says nothing"
            return plan.without("trending", why)
        config = _nominator("popular", days=14.0)
        return plan.with_stage(
            "trending", config, "the log has times, and the test part is the latest", self.limit(20)
        )

    def _ranker(self, plan: Composed) -> Composed:
        profile = self.profile
        if profile.rankable < MIN_REQUESTS:
            return plan.without("rank", f"{self._few(MIN_REQUESTS)}; ranks are fused")
        kind, why = _ranker_type(profile)
        most, share = self._most_requests(plan), RANKER_SHARE * self.seconds / plan.budget.rankers
        cost = self.meter.ranker(kind) if most > UNMEASURED else RankerSeconds(TINY, TINY, TINY)
        once, each = MORE_FEATURES * cost.once, MORE_FEATURES * cost.train
        requests = min(most, max(int(share / each), min(ENOUGH_REQUESTS, int(share / (2 * once)))))
        if requests < MIN_REQUESTS:
            seconds = MIN_REQUESTS * 2 * once * plan.budget.rankers
            return plan.without("rank", self._too_slow(seconds, limit=RANKER_SHARE * self.seconds))
        seconds = min(requests * each, share)
        minutes = max(round((share - requests * once) / 60, 2), 0.01)
        plan = plan.with_stage(
            "rank",
            StageConfig(kind, {}, {"minutes": minutes}),
            why,
            seconds=seconds * plan.budget.rankers,
            minutes=f"of each fit; about {seconds:.0f} s are expected for {requests:,} requests",
        )
        answered = profile.validation + profile.test + plan.budget.rankers * requests
        plan = plan.spending("answers", answered * MORE_NOMINATORS * cost.answer)
        return self._requests(plan, requests, most)

    def _few(self, least: int) -> str:
        count = self.profile.rankable
        where = "" if count else ": no user has training events before and after a cut"
        return f"{count} training requests are too few (at least {least}){where}"

    def _most_requests(self, plan: Composed) -> int:
        """Training requests that the out-of-fold fits of this plan give, also where folds are small."""
        share = SURE * plan.budget.folds / FOLDS if self.from_others else 1.0
        return max(min(round(share * self.profile.rankable), MOST_REQUESTS), 1)

    def _requests(self, plan: Composed, requests: int, most: int) -> Composed:
        """The table [train]."""
        cut = "as many as can be trained on in time" if requests < most else "all there are"
        plan = replace(plan, training={"requests": requests}).because("train.requests", cut)
        if not self.from_others:
            return plan
        fits = "one fold is" if plan.budget.folds == 1 else f"{plan.budget.folds} folds are"
        why = f"nominators of a fold know the other {FOLDS - 1}; {fits} enough for the requests"
        plan = replace(plan, training={"folds": FOLDS, **plan.training}).because("train.folds", why)
        return plan if requests < most else plan.because("train.requests", f"of {plan.budget.folds} folds")

    def _neighbours(self, plan: Composed) -> Composed:
        """EASE, or item neighbours where EASE is too large or too slow."""
        items, memory = self.profile.items, self.profile.memory
        if items > MAX_ITEMS:
            why = f"{items:,} items, at most {MAX_ITEMS:,}: its weights are items x items"
        elif memory is not None and (1 + self.refit) * TRAINING_BYTES * items**2 > memory:
            need = (1 + self.refit) * TRAINING_BYTES * items**2
            why = f"needs about {in_words(need)} of memory, {in_words(memory)} are available"
        elif (seconds := plan.budget.counts * self.meter.ease()) > EASE_SHARE * self.seconds:
            why = self._too_slow(seconds)
        else:
            return plan.with_stage(
                "ease",
                _nominator("ease"),
                f"{items:,} items: a closed form, about {seconds:.0f} s in all",
                self.limit(100),
                seconds,
            )
        return self._item_knn(plan.without("ease", why))

    def _item_knn(self, plan: Composed) -> Composed:
        seconds = plan.budget.counts * self.meter.neighbours("item-knn")
        if seconds > EASE_SHARE * self.seconds:
            return plan.without("item_knn", self._too_slow(seconds))
        why = "item neighbours in place of EASE"
        return plan.with_stage("item_knn", _nominator("item-knn"), why, self.limit(100), seconds)

    def _sequence(self, plan: Composed) -> Composed:
        """SASRec with the exact loss, or the sampled one where too few epochs of the exact one fit; else GRU4Rec."""
        profile = self.profile
        if profile.rankable < MIN_SEQUENCES:
            return plan.without("sasrec", self._few(MIN_SEQUENCES))
        most = MAX_EPOCHS if profile.validation else EPOCHS_WITHOUT_VALIDATION
        for kind in SEQUENCE:
            loss, epoch, fitting = self._loss(kind, plan, most)
            if fitting >= MIN_EPOCHS:
                return self._sequence_model(plan, kind, loss, epoch, min(most, fitting))
            seconds = MIN_EPOCHS * epoch * plan.budget.epochs
            plan = plan.without(kind, self._too_slow(seconds, f"{MIN_EPOCHS} epochs", plan.budget.left))
        return plan

    def _sequence_model(self, plan: Composed, kind: str, loss: str, epoch: float, epochs: int) -> Composed:
        seconds = min(epochs * epoch * plan.budget.epochs, plan.budget.left)
        minutes = round(seconds / plan.budget.epochs / 60, 2)
        train = {"loss": loss, "epochs": epochs, "minutes": max(minutes, 0.01), "ahead": 0}
        return plan.with_stage(
            kind,
            _nominator(kind, train),
            "the order of histories",
            self.limit(100),
            seconds,
            loss=self._why_loss(kind, loss),
            epochs=f"an epoch takes about {epoch:.2g} s on {self.profile.machine}",
            ahead="chosen on validation, where requests have several later items",
            minutes=f"of each fit from the start; {seconds:.0f} s in all",
        )

    def _loss(self, kind: str, plan: Composed, most: int) -> tuple[str, float, int]:
        """The loss, the seconds of an epoch and the number of epochs that fit."""
        epoch = self.meter.epoch(kind, loss="softmax") if self._softmax_fits(kind) else float("inf")
        fitting = int(plan.budget.left / (epoch * plan.budget.epochs))
        if fitting >= min(ENOUGH_EPOCHS, most):
            return "softmax", epoch, fitting
        sampled = self.meter.epoch(kind, loss="sampled")
        if sampled >= epoch:
            return "softmax", epoch, fitting
        return "sampled", sampled, int(plan.budget.left / (sampled * plan.budget.epochs))

    def _softmax_fits(self, kind: str) -> bool:
        small = self.profile.gpu or self.profile.items <= LARGE
        return small and self.meter.accepts(kind, loss="softmax")

    def _why_loss(self, kind: str, loss: str) -> str:
        if loss == "softmax":
            return f"exact over {self.profile.items:,} items"
        if not self._softmax_fits(kind):
            return f"{self.profile.items:,} items are too many for the exact loss on {self.profile.machine}"
        return f"fewer than {ENOUGH_EPOCHS} epochs of the exact loss over {self.profile.items:,} items fit"

    def _towers(self, plan: Composed) -> Composed:
        """Two towers for catalogues with categories, and for many users without a history."""
        profile = self.profile
        described, many_new = profile.categories > 1, profile.new_users >= NEW_USERS
        if not described and not many_new:
            return plan.without("towers", "the catalogue has no categories, and few test users are new")
        seconds = TOWER_EPOCHS * self.meter.epoch("two-tower") * plan.budget.epochs
        if seconds > min(TOWER_SHARE * self.seconds, plan.budget.left):
            limit = min(TOWER_SHARE * self.seconds, plan.budget.left)
            return plan.without("towers", self._too_slow(seconds, f"{TOWER_EPOCHS} epochs", limit))
        why = (
            f"items have {profile.categories} categories"
            if described
            else f"{profile.new_users:.0%} of the test users are new"
        )
        return plan.with_stage("towers", _nominator("two-tower"), why, self.limit(60), seconds)

    def _refused(self, plan: Composed) -> Composed:
        """What is never planned here, with the reason."""
        large = self.profile.items > LARGE
        tree = (
            "its training time cannot be bounded; train a shipped tree recipe beside this one and compare them"
            if large
            else f"{self.profile.items:,} items can all be scored; a tree pays above {LARGE:,}"
        )
        width = sum(plan.limits.values())
        prerank = f"the pool has at most {width} candidates; a pre-ranker pays above {WIDE:,}"
        return (
            plan.without("tree", tree)
            .without("prerank", prerank)
            .without("diverse", "only on request: edit the recipe")
        )

    def _ordered(self, plan: Composed) -> Composed:
        """Personal nominators first: an item that two nominate belongs to the first."""
        order = (
            *SEQUENCE,
            "ease",
            "item_knn",
            "towers",
            "covisit",
            "last_click",
            "trending",
            "popular",
            "rank",
        )
        width = sum(plan.limits.values())
        why = f"{width} candidates at most; nominators leave out items of the history"
        stages = {name: plan.stages[name] for name in order if name in plan.stages}
        limits = {name: plan.limits[name] for name in order if name in plan.limits}
        return replace(plan, stages=stages, limits=limits).because("pipeline", why)

    def limit(self, usual: int) -> int:
        """Candidates of a nominator: fewer in a small catalogue, more in a large one."""
        return min(usual if self.profile.items <= LARGE else 2 * usual, max(self.profile.items // 3, SLATE))

    def _too_slow(self, seconds: float, what: str = "its fits", limit: float | None = None) -> str:
        limit = EASE_SHARE * self.seconds if limit is None else limit
        return f"{what} would take about {seconds:,.0f} s, {limit:,.0f} s are left for it; {MORE_TIME}"


POOL_SETTINGS = {"exclude_seen": True, "score_pool": True}


def _nominator(kind: str, train: Mapping[str, Any] | None = None, **settings: Any) -> StageConfig:
    """A nominator that leaves out the history, and scores the whole pool where it can."""
    known = {one.name for one in TYPES[kind].declared()}
    pool = {name: value for name, value in POOL_SETTINGS.items() if name in known}
    return StageConfig(kind, {**pool, **settings}, train or {})


def _ranker_type(profile: LogProfile) -> tuple[str, str]:
    """The type of the ranker and why."""
    columns = f", and the columns {', '.join(profile.columns)} of the catalogue" if profile.columns else ""
    uses = f"scores and ranks of all nominators, counts and histories{columns}"
    if not profile.lightgbm:
        return "feature-ranker", f"{uses}; a network, because LightGBM is not installed"
    return "blend-ranker", f"{uses}; a network and boosted trees"
