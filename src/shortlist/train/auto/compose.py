"""Choose the stages of a pipeline by the profile of a log and the seconds that each of them takes."""

from dataclasses import dataclass, replace

from shortlist.pipeline.recipe import StageConfig
from shortlist.train.auto.budget import Budget
from shortlist.train.auto.composed import SLATE, Composed
from shortlist.train.auto.estimates import RankerSeconds
from shortlist.train.auto.large import with_tree
from shortlist.train.auto.log_profile import MOST_REQUESTS, LogProfile
from shortlist.train.auto.measured import measured_requests, why_sampled
from shortlist.train.auto.models import SEQUENCE, ModelParts
from shortlist.train.auto.parts import EASE_SHARE, MORE_TIME, minutes_of, nominator
from shortlist.train.models.counting.ease import MAX_ITEMS, TRAINING_BYTES
from shortlist.train.preparation.memory import in_words
from shortlist.train.rankers.training_data.out_of_fold import OutOfFoldConfig

RANKER = "blend-ranker"
REPEATED = 0.02  # share of the events from which items of the history are nominated
MIN_REQUESTS = 100  # training requests that a ranker needs
WIDE = 1000  # candidates from which a pre-ranker pays
FOLDS = 4  # of users under half-history; one or two of them are used
SURE = (
    0.9  # of the expected requests of some folds: their sizes are random, and one more fold is one more fit
)
ENOUGH_REQUESTS = 10_000  # with fewer, a ranker is trained longer rather than on fewer requests
RANKER_SHARE = 0.3  # of the budget
UNMEASURED = 2000  # requests: so few train a ranker in seconds
TINY = 1e-6  # seconds
MORE_FEATURES = 1.2  # times the time of a ranker in the trial, which has fewer nominators
MORE_NOMINATORS = 2  # times as many in a plan as in the trial of a ranker


@dataclass(frozen=True)
class Composer(ModelParts):
    """Composes a pipeline for a profile within a number of seconds."""

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
        models = (self.graph, self.states, self._tree, self.towers, self.sequence, self.second_sequence)
        for part in (self._counts, self._repeat, self._ranker, self._neighbours, *models, self._refused):
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
            nominator("last-click"),
            "counts of what follows the last item",
            self.limit(40),
            seconds,
        )
        seconds = plan.budget.counts * self.meter.neighbours("co-visit")
        if seconds > EASE_SHARE * self.seconds:
            plan = plan.without("covisit", self.too_slow(seconds))
        else:
            why = "items of the same histories, recent ones first"
            plan = plan.with_stage("covisit", nominator("co-visit"), why, self.limit(60), seconds)
        plan = self._popular(plan, "candidates for users without a history", self.limit(20))
        return self._trending(plan)

    def _popular(self, plan: Composed, why: str, limit: int) -> Composed:
        return plan.with_stage("popular", nominator("popular"), why, limit)

    def _trending(self, plan: Composed) -> Composed:
        """Popular in a window, where times are real and the protocol measures requests after the training events."""
        if not self.profile.timed:
            return plan.without("trending", "the log has no times")
        if self.profile.protocol != "global-time":
            why = f"{self.profile.protocol} measures requests of all times, so a window before the end says nothing"
            return plan.without("trending", why)
        config = nominator("popular", days=14.0)
        return plan.with_stage(
            "trending", config, "the log has times, and the test part is the latest", self.limit(20)
        )

    def _repeat(self, plan: Composed) -> Composed:
        """Items of the history, where users take items again; the other nominators leave them out."""
        share = f"{self.profile.repeats:.1%} of the training events are of an item that the user had before"
        if self.profile.repeats < REPEATED:
            return plan.without("repeat", f"{share}, less than {REPEATED:.0%}")
        return plan.with_stage("repeat", nominator("repeat"), share, self.limit(100))

    def _ranker(self, plan: Composed) -> Composed:
        profile = self.profile
        if profile.rankable < MIN_REQUESTS:
            return plan.without("rank", f"{self.few(MIN_REQUESTS)}; ranks are fused")
        most, share = self._most_requests(plan), RANKER_SHARE * self.seconds / plan.budget.rankers
        cost = self.meter.ranker(RANKER) if most > UNMEASURED else RankerSeconds(TINY, TINY, TINY)
        once, each = MORE_FEATURES * cost.once, MORE_FEATURES * cost.train
        requests = min(most, max(int(share / each), min(ENOUGH_REQUESTS, int(share / (2 * once)))))
        if requests < MIN_REQUESTS:
            seconds = MIN_REQUESTS * 2 * once * plan.budget.rankers
            return plan.without("rank", self.too_slow(seconds, limit=RANKER_SHARE * self.seconds))
        seconds = min(requests * each, share)
        minutes = minutes_of(share - requests * once)
        plan = plan.with_stage(
            "rank",
            StageConfig(RANKER, {}, {"minutes": minutes}),
            _why_ranker(profile),
            seconds=seconds * plan.budget.rankers,
            minutes=f"of each fit; about {seconds:.0f} s are expected for {requests:,} requests",
        )
        plan = self._answers(plan, requests, MORE_NOMINATORS * cost.answer)
        return self._requests(plan, requests, most)

    def _answers(self, plan: Composed, requests: int, answer: float) -> Composed:
        """The time of all answers, and how many held-out requests are measured."""
        profile, measured = self.profile, measured_requests(self.profile, self.seconds, answer)
        held_out = min(profile.validation, measured) + min(profile.test, measured)
        plan = plan.spending("answers", (held_out + plan.budget.rankers * requests) * answer)
        for name, why in why_sampled(profile, measured).items():
            plan = replace(plan.without(name, why), measured=measured)
        return plan

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
            why = self.too_slow(seconds)
        else:
            return plan.with_stage(
                "ease",
                nominator("ease"),
                f"{items:,} items: a closed form, about {seconds:.0f} s in all",
                self.limit(100),
                seconds,
            )
        return self._item_knn(plan.without("ease", why))

    def _item_knn(self, plan: Composed) -> Composed:
        seconds = plan.budget.counts * self.meter.neighbours("item-knn")
        if seconds > EASE_SHARE * self.seconds:
            return plan.without("item_knn", self.too_slow(seconds))
        why = "item neighbours in place of EASE"
        return plan.with_stage("item_knn", nominator("item-knn"), why, self.limit(100), seconds)

    def _tree(self, plan: Composed) -> Composed:
        return with_tree(self, plan)

    def _refused(self, plan: Composed) -> Composed:
        """What is never planned here, with the reason."""
        width = sum(plan.limits.values())
        prerank = f"the pool has at most {width} candidates; a pre-ranker pays above {WIDE:,}"
        plan = plan.without("prerank", prerank)
        return plan.without("diverse", "only on request: edit the recipe")

    def _ordered(self, plan: Composed) -> Composed:
        """Personal nominators first: an item that two nominate belongs to the first."""
        order = (
            *SEQUENCE,
            "two_time_scale",
            "ease",
            "item_knn",
            "lightgcn",
            "towers",
            "tree",
            "covisit",
            "last_click",
            "repeat",
            "trending",
            "popular",
            "rank",
        )
        width = sum(plan.limits.values())
        seen = "only repeat nominates" if "repeat" in plan.stages else "nominators leave out"
        why = f"{width} candidates at most; {seen} items of the history"
        stages = {name: plan.stages[name] for name in order if name in plan.stages}
        limits = {name: plan.limits[name] for name in order if name in plan.limits}
        return replace(plan, stages=stages, limits=limits).because("pipeline", why)


def _why_ranker(profile: LogProfile) -> str:
    """What the ranker uses and is."""
    columns = f", and the columns {', '.join(profile.columns)} of the catalogue" if profile.columns else ""
    parts = "boosted trees" if profile.lightgbm else "no boosted trees, because LightGBM is not installed"
    return f"scores and ranks of all nominators, counts and histories{columns}; a network and {parts}"
